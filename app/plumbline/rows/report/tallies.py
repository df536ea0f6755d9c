"""Counts and means of rows in bounded memory, with seeded bootstrap intervals."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Final, Self

from plumbline.rows.report.result_lines import Counts, ResultRow, RowResult
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

# A value counts as the mean of its part, which is off by at most a thousandth of the scale.
PARTS: Final = 1_000
RESAMPLES: Final = 2_000
SEED: Final = 0
_ROWS_AT_ONCE: Final = 250

METHOD: Final = (
    f"percentile bootstrap of the mean, {LEVEL:.0%}, {RESAMPLES:,} resamples, seed {SEED}; rows are drawn with "
    f"replacement from their histogram of {PARTS:,} parts, each part at the mean of its values"
)


class MeanTally:
    """Counts and sums of values in `[low, low + width]`, by 1,000 equal parts."""

    def __init__(self, *, low: float = 0.0, width: float = 1.0) -> None:
        self._low = low
        self._width = width
        self._scale = PARTS / width
        self._counts = [0] * (PARTS + 1)
        self._sums = [0.0] * (PARTS + 1)

    def add(self, value: float) -> None:
        part = int((value - self._low) * self._scale)
        self._counts[part] += 1
        self._sums[part] += value

    @classmethod
    def merged(cls, tallies: Iterable["MeanTally"]) -> Self:
        """Return the union of tallies over one range."""
        merged = cls()
        for tally in tallies:
            merged._low, merged._width = tally._low, tally._width
            merged._counts = [a + b for a, b in zip(merged._counts, tally._counts, strict=True)]
            merged._sums = [a + b for a, b in zip(merged._sums, tally._sums, strict=True)]
        return merged

    @property
    def rows(self) -> int:
        return sum(self._counts)

    def mean(self) -> ScoreMean:
        rows = self.rows
        if not rows:
            return ScoreMean(mean=None, low=None, high=None, rows=0)
        mean = self._inside(math.fsum(self._sums) / rows)
        low, high = self._interval(rows) if rows > 1 else (None, None)
        return ScoreMean(mean=mean, low=low, high=high, rows=rows)

    def _interval(self, rows: int) -> tuple[float, float] | tuple[None, None]:
        """Return the percentile interval after Efron & Tibshirani 1993, chapter 13; none where numpy is not installed.

        Drawing n rows with replacement is one draw of a multinomial over their values: its cost does not grow with n.
        """
        try:
            import numpy as np  # noqa: PLC0415 - not in the light half, whose gates compare means
        except ModuleNotFoundError:
            return None, None
        counts = np.array(self._counts)
        filled = counts > 0
        counts, sums = counts[filled], np.array(self._sums)[filled]
        rng = np.random.default_rng(SEED)
        values = sums / counts
        chunks = [rng.multinomial(rows, counts / rows, size=_ROWS_AT_ONCE) for _ in range(RESAMPLES // _ROWS_AT_ONCE)]
        means = np.concatenate([drawn @ values / rows for drawn in chunks])
        low, high = np.quantile(means, [(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0])
        # Rounding of a mean of equal values could put it outside of them.
        return self._inside(float(max(low, values.min()))), self._inside(float(min(high, values.max())))

    def _inside(self, value: float) -> float:
        return min(max(value, self._low), self._low + self._width)


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
_VERDICTS: Final = Counts.__struct_fields__
_BARS: Final = 20
# A foreign file could have a new flag in every row.
_MOST_FLAGS_COUNTED: Final = 1_000
_MOST_FLAGS_SHOWN: Final = 50
_LONGEST_FLAG: Final = 100
_MOST_METRICS: Final = 20
_USED: Final = ("calls", "unmetered_calls", "prompt_tokens", "completion_tokens", "cached_tokens")


class ScoreTallies:
    """The scores of one group of judged rows."""

    def __init__(self) -> None:
        self.faithfulness = MeanTally()
        self.faithfulness_strict = MeanTally()
        self.context_utilization = MeanTally()
        self.lowest_support = MeanTally()
        self.passed = MeanTally()
        self.has_unsupported = MeanTally()
        self.citation_recall = MeanTally()
        self.citation_precision = MeanTally()
        # By name, with its depth; at most `_MOST_METRICS`, for a foreign file could have others in every row.
        self.metrics: dict[str, MeanTally] = {}

    def add(self, result: RowResult) -> None:
        for name, tally in self._of_every_row().items():
            if (value := result.score(name)) is not None:
                tally.add(value)
        for name, metric in result.metrics.items():
            if metric_of(name) and (name in self.metrics or len(self.metrics) < _MOST_METRICS):
                tally = self.metrics.setdefault(name, MeanTally())
                if metric.value is not None:
                    tally.add(metric.value)

    def _of_every_row(self) -> dict[str, MeanTally]:
        return {name: tally for name, tally in vars(self).items() if name != "metrics"}

    def means(self) -> ScoreMeans:
        faithfulness = self.faithfulness.mean()
        return ScoreMeans(
            faithfulness=faithfulness,
            faithfulness_strict=self.faithfulness_strict.mean(),
            hallucination_rate=complement(faithfulness),
            context_utilization=self.context_utilization.mean(),
            lowest_support=self.lowest_support.mean(),
            passed_share=self.passed.mean(),
            unsupported_share=self.has_unsupported.mean(),
            citation_recall=self.citation_recall.mean(),
            citation_precision=self.citation_precision.mean(),
            metrics={name: self.metrics[name].mean() for name in sorted(self.metrics)} or None,
        )

    @staticmethod
    def merged(groups: "list[ScoreTallies]") -> "ScoreTallies":
        """Return the union of several groups."""
        merged = ScoreTallies()
        for name in merged._of_every_row():
            setattr(merged, name, MeanTally.merged(getattr(group, name) for group in groups))
        for name in sorted({name for group in groups for name in group.metrics}):
            merged.metrics[name] = MeanTally.merged(group.metrics[name] for group in groups if name in group.metrics)
        return merged


class TierTally:
    """The judged rows of one tier."""

    def __init__(self, tier: ReportTier) -> None:
        self.scores = ScoreTallies()
        self.judged = self.passed = self._degraded = 0
        self.tier = tier
        self._without_tier = 0
        self._rules: Counter[PassRule] = Counter()
        self._histogram = [0] * _BARS
        self._verdicts = dict.fromkeys(_VERDICTS, 0)

    def add(self, result: RowResult, faithfulness: float) -> None:
        self.judged += 1
        self.passed += result.passed is True
        if result.decision is not None:
            self._rules[result.decision.rule] += 1
        self._degraded += "degraded" in result.flags
        self._histogram[min(int(faithfulness * _BARS), _BARS - 1)] += 1
        for name in _VERDICTS:
            self._verdicts[name] += getattr(result.counts, name)
        self.scores.add(result)

    def take_in(self, other: "TierTally") -> None:
        """Add the rows of another tally that were judged without a tier."""
        self.judged += other.judged
        self.passed += other.passed
        self._degraded += other._degraded
        self._without_tier += other.judged
        self._rules += other._rules
        self._histogram = [a + b for a, b in zip(self._histogram, other._histogram, strict=True)]
        self._verdicts = {name: self._verdicts[name] + other._verdicts[name] for name in _VERDICTS}
        strict = self.scores.faithfulness_strict
        self.scores = ScoreTallies.merged([self.scores, other.scores])
        if not strict.rows:
            # The tier has no such score; rows that it did not judge would be the whole figure.
            self.scores.faithfulness_strict = strict

    def report(self, scores: ScoreMeans) -> TierReport:
        return TierReport(
            tier=self.tier,
            judged=self.judged,
            passed=self.passed,
            passed_by=dict(self._rules),
            degraded=self._degraded,
            without_tier=self._without_tier,
            scores=scores,
            histogram=self._histogram,
            verdicts=VerdictCounts(**self._verdicts),
        )


class RowTally:
    """Statuses, flags and usage of all rows."""

    def __init__(self) -> None:
        self.rows = self.degraded = self.rows_of_unknown_cost = 0
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
