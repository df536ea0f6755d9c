"use strict";
// The list is whole without this script, which only hides, orders and opens what stands there.
(() => {
  const list = document.querySelector("[data-rows]");
  const controls = document.querySelector("[data-controls]");
  if (!list || !controls) return;
  const said = controls.querySelector("[data-said]");
  const nothing = document.querySelector("[data-nothing]");
  const rows = Array.from(list.querySelectorAll("details.row"), (element) => ({
    element,
    text: element.textContent.toLowerCase(),
    tier: element.dataset.tier,
    status: element.dataset.status,
    passed: element.dataset.passed,
    verdicts: element.dataset.verdicts.split(" "),
    contradicted: Number(element.dataset.contradicted),
    score: element.dataset.score === "" ? null : Number(element.dataset.score),
    row: Number(element.dataset.row),
    rank: Number(element.dataset.rank),
  }));
  const field = (name) => controls.querySelector(`[name="${name}"]`);
  const names = ["search", "tier", "status", "verdict", "passed", "sort"];
  // Scores compare within a tier: the tiers stay apart. Rows without a score stand behind all others.
  const tiers = [...new Set(rows.map((row) => row.tier))];
  const best = (a, b) =>
    (a.score === null) - (b.score === null) || tiers.indexOf(a.tier) - tiers.indexOf(b.tier) || b.score - a.score || a.rank - b.rank;
  const orders = {
    worst: (a, b) => a.rank - b.rank,
    best,
    row: (a, b) => a.row - b.row || a.rank - b.rank,
    contradicted: (a, b) => b.contradicted - a.contradicted || a.rank - b.rank,
  };
  const shown = () => rows.filter((row) => !row.element.hidden).sort((a, b) => a.place - b.place);
  const update = () => {
    const wanted = Object.fromEntries(names.map((name) => [name, field(name).value]));
    const words = wanted.search.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const row of rows) {
      const fits =
        (!wanted.tier || row.tier === wanted.tier) &&
        (!wanted.status || row.status === wanted.status) &&
        (!wanted.passed || row.passed === wanted.passed) &&
        (!wanted.verdict || row.verdicts.includes(wanted.verdict)) &&
        words.every((word) => row.text.includes(word));
      row.element.hidden = !fits;
      count += fits;
    }
    rows.slice().sort(orders[wanted.sort] ?? orders.worst).forEach((row, place) => {
      row.place = place;
      list.append(row.element);
    });
    said.textContent = said.dataset.words.replace("{shown}", count).replace("{all}", rows.length);
    nothing.hidden = count > 0;
  };
  const openAll = (open) => shown().forEach((row) => { row.element.open = open; });
  const openTarget = () => {
    const target = document.getElementById(location.hash.slice(1));
    if (!target || !target.matches("details.row")) return;
    if (target.hidden) reset();
    target.open = true;
    target.scrollIntoView();
  };
  const reset = () => {
    for (const name of names) {
      const each = field(name);
      if (each.tagName === "SELECT") each.selectedIndex = 0; else each.value = "";
    }
    update();
  };
  const step = (by) => {
    const there = shown().map((row) => row.element.querySelector("summary"));
    const at = there.indexOf(document.activeElement?.closest("details.row")?.querySelector("summary"));
    const next = there[at < 0 ? (by > 0 ? 0 : there.length - 1) : Math.min(Math.max(at + by, 0), there.length - 1)];
    if (next) { next.focus(); next.scrollIntoView({ block: "center" }); }
  };
  controls.addEventListener("input", update);
  controls.addEventListener("submit", (event) => event.preventDefault());
  controls.querySelector("[data-open]").addEventListener("click", () => openAll(true));
  controls.querySelector("[data-close]").addEventListener("click", () => openAll(false));
  controls.querySelector("[data-reset]").addEventListener("click", reset);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const isTyping = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.key === "Escape" && event.target === field("search")) field("search").blur();
    else if (isTyping) return;
    else if (event.key === "/") { event.preventDefault(); field("search").focus(); }
    else if (event.key === "j") step(1);
    else if (event.key === "k") step(-1);
  });
  addEventListener("hashchange", openTarget);
  controls.hidden = false;
  update();
  openTarget();
})();
