"""What is counted of the rows while they stream by; nothing of it grows with their number."""

from collections import Counter, defaultdict
from typing import Final

from plumbline.rows.report.means import MeanTally, complement
from plumbline.rows.report.result_lines import Counts, Result, ResultRow, RowUsage
from plumbline.schemas.batch import TierCounts
from plumbline.schemas.evaluation import UsageItem, VerdictCounts
from plumbline.schemas.report import ReportRowStatus, ReportTier, ScoreMeans, StatusCounts, TierReport

TIERS: Final[tuple[ReportTier, ...]] = ("llm", "embedding", "lexical", "none")
_BARS: Final = 20
# A file that somebody else wrote could carry a new flag in every row.
_MOST_FLAGS_COUNTED: Final = 1_000
_MOST_FLAGS_TOLD: Final = 50
_LONGEST_FLAG: Final = 100


class ScoreTallies:
    """The scores of one group of judged rows."""

    def __init__(self) -> None:
        self.faithfulness = MeanTally()
        self.strict = MeanTally()
        self.utilization = MeanTally()
        self.passed = MeanTally()

    def add(self, result: Result) -> None:
        """Counts a judged row."""
        for tally, value in (
            (self.faithfulness, result.faithfulness),
            (self.strict, result.faithfulness_strict),
            (self.utilization, result.context_utilization),
            (self.passed, result.passed),
        ):
            if value is not None:
                tally.add(value)

    def means(self) -> ScoreMeans:
        """The means with their intervals."""
        faithfulness = self.faithfulness.mean()
        return ScoreMeans(
            faithfulness=faithfulness,
            faithfulness_strict=self.strict.mean(),
            hallucination_rate=complement(faithfulness),
            context_utilization=self.utilization.mean(),
            passed_share=self.passed.mean(),
        )

    @staticmethod
    def merged(groups: "list[ScoreTallies]") -> "ScoreTallies":
        """All rows of several groups."""
        merged = ScoreTallies()
        for name in vars(merged):
            setattr(merged, name, MeanTally.merged(getattr(group, name) for group in groups))
        return merged


class TierTally:
    """The judged rows of one tier."""

    def __init__(self, tier: ReportTier) -> None:
        self.scores = ScoreTallies()
        self.judged = self.passed = self._degraded = 0
        self.tier = tier
        self._without_tier = 0
        self._histogram = [0] * _BARS
        self._verdicts = [0] * len(Counts.__struct_fields__)

    def add(self, result: Result, faithfulness: float) -> None:
        """Counts a judged row."""
        self.judged += 1
        self.passed += result.passed is True
        self._degraded += "degraded" in result.flags
        self._histogram[min(int(faithfulness * _BARS), _BARS - 1)] += 1
        for place, count in enumerate(verdict_counts(result.counts)):
            self._verdicts[place] += count
        self.scores.add(result)

    def take_in(self, other: "TierTally") -> None:
        """Adds rows that were judged without a tier."""
        self.judged += other.judged
        self.passed += other.passed
        self._degraded += other._degraded
        self._without_tier += other.judged
        self._histogram = [a + b for a, b in zip(self._histogram, other._histogram, strict=True)]
        self._verdicts = [a + b for a, b in zip(self._verdicts, other._verdicts, strict=True)]
        self.scores = ScoreTallies.merged([self.scores, other.scores])

    def report(self, scores: ScoreMeans) -> TierReport:
        """Everything counted up to now."""
        return TierReport(
            tier=self.tier,
            judged=self.judged,
            passed=self.passed,
            degraded=self._degraded,
            without_tier=self._without_tier,
            scores=scores,
            histogram=self._histogram,
            verdicts=VerdictCounts(**dict(zip(Counts.__struct_fields__, self._verdicts, strict=True))),
        )


def verdict_counts(counts: Counts) -> tuple[int, int, int, int, int]:
    """The counts in the order of their fields."""
    return counts.supported, counts.partial, counts.contradicted, counts.not_mentioned, counts.not_a_claim


class RowTally:
    """All rows: statuses, flags and what they used."""

    def __init__(self) -> None:
        self.rows = self.degraded = self.rows_of_unknown_cost = 0
        self.known_cost = 0.0
        self._statuses: defaultdict[ReportTier, Counter[ReportRowStatus]] = defaultdict(Counter)
        self._flags: Counter[str] = Counter()
        self._used = [0] * 5

    def add(self, row: ResultRow) -> None:
        """Counts a row."""
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
        self._add_usage(result.usage)

    def _add_usage(self, usage: RowUsage) -> None:
        used = self._used
        used[0] += usage.calls
        used[1] += usage.unmetered_calls
        used[2] += usage.prompt_tokens
        used[3] += usage.completion_tokens
        used[4] += usage.cached_tokens
        if usage.cost is None:
            self.rows_of_unknown_cost += 1
        else:
            self.known_cost += usage.cost

    def statuses(self) -> StatusCounts:
        """Rows by status."""
        return _status_counts(sum(self._statuses.values(), Counter[ReportRowStatus]()))

    def statuses_by_tier(self) -> dict[ReportTier, StatusCounts]:
        """Rows by tier and status; tiers without rows are left out."""
        return {tier: _status_counts(self._statuses[tier]) for tier in TIERS if tier in self._statuses}

    def tier_counts(self) -> TierCounts:
        """Rows that each tier answered."""
        return TierCounts(**{name: self._total(name) for name in TierCounts.model_fields})

    def _total(self, tier: str) -> int:
        return sum(counts.total() for name, counts in self._statuses.items() if name == tier)

    def flags(self) -> dict[str, int]:
        """Results by flag, most first."""
        return dict(sorted(self._flags.items(), key=lambda each: (-each[1], each[0]))[:_MOST_FLAGS_TOLD])

    def usage(self) -> UsageItem:
        """What all rows used."""
        calls, unmetered, prompt, completion, cached = self._used
        return UsageItem(
            calls=calls,
            unmetered_calls=unmetered,
            prompt_tokens=prompt,
            completion_tokens=completion,
            cached_tokens=cached,
            cost=None if self.rows_of_unknown_cost else self.known_cost,
        )


def _status_counts(counts: Counter[ReportRowStatus]) -> StatusCounts:
    return StatusCounts(**{str(status): count for status, count in counts.items()})
