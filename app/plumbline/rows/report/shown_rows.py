"""The rows that a report shows: the worst of each tier, some of each unscored status; bounded in number and bytes."""

import heapq
from collections import Counter
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, cast

import msgspec

from plumbline.judging.text.sample import Sample
from plumbline.rows.report.judged_answer import JudgedAnswer, ShownSentence, judged_answer
from plumbline.rows.report.result_lines import GRAVEST_FIRST, Fault, ResultRow, Verdict
from plumbline.rows.report.tallies import TIERS
from plumbline.rows.report.texts import one_line
from plumbline.schemas.report import ReportRowStatus, ReportTier

_UNSCORED: Final[tuple[ReportRowStatus, ...]] = ("error", "not_judged", "abstained", "empty_answer")
_MOST_UNSCORED: Final = 50
# Longer ones are shortened before they are kept, so that 400 rows take some dozen megabytes at most.
_LONG_LINE: Final = 128 * 1024
_MOST_CHARACTERS: Final = 600
_MOST_PARTS: Final = 60
_MOST_OF: Final = {"evidence": 3, "attempts": len(TIERS)}


class KeptRow(NamedTuple):
    """A row that is shown; `is_cut` if its texts were shortened."""

    row: ResultRow
    is_cut: bool


# How bad a row is, and the row; the last number is unique, so that rows are never compared.
_Placed = tuple[tuple[float, int, int, int], KeptRow]


class KeptRows:
    """The `worst` rows with the lowest faithfulness of each tier, and the first 50 of each unscored status."""

    def __init__(self, worst: int) -> None:
        self._worst = worst
        self._heaps: dict[ReportTier, list[_Placed]] = {tier: [] for tier in TIERS}
        self._scored: Counter[ReportTier] = Counter()
        self._unscored: dict[ReportRowStatus, list[KeptRow]] = {status: [] for status in _UNSCORED}

    def add(self, row: ResultRow, *, size: int) -> None:
        """Add a row whose line has `size` bytes."""
        scored = row.scored
        if scored is None or row.result is None:
            kept = self._unscored[row.status]
            if len(kept) < _MOST_UNSCORED:
                kept.append(_kept(row, size))
            return
        self._scored[scored.tier] += 1
        heap = self._heaps[scored.tier]
        # The least bad row is on top: by score, then fewer contradictions, then later rows.
        bad = (-scored.faithfulness, row.result.counts.contradicted, -row.row, -self._scored.total())
        if len(heap) < self._worst:
            heapq.heappush(heap, (bad, _kept(row, size)))
        elif self._worst and bad > heap[0][0]:
            heapq.heapreplace(heap, (bad, _kept(row, size)))

    def worst(self) -> tuple[KeptRow, ...]:
        """Return at most `worst` rows, lowest faithfulness first; each tier has places by its number of rows."""
        total = self._scored.total()
        places = {tier: max(1, self._worst * self._scored[tier] // total) for tier in TIERS if self._scored[tier]}
        # The largest tier makes up for rounding.
        for tier, _ in self._scored.most_common():
            room = self._worst - sum(places.values())
            places[tier] = min(max(0, places[tier] + room), len(self._heaps[tier]))
        return tuple(kept for tier in places for _, kept in heapq.nlargest(places[tier], self._heaps[tier]))

    def unscored(self) -> tuple[KeptRow, ...]:
        return tuple(kept for rows in self._unscored.values() for kept in rows)


def _kept(row: ResultRow, size: int) -> KeptRow:
    return KeptRow(row, is_cut=False) if size <= _LONG_LINE else KeptRow(_shortened(row), is_cut=True)


def _shortened(value: Any, most: int = _MOST_PARTS) -> Any:
    if isinstance(value, str):
        return value if len(value) <= _MOST_CHARACTERS else f"{value[:_MOST_CHARACTERS]} …"
    if isinstance(value, list):
        return [_shortened(item) for item in value[:most]]
    if isinstance(value, msgspec.Struct):
        names = value.__struct_fields__
        parts = {name: _shortened(getattr(value, name), _MOST_OF.get(name, _MOST_PARTS)) for name in names}
        return msgspec.structs.replace(value, **parts)
    return value


_LONGEST_LEAD: Final = 200


@dataclass(frozen=True, slots=True)
class ShownRow:
    """One row of a page.

    `verdicts`: those of its claims, gravest first; `rank`: its place in the list; `lead`: the first of the sentences
    with the gravest verdict, or the error, shortened.
    """

    source: ResultRow
    rank: int
    tier: ReportTier
    answer: JudgedAnswer | None
    verdicts: tuple[tuple[Verdict, int], ...]
    lead: str
    is_cut: bool


def shown_row(kept: KeptRow, rank: int, sample: Sample | None = None) -> ShownRow:
    row, result = kept.row, kept.row.result
    answer = None if result is None else judged_answer(result, sample, is_brief=True)
    counts = [(each, cast(int, getattr(result.counts, each))) for each in GRAVEST_FIRST] if result else []
    return ShownRow(
        source=row,
        rank=rank,
        tier="none" if result is None else result.tier or "none",
        answer=answer,
        verdicts=tuple((verdict, count) for verdict, count in counts if count),
        lead=one_line(_lead(answer.sentences if answer else (), row.error), most=_LONGEST_LEAD),
        is_cut=kept.is_cut,
    )


def _lead(sentences: tuple[ShownSentence, ...], error: Fault | None) -> str:
    if error is not None:
        return error.detail
    gravity = {verdict: place for place, verdict in enumerate((*GRAVEST_FIRST, "not_a_claim"))}
    known = [sentence for sentence in sentences if sentence.verdict is not None] or sentences
    gravest = min(known, key=lambda each: 0 if each.verdict is None else gravity[each.verdict], default=None)
    return "" if gravest is None else gravest.text
