"""Metrics that are counted as things happen; `docs/observability.md` lists them."""

from collections.abc import Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from plumbline.ground.errors import FailureReason
from plumbline.judging.ports.observation import ANSWERED, INTERRUPTED

# From a health check to the longest stream; the defaults end at 10 s, half of one sample's deadline.
_REQUEST_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 60, 300)
# Tier lexical takes a millisecond, a judge seconds, a row of a job up to five minutes.
_TIER_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 60, 300)
_CALL_SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1, 2, 3, 5, 7.5, 10, 15, 20, 30, 60, 120, 300)
# A mode of prometheus_client, for gauges of several processes.
LIVE_SUM: Final = "livesum"
_LAG_SECONDS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)


class Measured:
    """The metrics of one process. Series with known labels start at 0: the first failure is then an increase.

    Gauges are summed over the live processes that serve together.

    Args:
        tiers: names of the tiers.
        row_statuses: final states of rows of jobs.
    """

    def __init__(self, registry: CollectorRegistry, *, tiers: Sequence[str], row_statuses: Sequence[str]) -> None:
        self.requests = Counter(
            "plumbline_http_requests",
            "Requests answered, by the route's template.",
            ("route", "method", "status"),
            registry=registry,
        )
        self.request_seconds = Histogram(
            "plumbline_http_request_duration_seconds",
            "From a request's first byte to the last of its answer.",
            ("route", "method"),
            buckets=_REQUEST_SECONDS,
            registry=registry,
        )
        self.requests_under_way = Gauge(
            "plumbline_http_requests_in_progress",
            "Requests that are being answered.",
            registry=registry,
            multiprocess_mode=LIVE_SUM,
        )
        self.tier_attempts = Counter(
            "plumbline_tier_attempts",
            "Samples that a tier was asked, by what came of it: answered, failed, interrupted.",
            ("tier", "outcome"),
            registry=registry,
        )
        self.tier_failures = Counter(
            "plumbline_tier_failures",
            "Samples that a tier could not answer, by the reason; the next tier is asked.",
            ("tier", "reason"),
            registry=registry,
        )
        self.tier_seconds = Histogram(
            "plumbline_tier_duration_seconds",
            "Of one tier's try at one sample.",
            ("tier",),
            buckets=_TIER_SECONDS,
            registry=registry,
        )
        self._judge(registry)
        self._jobs(registry)
        self.loop_lag = Histogram(
            "plumbline_event_loop_lag_seconds",
            "How much later than it should the event loop turned to a timer.",
            buckets=_LAG_SECONDS,
            registry=registry,
        )
        self._begin_at_zero(tiers, row_statuses)

    def _judge(self, registry: CollectorRegistry) -> None:
        model = ("provider", "model")
        self.judge_calls = Counter(
            "plumbline_judge_calls",
            "Requests that reached a chat model, retries included, by outcome: answered, a reason, interrupted.",
            (*model, "outcome"),
            registry=registry,
        )
        self.judge_seconds = Histogram(
            "plumbline_judge_call_duration_seconds",
            "Of one such request.",
            model,
            buckets=_CALL_SECONDS,
            registry=registry,
        )
        self.judge_tokens = Counter(
            "plumbline_judge_tokens",
            "Tokens as the provider counted them: input, those of it that it had cached, output.",
            (*model, "kind"),
            registry=registry,
        )
        self.judge_cost = Counter(
            "plumbline_judge_cost",
            "What calls cost, in the currency of the price table.",
            model,
            registry=registry,
        )
        self.judge_unpriced = Counter(
            "plumbline_judge_unpriced_calls", "Calls whose price is not known.", model, registry=registry
        )
        self.verdict_lookups = Counter(
            "plumbline_verdict_cache_lookups",
            "Verdicts of tier llm sought among those kept: hit, miss, bypass.",
            ("outcome",),
            registry=registry,
        )

    def _jobs(self, registry: CollectorRegistry) -> None:
        self.job_rows = Counter(
            "plumbline_job_rows",
            "Rows of jobs kept by this process, by how they ended.",
            ("status",),
            registry=registry,
        )
        self.rows_put_aside = Counter(
            "plumbline_job_rows_put_aside",
            "Rows of jobs that ended so many processes that they are not tried again; among the failed ones too.",
            registry=registry,
        )
        self.chunks_begun = Counter(
            "plumbline_job_chunks_begun", "Chunks of jobs that this process leased.", registry=registry
        )
        self.chunks_under_way = Gauge(
            "plumbline_job_chunks_under_way",
            "Chunks of jobs that this process works on.",
            registry=registry,
            multiprocess_mode=LIVE_SUM,
        )

    def _begin_at_zero(self, tiers: Sequence[str], row_statuses: Sequence[str]) -> None:
        for tier in tiers:
            self.tier_seconds.labels(tier)
            for outcome in (ANSWERED, "failed", INTERRUPTED):
                self.tier_attempts.labels(tier, outcome)
            for reason in FailureReason:
                self.tier_failures.labels(tier, reason.value)
        for lookup in ("hit", "miss", "bypass"):
            self.verdict_lookups.labels(lookup)
        for status in row_statuses:
            self.job_rows.labels(status)
