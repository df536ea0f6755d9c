"""What parts count of themselves, read when somebody scrapes: the sentence encoder, the store of jobs."""

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from plumbline.ground.errors import StoreUnavailable
from plumbline.judging.ports.token_vectors import EncoderCounts
from plumbline.rows.jobs.store import NO_JOBS, CountsJobs, JobStats

_FRESH_SECONDS: Final = 5.0
# A scrape gives up after 10 s; without the store it still tells everything else.
_STORE_SECONDS: Final = 2.0


class EncoderPart(Collector):
    """The counts of an encoder that has a method `counts`; nothing before there is one, and of one that has none."""

    def __init__(self) -> None:
        self._counts: Callable[[], EncoderCounts] | None = None

    def watch(self, encoder: object) -> None:
        """Reads this encoder's counts from now on."""
        self._counts = getattr(encoder, "counts", None)

    def collect(self) -> Iterator[Metric]:
        if self._counts is None:
            return
        counts = self._counts()
        yield CounterMetricFamily(
            "plumbline_encoder_sentences", "Sentences and windows that the model encoded.", counts.texts
        )
        yield CounterMetricFamily("plumbline_encoder_tokens", "Tokens that the model encoded.", counts.tokens)
        lookups = CounterMetricFamily(
            "plumbline_encoder_cache_lookups",
            "Sentences sought among those encoded before: hit, miss, joined (another asked for it just then).",
            labels=("outcome",),
        )
        lookups.add_metric(("hit",), counts.cache_hits)
        lookups.add_metric(("miss",), counts.cache_misses - counts.joined)
        lookups.add_metric(("joined",), counts.joined)
        yield lookups
        yield CounterMetricFamily(
            "plumbline_encoder_refused", "Samples refused since too much was waiting to be encoded.", counts.refused
        )
        yield GaugeMetricFamily(
            "plumbline_encoder_queued_tokens", "Tokens that wait to be encoded.", counts.queued_tokens
        )
        yield GaugeMetricFamily("plumbline_encoder_cache_bytes", "Bytes of vectors that are kept.", counts.cache_bytes)


class StorePart(Collector):
    """The last statistics of jobs, once there was one; every state has a series, whatever there is."""

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
        yield GaugeMetricFamily("plumbline_job_store_up", "1 while the store of jobs can be read.", int(self._is_up))
        jobs = GaugeMetricFamily("plumbline_jobs", "Jobs by state, of all callers.", labels=("state",))
        for state, count in self._stats.jobs.items():
            jobs.add_metric((state.value,), count)
        yield jobs
        chunks = GaugeMetricFamily(
            "plumbline_job_chunks",
            "Chunks of open jobs that wait, and chunks that some process works on.",
            labels=("state",),
        )
        chunks.add_metric(("waiting",), self._stats.chunks_waiting)
        chunks.add_metric(("leased",), self._stats.chunks_leased)
        yield chunks
