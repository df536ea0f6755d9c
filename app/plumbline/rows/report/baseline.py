"""A baseline of earlier results in 17 bytes a row, and the paired differences to it."""

import heapq
from array import array
from bisect import bisect_left
from collections.abc import Iterable
from hashlib import blake2b
from itertools import pairwise
from typing import Final, get_args

from plumbline.rows.report.result_lines import Decided, ResultRow, Scored, read_line
from plumbline.rows.report.tallies import TIERS, MeanTally
from plumbline.schemas.report import Comparison, ReportTier, RowMove, TierComparison
from plumbline.schemas.result_parts import PassRule

_HASH_BYTES: Final = 8
_MOST_MOVES: Final = 20
# 0.1 + 0.2 against 0.3: rounding is no move.
_NOISE: Final = 1e-12
# By what a row was decided, and how; None: the file does not say.
_DECISIONS: Final[tuple[Decided | None, ...]] = (
    None, *(Decided(rule, passed) for rule in get_args(PassRule) for passed in (False, True))
)  # fmt: skip


class Baseline:
    """Scored rows by `custom_id`, as sorted 64-bit hashes: of 10^6 rows the chance that two share one is 3 in 10^8."""

    def __init__(self, lines: Iterable[bytes | None]) -> None:
        self.rows = self.bad_lines = 0
        keys, scores, kinds = array("Q"), array("d"), array("B")
        for line in lines:
            if line is not None and not line.strip():
                continue
            read = read_line(line)
            if isinstance(read, str):
                self.bad_lines += 1
                continue
            self.rows += 1
            scored = read.scored
            if scored is not None:
                keys.append(_hash_of(scored.custom_id))
                scores.append(scored.faithfulness)
                kinds.append(_DECISIONS.index(scored.decided) * len(TIERS) + TIERS.index(scored.tier))
        order = sorted(range(len(keys)), key=keys.__getitem__)
        # The first row of each id counts.
        first = order[:1] + [place for before, place in pairwise(order) if keys[before] != keys[place]]
        self._keys = array("Q", map(keys.__getitem__, first))
        self._scores = array("d", map(scores.__getitem__, first))
        # Tier and decision in one byte
        self._kinds = array("B", map(kinds.__getitem__, first))
        self.repeated_ids = len(keys) - len(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, custom_id: str) -> tuple[int, Scored] | None:
        """Return a row and its index; None if absent."""
        key = _hash_of(custom_id)
        place = bisect_left(self._keys, key)
        if place == len(self._keys) or self._keys[place] != key:
            return None
        decision, tier = divmod(self._kinds[place], len(TIERS))
        return place, Scored(custom_id, TIERS[tier], self._scores[place], _DECISIONS[decision])


def _hash_of(custom_id: str) -> int:
    return int.from_bytes(blake2b(custom_id.encode(), digest_size=_HASH_BYTES).digest(), "little")


class _TierPairs:
    def __init__(self) -> None:
        self._differences = MeanTally(low=-1.0, width=2.0)
        self._counts = dict.fromkeys(("better", "equal", "worse", "newly_failing", "newly_passing"), 0)

    def add(self, difference: float, before: Decided | None, now: Decided | None) -> None:
        self._differences.add(difference)
        self._counts["better" if difference > 0 else "worse" if difference else "equal"] += 1
        if before is not None and now is not None and before.rule == now.rule and before.passed != now.passed:
            self._counts["newly_passing" if now.passed else "newly_failing"] += 1

    def comparison(self, tier: ReportTier) -> TierComparison:
        difference = self._differences.mean()
        return TierComparison(tier=tier, paired=difference.rows, difference=difference, **self._counts)


class ComparisonTally:
    """Paired comparison of rows with a baseline, one row at a time."""

    def __init__(self, baseline: Baseline) -> None:
        self._baseline = baseline
        self._taken = bytearray(len(baseline))
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
        found = self._baseline.find(scored.custom_id)
        if found is None:
            self._only_here += 1
            return
        place, earlier = found
        if self._taken[place]:
            self._repeated += 1
            return
        self._taken[place] = 1
        if earlier.tier == scored.tier:
            self._add_pair(row, earlier, scored)
        else:
            self._other_tier += 1

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
            only_in_baseline=len(baseline) - sum(self._taken),
            repeated_ids=self._repeated + baseline.repeated_ids,
            baseline_rows=baseline.rows,
            baseline_bad_lines=baseline.bad_lines,
            worse=[move for _, _, move in sorted(self._worse, reverse=True)],
            better=[move for _, _, move in sorted(self._better, reverse=True)],
        )
