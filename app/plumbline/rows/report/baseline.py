"""A baseline of earlier results, and the paired differences to it."""

import heapq
from collections.abc import Iterable
from typing import Final

from plumbline.rows.report.result_lines import Decided, ResultRow, Scored, read_line
from plumbline.rows.report.tallies import TIERS, MeanTally
from plumbline.schemas.report import Comparison, ReportTier, RowMove, TierComparison

_MOST_MOVES: Final = 20
# 0.1 + 0.2 against 0.3: rounding is no move.
_NOISE: Final = 1e-12


class Baseline:
    """Scored rows by `custom_id`, the first one of each; about 300 bytes a row."""

    def __init__(self, lines: Iterable[bytes | None]) -> None:
        self.rows = self.bad_lines = self.repeated_ids = 0
        self.scored_by_id: dict[str, Scored] = {}
        for line in lines:
            if line is not None and not line.strip():
                continue
            read = read_line(line)
            if isinstance(read, str):
                self.bad_lines += 1
                continue
            self.rows += 1
            if (scored := read.scored) is not None:
                self.repeated_ids += self.scored_by_id.setdefault(scored.custom_id, scored) is not scored


def _by_one_rule(one: Decided, other: Decided) -> bool:
    """Return True if one rule made both decisions; tiers without a judge pass by one name and fail by another."""
    return one.rule == other.rule or {one.rule, other.rule} <= {"copied", "hard_reason"}


class _TierPairs:
    def __init__(self) -> None:
        self._differences = MeanTally(low=-1.0, width=2.0)
        self._counts = dict.fromkeys(("better", "equal", "worse", "newly_failing", "newly_passing"), 0)

    def add(self, difference: float, before: Decided | None, now: Decided | None) -> None:
        self._differences.add(difference)
        self._counts["better" if difference > 0 else "worse" if difference else "equal"] += 1
        if before is not None and now is not None and _by_one_rule(before, now) and before.passed != now.passed:
            self._counts["newly_passing" if now.passed else "newly_failing"] += 1

    def comparison(self, tier: ReportTier) -> TierComparison:
        difference = self._differences.mean()
        return TierComparison(tier=tier, paired=difference.rows, difference=difference, **self._counts)


class ComparisonTally:
    """Paired comparison of rows with a baseline, one row at a time."""

    def __init__(self, baseline: Baseline) -> None:
        self._baseline = baseline
        self._taken: set[str] = set()
        self._pairs: dict[ReportTier, _TierPairs] = {}
        self._other_tier = self._only_here = self._repeated = self._seen = 0
        # Heaps by size of the move, then earlier rows; the pair is unique, so that moves are never compared.
        self._worse: list[tuple[float, int, RowMove]] = []
        self._better: list[tuple[float, int, RowMove]] = []

    def add(self, row: ResultRow) -> None:
        """Pair a row with the baseline's row of the same id and tier, if any."""
        scored = row.scored
        if scored is None:
            return
        earlier = self._baseline.scored_by_id.get(scored.custom_id)
        if earlier is None:
            self._only_here += 1
        elif scored.custom_id in self._taken:
            self._repeated += 1
        elif earlier.tier == scored.tier:
            self._add_pair(row, earlier, scored)
        else:
            self._other_tier += 1
        if earlier is not None:
            self._taken.add(scored.custom_id)

    def _add_pair(self, row: ResultRow, earlier: Scored, scored: Scored) -> None:
        tier, before, now = scored.tier, earlier.faithfulness, scored.faithfulness
        difference = now - before if abs(now - before) > _NOISE else 0.0
        self._pairs.setdefault(tier, _TierPairs()).add(difference, earlier.decided, scored.decided)
        if difference:
            self._seen += 1
            heap = self._better if difference > 0 else self._worse
            if len(heap) < _MOST_MOVES or abs(difference) > heap[0][0]:
                move = RowMove(
                    custom_id=row.custom_id or "", row=row.row, tier=tier, before=before, now=now, difference=difference
                )
                heapq.heappush(heap, (abs(difference), -self._seen, move))
            if len(heap) > _MOST_MOVES:
                heapq.heappop(heap)

    def comparison(self) -> Comparison:
        baseline = self._baseline
        return Comparison(
            tiers=[self._pairs[tier].comparison(tier) for tier in TIERS if tier in self._pairs],
            other_tier=self._other_tier,
            only_here=self._only_here,
            only_in_baseline=len(baseline.scored_by_id) - len(self._taken),
            repeated_ids=self._repeated + baseline.repeated_ids,
            baseline_rows=baseline.rows,
            baseline_bad_lines=baseline.bad_lines,
            worse=[move for _, _, move in sorted(self._worse, reverse=True)],
            better=[move for _, _, move in sorted(self._better, reverse=True)],
        )
