"""Metrics, counted as things happen or read from parts of the service; `docs/how-to/observability.md` lists them."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

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

# From a health check, or tier lexical, to the longest stream, or a row of a job; the defaults end at 10 s.
_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 60, 300)
_CALL_SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1, 2, 3, 5, 7.5, 10, 15, 20, 30, 60, 120, 300)
# A mode of prometheus_client, for gauges of several processes.
LIVE_SUM: Final = "livesum"
_LAG_SECONDS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)


# Decisions of a tier by rule and outcome, that of a caller's threshold apart.
_TRIAGE: Final = (("copied", "passed"), ("hard_reason", "failed"), ("unsure", "unsure"))
_DECISIONS: Final = {
    "llm": (("all_supported", "passed"), ("all_supported", "failed")),
    "detector": (("calibrated", "passed"), ("calibrated", "failed")),
}


class Measured:
    """The metrics of one process. Series with known labels start at 0: the first failure is then an increase.

    Gauges are summed over the live processes that serve together.
    """

    def __init__(self, registry: CollectorRegistry, *, tiers: Sequence[str], row_statuses: Sequence[str]) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, labels, registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(name, text, labels, registry=registry, multiprocess_mode=LIVE_SUM)

        def histogram(name: str, text: str, buckets: Sequence[float], *labels: str) -> Histogram:
            return Histogram(name, text, labels, registry=registry, buckets=buckets)

        self.requests = counter(
            "plumbline_http_requests", "Requests answered, by the route's template.", "route", "method", "status"
        )
        self.request_seconds = histogram(
            "plumbline_http_request_duration_seconds",
            "From a request's first byte to the last of its response.",
            _SECONDS,
            "route",
            "method",
        )
        self.requests_in_flight = gauge("plumbline_http_requests_in_progress", "Requests in flight.")
        self.tier_attempts = counter(
            "plumbline_tier_attempts", "Samples given to a tier: answered, failed, interrupted.", "tier", "outcome"
        )
        self.tier_failures = counter(
            "plumbline_tier_failures", "Samples that a tier could not answer; the next is asked.", "tier", "reason"
        )
        self.tier_seconds = histogram(
            "plumbline_tier_duration_seconds", "Of one tier's attempt at one sample.", _SECONDS, "tier"
        )
        self.decisions = counter(
            "plumbline_answers",
            "Answers with a score, by the rule that decided: passed, failed, unsure.",
            "tier",
            "rule",
            "outcome",
        )
        model = ("provider", "model")
        self.judge_calls = counter(
            "plumbline_judge_calls",
            "Requests that reached a chat model, retries included, by outcome: answered, a reason, interrupted.",
            *model,
            "outcome",
        )
        self.judge_seconds = histogram(
            "plumbline_judge_call_duration_seconds", "Of one request to a chat model.", _CALL_SECONDS, *model
        )
        self.judge_tokens = counter(
            "plumbline_judge_tokens", "Tokens counted by the provider: input, cached_input, output.", *model, "kind"
        )
        self.judge_cost = counter("plumbline_judge_cost", "Cost of calls, in the currency of the price table.", *model)
        self.judge_unpriced = counter("plumbline_judge_unpriced_calls", "Calls of unknown price.", *model)
        self.verdict_lookups = counter(
            "plumbline_verdict_cache_lookups", "Lookups of verdicts of tier llm: hit, miss, bypass.", "outcome"
        )
        self.job_rows = counter("plumbline_job_rows", "Rows of jobs stored by this process, by status.", "status")
        self.rows_quarantined = counter(
            "plumbline_job_rows_put_aside",
            "Rows of jobs that ended so many processes that they are not retried; among the failed ones, too.",
        )
        self.chunks_begun = counter("plumbline_job_chunks_begun", "Chunks of jobs that this process leased.")
        self.chunks_in_progress = gauge("plumbline_job_chunks_under_way", "Chunks of jobs that this process works on.")
        self.loop_lag = histogram(
            "plumbline_event_loop_lag_seconds", "Delay of timers of the event loop.", _LAG_SECONDS
        )
        self.encoder_sentences = counter("plumbline_encoder_sentences", "Sentences and windows that the model encoded.")
        self.encoder_tokens = counter("plumbline_encoder_tokens", "Tokens that the model encoded.")
        self.encoder_lookups = counter(
            "plumbline_encoder_cache_lookups",
            "Sentences looked up in the cache: hit, miss, joined (being encoded just then).",
            "outcome",
        )
        self.encoder_queued = gauge("plumbline_encoder_queued_tokens", "Tokens that wait to be encoded.")
        self.encoder_cache = gauge("plumbline_encoder_cache_bytes", "Bytes of cached vectors.")
        self.work_refused = counter(
            "plumbline_work_refused", "Samples refused since so much waited that their deadline would pass.", "queue"
        )
        self.work_estimated = counter(
            "plumbline_work_estimated_seconds", "Wait and work of admitted samples as estimated at admission.", "queue"
        )
        self.work_taken = counter(
            "plumbline_work_taken_seconds", "What the wait and work of these samples took.", "queue"
        )
        self.work_waiting = gauge(
            "plumbline_work_waiting_characters", "Characters of samples that wait or are worked on.", "queue"
        )
        self.work_rate = gauge(
            "plumbline_work_characters_per_second", "Measured rate while there is work; before, a guess.", "queue"
        )
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
