"""Results before and now: rows paired by `custom_id`, what moved, and if that can be chance."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Final, Literal, NamedTuple, get_args

from plumbline.ground.errors import InvalidInput
from plumbline.rows.report.result_lines import RowHead, Scored, Verdict, read_head
from plumbline.rows.report.tallies import NORMAL_95, TIERS
from plumbline.schemas.report import Comparison, ReportTier, RowMove, ScoreMean, TierComparison

# What moved, in the order in which it is read.
MoveKind = Literal["fails_now", "passes_now", "fell", "rose", "other_tier"]
MOVE_KINDS: Final[tuple[MoveKind, ...]] = get_args(MoveKind)
_MOST_MOVES: Final = 20
# 0.1 + 0.2 against 0.3: rounding is no move.
_NOISE: Final = 1e-12
# Tiers without a judge pass by two rules and fail by another.
_ONE_RULE: Final = {"hard_reason": "copied", "covered": "copied"}


class Baseline:
    """Scored rows by `custom_id`, the first one of each; about 300 bytes a row."""

    def __init__(self, lines: Iterable[bytes | None] = ()) -> None:
        self.rows = self.bad_lines = self.repeated_ids = 0
        self.scored_by_id: dict[str, Scored] = {}
        for line in lines:
            if line is not None and not line.strip():
                continue
            try:
                self.add(read_head(line or b""))
            except InvalidInput:
                self.bad_lines += 1

    def add(self, head: RowHead) -> None:
        self.rows += 1
        if (scored := head.scored) is not None:
            self.repeated_ids += self.scored_by_id.setdefault(scored.custom_id, scored) is not scored


class Move(NamedTuple):
    """A pair of rows whose score, decision or tier differs; `difference`: of the scores of one tier, else 0."""

    kind: MoveKind
    before: Scored
    now: Scored
    difference: float

    @property
    def reason(self) -> Verdict | None:
        """The gravest verdict against the answer now, or before where it passes now."""
        return (self.before if self.kind == "passes_now" else self.now).fault


class _TierPairs:
    def __init__(self) -> None:
        self._sum = self._squares = 0.0
        self._counts = dict.fromkeys(("better", "equal", "worse", "newly_failing", "newly_passing"), 0)

    def add(self, before: Scored, now: Scored) -> Move | None:
        """Add a pair; return how it moved, None if it did not."""
        difference = now.faithfulness - before.faithfulness
        if abs(difference) <= _NOISE:
            difference = 0.0
        self._sum += difference
        self._squares += difference * difference
        self._counts["better" if difference > 0 else "worse" if difference else "equal"] += 1
        kind: MoveKind
        if _is_flip(before, now):
            kind = "passes_now" if now.passed else "fails_now"
            self._counts["newly_passing" if now.passed else "newly_failing"] += 1
        elif difference or before.passed is not now.passed:
            kind = "fell" if difference < 0 or (not difference and now.passed is False) else "rose"
        else:
            return None
        return Move(kind, before, now, difference)

    def comparison(self, tier: ReportTier) -> TierComparison:
        counts = self._counts
        moved = counts["better"] + counts["worse"]
        difference, p_value = compare_pairs(moved + counts["equal"], moved, self._sum, self._squares)
        flips = exact_flip_test(counts["newly_failing"], counts["newly_passing"])
        return TierComparison(
            tier=tier, paired=difference.rows, difference=difference, p_value=p_value, flip_p_value=flips, **counts
        )


def _is_flip(before: Scored, now: Scored) -> bool:
    if before.passed is None or now.passed is None or before.passed is now.passed:
        return False
    rules = {_ONE_RULE.get(each, each) for each in (before.rule, now.rule) if each is not None}
    return len(rules) <= 1


class ComparisonTally:
    """Paired comparison of rows with a baseline, one row at a time. `most`: moves of each kind that are kept."""

    def __init__(self, baseline: Baseline, *, most: int = _MOST_MOVES) -> None:
        self._baseline = baseline
        self._most = most
        self._taken: set[str] = set()
        self._pairs: defaultdict[ReportTier, _TierPairs] = defaultdict(_TierPairs)
        self._moves: dict[MoveKind, list[Move]] = {kind: [] for kind in MOVE_KINDS}
        self._only_here = self._repeated = 0
        self.counts: Counter[tuple[MoveKind, Verdict | None]] = Counter()

    def add(self, row: RowHead) -> None:
        """Pair a row with the baseline's row of the same id and tier, if any."""
        if (now := row.scored) is None:
            return
        before = self._baseline.scored_by_id.get(now.custom_id)
        if before is None:
            self._only_here += 1
            return
        if now.custom_id in self._taken:
            self._repeated += 1
            return
        self._taken.add(now.custom_id)
        move = (
            self._pairs[now.tier].add(before, now) if before.tier == now.tier else Move("other_tier", before, now, 0.0)
        )
        if move is not None:
            self.counts[move.kind, move.reason] += 1
            found = self._moves[move.kind]
            found.append(move)
            if len(found) > 2 * self._most:
                found[:] = _largest(found, self._most)

    def moves(self) -> Iterator[Move]:
        """Yield the kept moves by kind, the largest first."""
        for kind in MOVE_KINDS:
            yield from _largest(self._moves[kind], self._most)

    def comparison(self) -> Comparison:
        baseline = self._baseline
        kept = list(self.moves())
        return Comparison(
            tiers=[self._pairs[tier].comparison(tier) for tier in TIERS if tier in self._pairs],
            other_tier=sum(count for (kind, _), count in self.counts.items() if kind == "other_tier"),
            only_here=self._only_here,
            only_in_baseline=len(baseline.scored_by_id) - len(self._taken),
            repeated_ids=self._repeated + baseline.repeated_ids,
            baseline_rows=baseline.rows,
            baseline_bad_lines=baseline.bad_lines,
            worse=[_row_move(each) for each in _largest([each for each in kept if each.difference < 0], _MOST_MOVES)],
            better=[_row_move(each) for each in _largest([each for each in kept if each.difference > 0], _MOST_MOVES)],
        )


