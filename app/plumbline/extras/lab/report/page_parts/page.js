"use strict";
// The page is whole without this script, which only sorts and hides what stands there.
(() => {
  const order = (a, b) => {
    const [x, y] = [Number(a), Number(b)];
    return a !== "" && b !== "" && !Number.isNaN(x) && !Number.isNaN(y) ? x - y : a.localeCompare(b);
  };
  for (const section of document.querySelectorAll("section.corpus")) {
    const table = section.querySelector("table.systems");
    const body = table.tBodies[0];
    const rows = Array.from(body.rows);
    const heads = Array.from(table.tHead.rows[0].cells);
    heads.forEach((head, place) => {
      const button = document.createElement("button");
      button.type = "button";
      button.title = table.dataset.sort.replace("{column}", head.textContent);
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const isText = place < 2;
        const turn = head.ariaSort === (isText ? "ascending" : "descending") ? !isText : isText;
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.ariaSort = turn ? "ascending" : "descending";
        const key = (row) => row.cells[place].dataset.key;
        // What was not measured stands last either way
        const sorted = rows.slice().sort(
          (a, b) => (key(a) === "") - (key(b) === "") || (turn ? 1 : -1) * order(key(a), key(b)));
        body.append(...sorted);
      });
    });
    const filter = section.querySelector(".filter");
    const said = filter.querySelector("[aria-live]");
    filter.hidden = rows.length < 2;
    filter.querySelector("input").addEventListener("input", (event) => {
      const words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
      const fits = (name) => words.every((word) => name.toLowerCase().includes(word));
      section.querySelectorAll("[data-system]").forEach((element) => {
        element.style.display = fits(element.dataset.system) ? "" : "none";
      });
      said.textContent = words.length ? `${rows.filter((row) => fits(row.dataset.system)).length} / ${rows.length}` : "";
    });
  }
})();
