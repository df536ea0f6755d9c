"""Metrics, counted as things happen or read from parts of the service; `docs/how-to/observability.md` lists them."""

import asyncio
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from plumbline.ground.errors import FailureReason, StoreUnavailable
from plumbline.ground.work_queue import WorkQueue
from plumbline.judging.ports.observation import ANSWERED, INTERRUPTED
from plumbline.judging.ports.token_vectors import EncoderCounts
from plumbline.rows.jobs.job import NO_JOBS, JobStats

if TYPE_CHECKING:
    from plumbline.rows.jobs.store import JobStore

# A mode of prometheus_client, for gauges of several processes.
_LIVE_SUM: Final = {"multiprocess_mode": "livesum"}
_KINDS: Final[Mapping[str, Any]] = {"counter": Counter, "gauge": Gauge, "histogram": Histogram}
_METRICS: Final = tomllib.loads(files("plumbline.service.metrics").joinpath("metrics.toml").read_text(encoding="utf-8"))


# Decisions of a tier by rule and outcome, that of a caller's threshold apart.
_TRIAGE: Final = (("copied", "passed"), ("covered", "passed"), ("hard_reason", "failed"), ("unsure", "unsure"))
_DECISIONS: Final = {
    "llm": (("all_supported", "passed"), ("all_supported", "failed")),
    "detector": (("calibrated", "passed"), ("calibrated", "failed")),
}


class Measured(SimpleNamespace):
    """The metrics of one process, by the names in `metrics.toml`.

    Series with known labels start at 0: the first failure is then an increase. Gauges are summed over the live
    processes that serve together.
    """

    def __init__(self, registry: CollectorRegistry, *, tiers: Sequence[str], row_statuses: Sequence[str]) -> None:
        for attribute, each in _METRICS.items():
            labels, kind = each.get("labels", ()), each["kind"]
            more = {"buckets": each["bounds"]} if kind == "histogram" else _LIVE_SUM if kind == "gauge" else {}
            made = _KINDS[kind](each["name"], each["text"], labels, registry=registry, **more)
            setattr(self, attribute, made)
        for tier in tiers:
            self.tier_seconds.labels(tier)
            for rule, decision in _DECISIONS.get(tier, _TRIAGE):
                self.decisions.labels(tier, rule, decision)
            for outcome in (ANSWERED, "failed", INTERRUPTED):
                self.tier_attempts.labels(tier, outcome)
            for reason in FailureReason:
                self.tier_failures.labels(tier, reason.value)
        for lookup in ("hit", "miss", "bypass"):
            self.verdict_lookups.labels(lookup)
        for status in row_statuses:
            self.job_rows.labels(status)


_FRESH_SECONDS: Final = 5.0
# A scrape gives up after 10 s; without the store it still reports everything else.
_STORE_SECONDS: Final = 2.0


class WatchedParts:
    """Counts that parts keep themselves, brought up to date by `update`: other processes read the metrics, too."""

    def __init__(self, measured: Measured) -> None:
        self._measured = measured
        self._before: dict[Counter, float] = {}
        self._counts: Callable[[], EncoderCounts] = EncoderCounts
        self._queues: Mapping[str, WorkQueue] = {}

    def watch(
        self, counts: Callable[[], EncoderCounts] | None = None, queues: Mapping[str, WorkQueue] | None = None
    ) -> None:
        """Read these from now on, all of whose counts begin at 0."""
        self._counts, self._queues = counts or self._counts, queues or self._queues
        self._before.clear()

    def update(self) -> None:
        metrics, now = self._measured, self._counts()
        self._advance(metrics.encoder_sentences, now.texts)
        self._advance(metrics.encoder_tokens, now.tokens)
        lookups = {"hit": now.cache_hits, "miss": now.cache_misses - now.joined, "joined": now.joined}
        for outcome, count in lookups.items():
            self._advance(metrics.encoder_lookups.labels(outcome), count)
        metrics.encoder_queued.set(now.queued_tokens)
        metrics.encoder_cache.set(now.cache_bytes)
        for name, queue in self._queues.items():
            self._advance(metrics.work_refused.labels(name), queue.refused)
            self._advance(metrics.work_estimated.labels(name), queue.estimated_seconds)
            self._advance(metrics.work_taken.labels(name), queue.taken_seconds)
            metrics.work_waiting.labels(name).set(queue.waiting_characters())
            metrics.work_rate.labels(name).set(queue.characters_per_second)

    def _advance(self, counter: Counter, value: float) -> None:
        counter.inc(value - self._before.get(counter, 0.0))
        self._before[counter] = value


class StoreMetrics(Collector):
    """The last statistics of jobs; every state has a series."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._stats: JobStats = NO_JOBS
        self._is_up: bool | None = None
        self._looked = float("-inf")
        self._looking = asyncio.Lock()

    async def look(self, store: "JobStore | None") -> None:
        """Refresh the statistics if they are a few seconds old; keep them if the store fails."""
        async with self._looking:
            if self._clock() - self._looked < _FRESH_SECONDS or store is None:
                return
            try:
                async with asyncio.timeout(_STORE_SECONDS):
                    self._stats = await store.job_stats()
                self._is_up = True
            except (StoreUnavailable, TimeoutError):
                self._is_up = False
            self._looked = self._clock()

    def collect(self) -> Iterator[Metric]:
        if self._is_up is None:
            return
        yield GaugeMetricFamily("plumbline_job_store_up", "1 while the job store can be read.", int(self._is_up))
        jobs = GaugeMetricFamily("plumbline_jobs", "Jobs by state, of all callers.", labels=("state",))
        for state, count in self._stats.jobs.items():
            jobs.add_metric((state.value,), count)
        yield jobs
        chunks = GaugeMetricFamily(
            "plumbline_job_chunks", "Chunks of open jobs: waiting, and leased by some process.", labels=("state",)
        )
        chunks.add_metric(("waiting",), self._stats.chunks_waiting)
        chunks.add_metric(("leased",), self._stats.chunks_leased)
        yield chunks


# Where Linux shows those that are alive.
_PROCESSES: Final = Path("/proc")


class WorkerProcesses(Collector):
    """CPU, memory and descriptors of all processes that serve together: sums, and the start of the oldest.

    It removes the live gauges of dead processes from the folder of their counts, before these are read.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def collect(self) -> Iterator[Metric]:
        for gauge in self._folder.glob("gauge_live*_*.db") if _PROCESSES.exists() else ():
            if not (_PROCESSES / gauge.stem.rpartition("_")[2]).exists():
                gauge.unlink(missing_ok=True)
        merged: dict[str, Metric] = {}
        for pid in {path.stem.rpartition("_")[2] for path in self._folder.glob("gauge_live*_*.db")}:
            for metric in ProcessCollector(pid=partial(str, pid), registry=None).collect():
                before = merged.setdefault(metric.name, metric)
                if before is not metric:
                    combine = min if metric.name == "process_start_time_seconds" else sum
                    (old,), (new,) = before.samples, metric.samples
                    before.samples = [old._replace(value=combine((old.value, new.value)))]
        yield from merged.values()
