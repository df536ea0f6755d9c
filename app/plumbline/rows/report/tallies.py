"""Counts and means of rows in bounded memory, with seeded bootstrap intervals."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from plumbline.rows.report.result_lines import ResultRow, RowResult
from plumbline.schemas.batch import TierCounts
from plumbline.schemas.report import (
    LEVEL,
    ReferenceMeans,
    ReportRowStatus,
    ReportTier,
    ScoreMean,
    ScoreMeans,
    ShareEstimate,
    StatusCounts,
    TierReport,
    metric_of,
)
from plumbline.schemas.result_parts import PassRule, UsageItem, VerdictCounts

# What rounding leaves of the variance of equal values.
_NO_VARIANCE: Final = 1e-14

METHOD: Final = (
    f"score interval of the mean, {LEVEL:.0%} (Wilson 1927): that of a share of as many rows as would vary as much as "
    "the values"
)


class MeanTally:
    """Count, sum and sum of squares of values in [0, 1]."""

    def __init__(self) -> None:
        self.rows = 0
        self._sum = self._squares = 0.0

    def add(self, value: float, times: int = 1) -> None:
        self.rows += times
        self._sum += value * times
        self._squares += value * value * times

    def take_in(self, other: "MeanTally") -> None:
        """Add the values of another tally."""
        self.rows += other.rows
        self._sum += other._sum
        self._squares += other._squares

    def mean(self) -> ScoreMean:
        """Return the mean with the interval of `METHOD`; there is none for a single row."""
        rows = self.rows
        if not rows:
            return ScoreMean(mean=None, low=None, high=None, rows=0)
        share = min(max(self._sum / rows, 0.0), 1.0)
        # At an end of the range the rows vary as a share does; equal values elsewhere leave no doubt.
        largest, variance = share * (1.0 - share), self._squares / rows - share * share
        alike = rows * largest / variance if variance > _NO_VARIANCE else math.inf if largest else rows
        found = wilson_share(share, alike)
        low, high = (found.low, found.high) if rows > 1 else (None, None)
        return ScoreMean(mean=share, low=low, high=high, rows=rows)


def complement(mean: ScoreMean) -> ScoreMean:
    """Return the mean of `1 - value`, with its interval."""
    if mean.mean is None:
        return mean
    low = None if mean.high is None else 1.0 - mean.high
    high = None if mean.low is None else 1.0 - mean.low
    return ScoreMean(mean=1.0 - mean.mean, low=low, high=high, rows=mean.rows)


# Standard normal quantile of a two-sided 95 % interval.
NORMAL_95: Final = 1.959963984540054


def wilson_share(share: float, count: float) -> ShareEstimate:
    """Return a share of `count` rows with its 95 % score interval (Wilson, JASA 1927)."""
    square = NORMAL_95**2
    middle = (share + square / (2 * count)) / (1 + square / count)
    half = NORMAL_95 / (1 + square / count) * math.sqrt(share * (1 - share) / count + square / (4 * count**2))
    return ShareEstimate(share=share, low=max(0.0, middle - half), high=min(1.0, middle + half))


TIERS: Final[tuple[ReportTier, ...]] = ("llm", "detector", "embedding", "lexical", "none")
BARS: Final = 20
# A foreign file could have a new flag in every row.
_MOST_FLAGS_COUNTED: Final = 1_000
_MOST_FLAGS_SHOWN: Final = 50
_LONGEST_FLAG: Final = 100
_MOST_METRICS: Final = 20
_USED: Final = ("calls", "unmetered_calls", "prompt_tokens", "completion_tokens", "cached_tokens")


# Means of the scores that every row has, by the row's own name where it is another: shares are means of truths
_AVERAGED: Final = {name: name for name in ScoreMeans.model_fields if name not in ("hallucination_rate", "metrics")} | {
    "passed_share": "passed", "unsupported_share": "has_unsupported"
}  # fmt: skip


class ScoreTallies:
    """The scores of one group of judged rows, or of several: by the names of `ScoreMeans`, and metrics with depth."""

    def __init__(self, groups: "Iterable[ScoreTallies]" = ()) -> None:
        self.by_name: defaultdict[str, MeanTally] = defaultdict(MeanTally)
        for group in groups:
            for name, tally in group.by_name.items():
                self.by_name[name].take_in(tally)

    def add(self, result: RowResult) -> None:
        values = {name: result.score(of_row) for name, of_row in _AVERAGED.items()}
        for name, metric in result.metrics.items():
            # A foreign file could have others in every row.
            if metric_of(name) and (name in self.by_name or len(self.by_name) < len(_AVERAGED) + _MOST_METRICS):
                values[name] = metric.value
        for name, value in values.items():
            tally = self.by_name[name]
            if value is not None:
                tally.add(value)

    def means(self) -> ScoreMeans:
        means = {name: self.by_name[name].mean() for name in _AVERAGED}
        metrics = {name: self.by_name[name].mean() for name in sorted(self.by_name.keys() - _AVERAGED.keys())}
        return ScoreMeans(**means, hallucination_rate=complement(means["faithfulness"]), metrics=metrics or None)


def score_bar(score: float) -> int:
    """Return the bar of a histogram that a score counts in."""
    return min(int(score * BARS), BARS - 1)


class TierTally:
    def __init__(self, tier: ReportTier) -> None:
        self.scores = ScoreTallies()
        self.tier = tier
        self._counts: Counter[str] = Counter()
        self._rules: Counter[PassRule] = Counter()
        self._histogram: Counter[int] = Counter()
        self._verdicts: Counter[str] = Counter()

    @property
    def judged(self) -> int:
        return self._counts["judged"]

    def add(self, result: RowResult, faithfulness: float) -> None:
        is_unsure = result.passed is None
        if is_unsure:
            self.scores.by_name["passed_share"].add(0.0)
        is_degraded = "degraded" in result.flags
        self._counts.update(judged=1, passed=result.passed is True, unsure=is_unsure, degraded=is_degraded)
        if result.decision is not None:
            self._rules[result.decision.rule] += 1
        self._histogram[score_bar(faithfulness)] += 1
        self._verdicts.update(msgspec.structs.asdict(result.counts))
        self.scores.add(result)

    def take_in(self, other: "TierTally") -> None:
        """Add the rows of another tally that were judged without a tier."""
        self._counts += other._counts + Counter(without_tier=other.judged)
        self._rules += other._rules
        self._histogram += other._histogram
        self._verdicts += other._verdicts
        strict = self.scores.by_name["faithfulness_strict"]
        self.scores = ScoreTallies([self.scores, other.scores])
        if not strict.rows:
            # The tier has no such score; rows that it did not judge would be the whole figure.
            self.scores.by_name["faithfulness_strict"] = strict

    def report(self, scores: ScoreMeans) -> TierReport:
        return TierReport(
            tier=self.tier,
            **{name: self._counts[name] for name in ("judged", "passed", "unsure", "degraded")},
            passed_by=dict(self._rules),
            without_tier=self._counts["judged" if self.tier == "none" else "without_tier"],
            scores=scores,
            histogram=[self._histogram[bar] for bar in range(BARS)],
            verdicts=VerdictCounts(**self._verdicts),
        )


class RowTally:
    def __init__(self) -> None:
        self.rows = self.degraded = self.passed = self.unsure = self.rows_of_unknown_cost = 0
        self.known_cost = 0.0
        self._statuses: defaultdict[ReportTier, Counter[ReportRowStatus]] = defaultdict(Counter)
        self._flags: Counter[str] = Counter()
        self._used = dict.fromkeys(_USED, 0)
        self._references = {name: MeanTally() for name in ReferenceMeans.model_fields}

    def add(self, row: ResultRow) -> None:
        self.rows += 1
        result = row.result
        if result is None:
            self._statuses["none"]["error"] += 1
            return
        self._statuses[result.tier or "none"][result.status] += 1
        self.degraded += "degraded" in result.flags
        self.passed += result.passed is True
        self.unsure += result.passed is None and result.status == "judged"
        for flag in result.flags:
            if flag in self._flags or len(self._flags) < _MOST_FLAGS_COUNTED:
                self._flags[flag[:_LONGEST_FLAG]] += 1
        for name, tally in self._references.items():
            if (value := result.score(name)) is not None:
                tally.add(value)
        usage = result.trace.usage
        for name in _USED:
            self._used[name] += getattr(usage, name)
        if usage.cost is None:
            self.rows_of_unknown_cost += 1
        else:
            self.known_cost += usage.cost

    def counts(self) -> dict[str, Any]:
        """Return all counts by the names of `ReportSummary` and `StatusCounts`, as JSON."""
        shown = {"rows": self.rows, "passed": self.passed, "unsure": self.unsure, "degraded": self.degraded}
        parts = {"tier_counts": self.tier_counts().model_dump(), "usage": self.usage().model_dump()}
        return {**shown, **self.statuses().model_dump(), **parts}

    def statuses(self) -> StatusCounts:
        return _status_counts(sum(self._statuses.values(), Counter[ReportRowStatus]()))

    def statuses_by_tier(self) -> dict[ReportTier, StatusCounts]:
        """Count rows by tier and status, without empty tiers."""
        return {tier: _status_counts(self._statuses[tier]) for tier in TIERS if tier in self._statuses}

    def tier_counts(self) -> TierCounts:
        totals = {str(tier): counts.total() for tier, counts in self._statuses.items()}
        return TierCounts(**{name: totals.get(name, 0) for name in TierCounts.model_fields})

    def flags(self) -> dict[str, int]:
        """Count results by flag, most frequent first."""
        return dict(sorted(self._flags.items(), key=lambda each: (-each[1], each[0]))[:_MOST_FLAGS_SHOWN])

    def reference(self) -> ReferenceMeans:
        optional = {name for name, field in ReferenceMeans.model_fields.items() if not field.is_required()}
        means = {name: tally.mean() for name, tally in self._references.items()}
        return ReferenceMeans(**{name: mean for name, mean in means.items() if mean.rows or name not in optional})

    def usage(self) -> UsageItem:
        return UsageItem(cost=None if self.rows_of_unknown_cost else self.known_cost, **self._used)


def _status_counts(counts: Counter[ReportRowStatus]) -> StatusCounts:
    return StatusCounts(**{str(status): count for status, count in counts.items()})
