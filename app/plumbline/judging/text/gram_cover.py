"""Shares of a text's n-grams that other texts hold: all together, and the best one alone."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

from plumbline.ground.deadline import within_deadline

Gram = TypeVar("Gram", bound=str | tuple[str, ...])

# Bounds on the work for one text, so that hostile ones cannot make it quadratic: beyond the first its rarest grams
# name the candidates, and the second many of those are counted exactly.
_MAX_PLACES_READ = 20_000
MAX_CANDIDATES = 32
_MAX_EQUALS = 16


@dataclass(frozen=True, slots=True)
class Cover:
    """Coverage of a text's distinct grams by other texts, shares in [0, 1].

    `anywhere`: in any of them; `best`: in the one that holds most; `rows`: those that hold as many, ascending, few.
    """

    anywhere: float
    best: float
    rows: tuple[int, ...]


def cover(texts: Iterable[Set[Gram]], others: Iterable[Set[Gram]]) -> list[Cover]:
    """Measure how the grams of the others cover those of each text."""
    asked = list(within_deadline(texts))
    wanted = frozenset[Gram]().union(*asked)
    known = [wanted.intersection(each) for each in within_deadline(others)]
    rows_by_gram: dict[Gram, list[int]] = {}
    for row, held in enumerate(known):
        for gram in held:
            rows_by_gram.setdefault(gram, []).append(row)
    covers = []
    for text in within_deadline(asked):
        counts = count_shared(text, rows_by_gram, known, limit=_MAX_PLACES_READ)
        best = max(counts.values(), default=0)
        rows = sorted(row for row, count in counts.items() if count == best)
        total = max(1, len(text))
        covers.append(Cover(len(text & rows_by_gram.keys()) / total, best / total, tuple(rows[:_MAX_EQUALS])))
    return covers


def count_shared(
    text: Set[Gram], rows_by_gram: Mapping[Gram, Sequence[int]], grams_by_row: Sequence[Set[Gram]], *, limit: int
) -> Mapping[int, int]:
    """Return how many grams of a text each row has, exact for every row returned.

    Where they stand in more than `limit` places, the rarest of them name a few rows.
    """
    places = [(len(rows_by_gram[gram]), gram) for gram in text if gram in rows_by_gram]
    if sum(size for size, _ in places) <= limit:
        return Counter(chain.from_iterable(rows_by_gram[gram] for _, gram in places))
    counts: Counter[int] = Counter()
    for _, gram in sorted(places):
        counts.update(rows_by_gram[gram][:limit])
        if counts.total() >= limit:
            break
    return {row: len(text & grams_by_row[row]) for row, _ in counts.most_common(MAX_CANDIDATES)}
