"use strict";
// Every page works without this script.
(() => {
  for (const button of document.querySelectorAll("[data-copy]")) {
    if (!navigator.clipboard) continue;
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(button.parentElement.querySelector("code").textContent);
      button.textContent = button.dataset.done;
    });
  }
  for (const anchor of document.querySelectorAll('a[href^="#context-"]')) {
    anchor.addEventListener("click", () => { document.querySelector(anchor.hash).open = true; });
  }
  const isKey = (event) =>
    !(event.ctrlKey || event.metaKey || event.altKey || event.repeat || event.target.matches("input:not([type=checkbox], [type=radio]), textarea, select"));
  document.addEventListener("keydown", (event) => {
    const by = { j: 1, k: -1 }[event.key];
    if (!by || !isKey(event)) return;
    const rows = [...document.querySelectorAll("main tbody tr, main [data-row]")].map((row) => row.querySelector("a, summary")).filter(Boolean);
    const at = rows.indexOf(document.activeElement);
    const next = document.querySelector(by > 0 ? "a[rel=next]" : "a[rel=prev]");
    if (next && !rows.length) { next.click(); return; }
    const row = rows[at < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.min(Math.max(at + by, 0), rows.length - 1)];
    row?.focus();
    row?.scrollIntoView({ block: "center" });
  });
  const upload = document.querySelector("[data-upload]");
  upload?.querySelector("input[type=file]").addEventListener("change", () => { upload.requestSubmit(); });
  const live = document.querySelector("[data-state]");
  if (live) {
    const put = (name, text) => {
      const element = live.querySelector(`[data-live="${name}"]`);
      if (element) element.textContent = text;
    };
    const show = (job) => {
      const done = job.request_counts.completed + job.request_counts.failed;
      put("done", done.toLocaleString("en"));
      for (const tier of ["llm", "embedding", "lexical"]) put(tier, job.outcomes.tiers[tier].toLocaleString("en"));
      if (job.usage.cost !== null) put("cost", job.usage.cost.toFixed(4));
      if (job.rows_per_second !== null) put("rate", job.rows_per_second.toFixed(1));
      put("left", job.eta_seconds === null ? "–" : `${Math.ceil(job.eta_seconds)} s`);
      const bar = live.querySelector("progress");
      if (bar && job.request_counts.total) { bar.max = job.request_counts.total; bar.value = done; }
    };
    let pause = 500;
    const look = async () => {
      // Nobody looks at a hidden page, and an answer that fails is asked for again.
      const response = document.hidden ? null : await fetch(live.dataset.state).catch(() => null);
      const job = response?.ok ? await response.json().catch(() => null) : null;
      // The page of a job in another state has other buttons and figures; that of one that is gone says so.
      if (job ? job.status !== live.dataset.status : [401, 404].includes(response?.status)) { location.reload(); return; }
      if (job) show(job);
      pause = Math.min(pause * 1.5, 5000);
      setTimeout(look, pause);
    };
    setTimeout(look, pause);
  }
  const marking = document.querySelector("[data-label]");
  if (marking) {
    let isSent = false;
    marking.addEventListener("submit", (event) => {
      if (isSent) event.preventDefault();
      isSent = true;
    });
    document.addEventListener("keydown", (event) => {
      if (!isKey(event)) return;
      let button = marking.querySelector(`[data-key="${CSS.escape(event.key.toLowerCase())}"]:not(:disabled)`);
      const box = marking.querySelectorAll("[name=sentence]")[Number(event.key) - 1];
      if (box) { box.checked = true; button = marking.querySelector("[data-key=u]"); }
      if (button) { event.preventDefault(); button.click(); }
    });
  }
  if (location.hash === "#result") document.getElementById("result")?.focus();
})();
