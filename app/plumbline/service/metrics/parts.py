"""Metrics read from parts of the service: the sentence encoder, the job store, the processes that serve together."""

import asyncio
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, ProcessCollector
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from plumbline.ground.errors import StoreUnavailable
from plumbline.judging.ports.token_vectors import EncoderCounts
from plumbline.rows.jobs.store import NO_JOBS, CountsJobs, JobStats
from plumbline.service.metrics.measured import LIVE_SUM

_FRESH_SECONDS: Final = 5.0
# A scrape gives up after 10 s; without the store it still reports everything else.
_STORE_SECONDS: Final = 2.0


class EncoderMetrics:
    """Metrics of a sentence encoder, brought up to date by `update`: other processes read them, too."""

    def __init__(self, registry: CollectorRegistry, counts: Callable[[], EncoderCounts]) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"plumbline_encoder_{name}", text, labels, registry=registry)

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"plumbline_encoder_{name}", text, registry=registry, multiprocess_mode=LIVE_SUM)

        self.watch(counts)
        self._sentences = counter("sentences", "Sentences and windows that the model encoded.")
        self._tokens = counter("tokens", "Tokens that the model encoded.")
        lookups = counter(
            "cache_lookups", "Sentences looked up in the cache: hit, miss, joined (being encoded just then).", "outcome"
        )
        self._hits, self._misses, self._joined = (lookups.labels(each) for each in ("hit", "miss", "joined"))
        self._refused = counter("refused", "Samples refused since too much was waiting to be encoded.")
        self._queued = gauge("queued_tokens", "Tokens that wait to be encoded.")
        self._cache = gauge("cache_bytes", "Bytes of cached vectors.")

    def watch(self, counts: Callable[[], EncoderCounts]) -> None:
        """Read these counts from now on, which begin at 0."""
        self._counts = counts
        self._before = EncoderCounts()

    def update(self) -> None:
        """Add what the encoder has done since the last time."""
        now, before = self._counts(), self._before
        self._before = now
        self._sentences.inc(now.texts - before.texts)
        self._tokens.inc(now.tokens - before.tokens)
        self._hits.inc(now.cache_hits - before.cache_hits)
        self._misses.inc((now.cache_misses - now.joined) - (before.cache_misses - before.joined))
        self._joined.inc(now.joined - before.joined)
        self._refused.inc(now.refused - before.refused)
        self._queued.set(now.queued_tokens)
        self._cache.set(now.cache_bytes)


class StoreMetrics(Collector):
    """The last statistics of jobs; every state has a series."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._stats: JobStats = NO_JOBS
        self._is_up: bool | None = None
        self._looked = float("-inf")
        self._looking = asyncio.Lock()

    async def look(self, store: object) -> None:
        """Refresh the statistics if they are a few seconds old; keep them if the store fails."""
        async with self._looking:
            if self._clock() - self._looked < _FRESH_SECONDS or not isinstance(store, CountsJobs):
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


class WorkerProcesses(Collector):
    """CPU, memory and descriptors of all processes that serve together: sums, and the start of the oldest.

    Args:
        folder: of their counts; the parent removes the live gauges of a dead process.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def collect(self) -> Iterator[Metric]:
        merged: dict[str, Metric] = {}
        for pid in {path.stem.rpartition("_")[2] for path in self._folder.glob("gauge_live*_*.db")}:
            for metric in ProcessCollector(pid=partial(str, pid), registry=None).collect():
                before = merged.setdefault(metric.name, metric)
                if before is not metric:
                    combine = min if metric.name == "process_start_time_seconds" else sum
                    (old,), (new,) = before.samples, metric.samples
                    before.samples = [old._replace(value=combine((old.value, new.value)))]
        yield from merged.values()
