"""Two jobs side by side: rows paired by `custom_id`, what moved, and whether that can be chance."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain
from statistics import fmean
from typing import Final, NamedTuple

import msgspec

from plumbline.ground.errors import InvalidInput
from plumbline.ground.texts import CodedText
from plumbline.ground.uncertainty import exact_flip_test, paired_differences, paired_t_test, sign_flip_test
from plumbline.rows.report.result_lines import RowJudge, decode_result_row
from plumbline.rows.report.tallies import MeanTally

# Pairs up to which the exact test of random signs is quick; Student's test above.
_MOST_FLIPPED: Final = 2_000
_RESAMPLES: Final = 2_000


class _Trace(msgspec.Struct, frozen=True, gc=False):
    judge: RowJudge | None = None


class _Result(msgspec.Struct, frozen=True, gc=False):
    status: str
    tier: str | None
    faithfulness: float | None
    passed: bool | None
    trace: _Trace


class RowHead(msgspec.Struct, frozen=True):
    """The part of a line of results that is compared; the rest is skipped."""

    row: int
    custom_id: str | None
    result: _Result | None = None


class Move(NamedTuple):
    """A pair of rows whose score, decision or tier differs."""

    custom_id: str
    before: RowHead
    now: RowHead
    difference: float


class TierDifference(NamedTuple):
    """Pairs of one tier: the 95 % interval of their mean difference `shift`, its p, and that of changed decisions."""

    tier: str
    pairs: int
    shift: float
    low: float | None
    high: float | None
    p_value: float
    method: str
    newly_failing: int
    newly_passing: int
    flip_p_value: float


class RunComparison(NamedTuple):
    """Two runs compared; moves by size, largest first."""

    tiers: tuple[TierDifference, ...]
    worse: tuple[Move, ...]
    better: tuple[Move, ...]
    other_tier: tuple[Move, ...]
    equal: int
    only_before: int
    only_now: int


_DECODER: Final = msgspec.json.Decoder(RowHead)


def read_head(line: bytes) -> RowHead:
    """Decode the compared part of a line of results; raise InvalidInput if it is none."""
    try:
        return decode_result_row(_DECODER, line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(CodedText("no_result", flaw=str(error))) from None


def compare_runs(before: Iterable[RowHead], now: Iterable[RowHead]) -> RunComparison:
    """Compare the judged rows of two runs; scores only within one tier. Of a repeated `custom_id` the first counts."""
    old, new = _judged(before), _judged(now)
    other_tier: list[Move] = []
    pairs: defaultdict[str, list[Move]] = defaultdict(list)
    shared = [(name, old[name], head) for name, head in new.items() if name in old]
    # All at once: one by one they take longer than the tests.
    differences = paired_differences([_score(head) for *_, head in shared], [_score(each) for _, each, _ in shared])
    for (name, earlier, head), difference in zip(shared, differences.tolist(), strict=True):
        move = Move(name, earlier, head, difference)
        (pairs[_tier(head)] if _tier(earlier) == _tier(head) else other_tier).append(move)
    paired = list(chain.from_iterable(pairs.values()))
    moves = [each for each in paired if each.difference or _passed(each.before) is not _passed(each.now)]
    return RunComparison(
        tiers=tuple(_tier_difference(tier, each) for tier, each in sorted(pairs.items())),
        worse=tuple(sorted((each for each in moves if _fell(each)), key=lambda each: each.difference)),
        better=tuple(sorted((each for each in moves if not _fell(each)), key=lambda each: -each.difference)),
        other_tier=tuple(other_tier),
        equal=len(paired) - len(moves),
        only_before=len(old.keys() - new.keys()),
        only_now=len(new.keys() - old.keys()),
    )


def _judged(heads: Iterable[RowHead]) -> dict[str, RowHead]:
    found: dict[str, RowHead] = {}
    for head in heads:
        if head.custom_id is not None and head.result is not None and head.result.faithfulness is not None:
            found.setdefault(head.custom_id, head)
    return found


def _tier_difference(tier: str, pairs: Sequence[Move]) -> TierDifference:
    differences = [each.difference for each in pairs]
    tally = MeanTally(low=-1.0, width=2.0)
    for each in differences:
        tally.add(each)
    found = tally.mean()
    if len(pairs) > _MOST_FLIPPED:
        method, p_value = "student", paired_t_test(differences).p
    else:
        method, p_value = "signs", sign_flip_test(differences, resamples=_RESAMPLES)
    decisions = Counter((_passed(each.before), _passed(each.now)) for each in pairs)
    failing, passing = decisions[True, False], decisions[False, True]
    flip_p_value = exact_flip_test(failing, passing)
    shift = fmean(differences)
    return TierDifference(
        tier, len(pairs), shift, found.low, found.high, p_value, method, failing, passing, flip_p_value
    )


def _fell(move: Move) -> bool:
    return move.difference < 0 or (move.difference == 0 and _passed(move.now) is False)


def _score(head: RowHead) -> float:
    return 0.0 if head.result is None or head.result.faithfulness is None else head.result.faithfulness


def _tier(head: RowHead) -> str:
    return "none" if head.result is None else head.result.tier or "none"


def _passed(head: RowHead) -> bool | None:
    return None if head.result is None else head.result.passed
