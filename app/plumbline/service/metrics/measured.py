"""Metrics that are counted as things happen; `docs/observability.md` lists them."""

from collections.abc import Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from plumbline.ground.errors import FailureReason
from plumbline.judging.ports.observation import ANSWERED, INTERRUPTED

# From a health check, or tier lexical, to the longest stream, or a row of a job; the defaults end at 10 s.
_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 60, 300)
_CALL_SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1, 2, 3, 5, 7.5, 10, 15, 20, 30, 60, 120, 300)
# A mode of prometheus_client, for gauges of several processes.
LIVE_SUM: Final = "livesum"
_LAG_SECONDS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)


class Measured:
    """The metrics of one process. Series with known labels start at 0: the first failure is then an increase.

    Gauges are summed over the live processes that serve together.
    """

    def __init__(self, registry: CollectorRegistry, *, tiers: Sequence[str], row_statuses: Sequence[str]) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, labels, registry=registry)

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(name, text, registry=registry, multiprocess_mode=LIVE_SUM)

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
            "Answers with a score, by the rule that decided: passed, failed.",
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
        for tier in tiers:
            self.tier_seconds.labels(tier)
            for decision in ("passed", "failed"):
                self.decisions.labels(tier, "all_supported" if tier == "llm" else "calibrated", decision)
            for outcome in (ANSWERED, "failed", INTERRUPTED):
                self.tier_attempts.labels(tier, outcome)
            for reason in FailureReason:
                self.tier_failures.labels(tier, reason.value)
        for lookup in ("hit", "miss", "bypass"):
            self.verdict_lookups.labels(lookup)
        for status in row_statuses:
            self.job_rows.labels(status)
