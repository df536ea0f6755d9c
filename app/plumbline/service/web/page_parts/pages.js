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
  const live = document.querySelector("[data-events]");
  if (live) {
    const events = new EventSource(live.dataset.events);
    const put = (name, text) => {
      const element = live.querySelector(`[data-live="${name}"]`);
      if (element) element.textContent = text;
    };
    events.addEventListener("job", (event) => {
      const job = JSON.parse(event.data);
      const words = JSON.parse(live.querySelector("[data-words]").dataset.words);
      // The page of a job in another state has other buttons and figures.
      if (!(job.status in words) || (live.dataset.status && live.dataset.status !== job.status)) { events.close(); location.reload(); return; }
      live.dataset.status = job.status;
      const done = job.request_counts.completed + job.request_counts.failed;
      put("status", words[job.status]);
      put("done", done.toLocaleString("en"));
      for (const tier of ["llm", "embedding", "lexical"]) put(tier, job.outcomes.tiers[tier].toLocaleString("en"));
      if (job.usage.cost !== null) put("cost", job.usage.cost.toFixed(4));
      if (job.rows_per_second !== null) put("rate", job.rows_per_second.toFixed(1));
      put("left", job.eta_seconds === null ? "–" : `${Math.ceil(job.eta_seconds)} s`);
      const bar = live.querySelector("progress");
      if (bar && job.request_counts.total) { bar.max = job.request_counts.total; bar.value = done; }
    });
    addEventListener("pagehide", () => events.close());
  }
  const marking = document.querySelector("[data-label]");
  if (marking) {
    let isSent = false;
    marking.addEventListener("submit", (event) => {
      if (isSent) event.preventDefault();
      isSent = true;
    });
    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
      let button = marking.querySelector(`[data-key="${CSS.escape(event.key.toLowerCase())}"]:not(:disabled)`);
      const box = marking.querySelectorAll("[name=sentence]")[Number(event.key) - 1];
      if (box) { box.checked = true; button = marking.querySelector("[data-key=u]"); }
      if (button) { event.preventDefault(); button.click(); }
    });
  }
  if (location.hash === "#result") document.getElementById("result")?.focus();
})();