def _largest(moves: list[Move], most: int) -> list[Move]:
    return sorted(moves, key=lambda move: -abs(move.difference))[:most]


def _row_move(move: Move) -> RowMove:
    before, now = move.before, move.now
    return RowMove(
        custom_id=now.custom_id,
        row=now.row,
        tier=now.tier,
        before=before.faithfulness,
        now=now.faithfulness,
        difference=move.difference,
    )


def compare_runs(before: Iterable[RowHead], now: Iterable[RowHead], *, most: int = _MOST_MOVES) -> ComparisonTally:
    baseline = Baseline()
    for head in before:
        baseline.add(head)
    tally = ComparisonTally(baseline, most=most)
    for head in now:
        tally.add(head)
    return tally


def compare_pairs(pairs: int, moved: int, total: float, squares: float) -> tuple[ScoreMean, float]:
    """Return the mean of differences with its 95 % interval, and the two-sided p of no difference.

    Args:
        pairs, moved: differences, and those of them that are not 0.
        total, squares: their sum, and that of their squares.

    One method gives both: had each difference either sign by chance, total / sqrt(squares) would be about normal
    (Fisher's randomisation test, by Efron, JASA 1969). No p is below the 2 ** (1 - moved) of the exact test, and the
    interval holds what the test does not refute; up to three pairs it would be all, and is None.
    """
    if not pairs:
        return ScoreMean(mean=None, low=None, high=None, rows=0), 1.0
    mean = total / pairs
    p_value = max(math.erfc(abs(total) / math.sqrt(2 * squares)), 2.0 ** (1 - moved)) if moved else 1.0
    low = high = None
    if pairs > NORMAL_95**2:
        half = NORMAL_95 * math.sqrt(max(0.0, squares / pairs - mean * mean) / (pairs - NORMAL_95**2))
        low, high = max(-1.0, mean - half), min(1.0, mean + half)
    return ScoreMean(mean=mean, low=low, high=high, rows=pairs), p_value


def exact_flip_test(first: int, second: int) -> float:
    """Return the two-sided p of McNemar's exact test: chance that counts of changes differ as much. 1 without any."""
    count = first + second
    whole = math.lgamma(count + 1) - count * math.log(2)
    tail = (whole - math.lgamma(k + 1) - math.lgamma(count - k + 1) for k in range(min(first, second) + 1))
    return min(1.0, 2.0 * math.fsum(map(math.exp, tail)))
