"""Count events of the service and write them as a page for Prometheus; one page for several processes."""

import asyncio
import platform
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Info, ProcessCollector, disable_created_metrics
from prometheus_client.exposition import choose_encoder, start_wsgi_server
from prometheus_client.multiprocess import MultiProcessCollector

from plumbline.ground.work_queue import WorkQueue
from plumbline.judging.ports.observation import (
    ANSWERED,
    INTERRUPTED,
    CacheOutcome,
    JudgeCallRecord,
    Observer,
    RequestRecord,
    TierRecord,
)
from plumbline.service.metrics.measured import Measured, StoreMetrics, WatchedParts, WorkerProcesses

if TYPE_CHECKING:
    # Imports SQLAlchemy, which commands without jobs can do without.
    from plumbline.rows.jobs.store import JobStore

_LOOK_SECONDS: Final = 0.25


class Metrics(Observer):
    """Counts of one service.

    `row_statuses`: final states of rows of jobs; `models`: provider and name of each chat model that is configured;
    `folder`: of the counts of all processes that serve together; None for one.
    """

    def __init__(
        self,
        *,
        version: str,
        tiers: Sequence[str],
        row_statuses: Sequence[str],
        models: Sequence[tuple[str, str]] = (),
        folder: Path | None = None,
    ) -> None:
        # The start times of series would double the page, and nothing reads them.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._counted = CollectorRegistry()
        self._page = self._counted if folder is None else CollectorRegistry()
        self._measured = Measured(self._counted, tiers=tiers, row_statuses=row_statuses)
        for provider, model in models:
            self._measured.judge_calls.labels(provider, model, ANSWERED)
        if folder is None:
            ProcessCollector(registry=self._page)
        else:
            self._page.register(WorkerProcesses(folder))
            MultiProcessCollector(self._page, str(folder))  # type: ignore[no-untyped-call]
        build = Info("plumbline_build", "Version of the service and of Python.", registry=self._page)
        build.info({"version": version, "python": platform.python_version()})
        self._store = StoreMetrics()
        self._page.register(self._store)
        self._parts = WatchedParts(self._measured)

    # --- read at a scrape

    def watch_encoder(self, encoder: object) -> None:
        self._parts.watch(counts=getattr(encoder, "counts", None))

    def watch_work(self, queues: Mapping[str, WorkQueue]) -> None:
        self._parts.watch(queues=queues)

    async def page(self, accept: str, store: "JobStore | None") -> tuple[bytes, str]:
        """Return all metrics and their media type, that of OpenMetrics if the header `accept` asks for it."""
        self._parts.update()
        await self._store.look(store)
        encoder, media_type = choose_encoder(accept)
        return encoder(self._page), media_type

    @contextmanager
    def serve(self, host: str, port: int) -> Iterator[int]:
        """Serve scrapes in a thread, without a key, and yield the port; for a process without HTTP."""
        server, thread = start_wsgi_server(port, host, self._page)
        try:
            yield server.server_port
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    async def watch_loop(self, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Measure the lag of the event loop and update what is read from parts, until cancelled."""
        while True:
            due = time.perf_counter() + _LOOK_SECONDS
            await sleep(_LOOK_SECONDS)
            self._measured.loop_lag.observe(max(0.0, time.perf_counter() - due))
            self._parts.update()

    # --- events

    @contextmanager
    def request(self, note: RequestRecord) -> Iterator[None]:
        started = time.perf_counter()
        self._measured.requests_in_flight.inc()
        try:
            yield
        finally:
            self._measured.requests_in_flight.dec()
            self._measured.requests.labels(note.route, note.method, f"{note.status // 100}xx").inc()
            self._measured.request_seconds.labels(note.route, note.method).observe(time.perf_counter() - started)

    @contextmanager
    def tier(self, note: TierRecord) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            is_failed = note.outcome not in (ANSWERED, INTERRUPTED)
            self._measured.tier_seconds.labels(note.tier).observe(time.perf_counter() - started)
            self._measured.tier_attempts.labels(note.tier, "failed" if is_failed else note.outcome).inc()
            if is_failed:
                self._measured.tier_failures.labels(note.tier, note.outcome).inc()

    @contextmanager
    def judge_call(self, note: JudgeCallRecord) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            if note.has_left:
                self._count_call(note, time.perf_counter() - started)

    def _count_call(self, note: JudgeCallRecord, seconds: float) -> None:
        model = (note.provider, note.model)
        self._measured.judge_calls.labels(*model, note.outcome).inc()
        self._measured.judge_seconds.labels(*model).observe(seconds)
        self._measured.judge_tokens.labels(*model, "input").inc(note.prompt_tokens or 0)
        self._measured.judge_tokens.labels(*model, "cached_input").inc(note.cached_tokens or 0)
        self._measured.judge_tokens.labels(*model, "output").inc(note.completion_tokens or 0)
        if note.cost is None:
            self._measured.judge_unpriced.labels(*model).inc()
        else:
            self._measured.judge_cost.labels(*model).inc(note.cost)

    def on_cache_lookup(self, outcome: CacheOutcome) -> None:
        self._measured.verdict_lookups.labels(outcome).inc()

    def on_decision(self, tier: str, rule: str, *, passed: bool | None, score: float) -> None:
        outcome = {True: "passed", False: "failed", None: "unsure"}[passed]
        self._measured.decisions.labels(tier, rule, outcome).inc()

    def chunk_started(self) -> None:
        self._measured.chunks_begun.inc()
        self._measured.chunks_in_progress.inc()

    def chunk_ended(self) -> None:
        self._measured.chunks_in_progress.dec()

    def rows_kept(self, statuses: Sequence[str]) -> None:
        for status in statuses:
            self._measured.job_rows.labels(status).inc()

    def row_quarantined(self) -> None:
        self._measured.rows_quarantined.inc()
