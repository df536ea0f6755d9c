"""Shares of a text's n-grams that other texts hold: all together, and the best one alone."""

from collections import Counter
from collections.abc import Iterable, Set
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

from plumbline.ground.concurrency import within_deadline

Gram = TypeVar("Gram", bound=str | tuple[str, ...])

# Bounds on the work for one text, so that hostile ones cannot make it quadratic: beyond the first its rarest grams
# name the candidates, and the second many of those are counted exactly.
_MAX_PLACES_READ = 20_000
_MAX_CANDIDATES = 32
_MAX_EQUALS = 16


@dataclass(frozen=True, slots=True)
class Cover:
    """Coverage of a text's distinct grams by other texts, shares in [0, 1].

    `anywhere`: in any of them; `best`: in the one that holds most; `rows`: those that hold as many, ascending, few.
    """

    anywhere: float
    best: float
    rows: tuple[int, ...]


def grams(text: str, size: int) -> frozenset[str]:
    return frozenset(text[at : at + size] for at in range(len(text) - size + 1))


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
        found = text & rows_by_gram.keys()
        places = [rows_by_gram[gram] for gram in found]
        if sum(map(len, places)) <= _MAX_PLACES_READ:
            counts = Counter(chain.from_iterable(places))
        else:
            rarest = sorted(found, key=lambda gram: (len(rows_by_gram[gram]), gram))
            likeliest = _count_rows([rows_by_gram[gram] for gram in rarest]).most_common(_MAX_CANDIDATES)
            counts = Counter({row: len(text & known[row]) for row, _ in likeliest})
        best = max(counts.values(), default=0)
        rows = sorted(row for row, count in counts.items() if count == best)
        total = max(1, len(text))
        covers.append(Cover(len(found) / total, best / total, tuple(rows[:_MAX_EQUALS])))
    return covers


def _count_rows(places: Iterable[list[int]]) -> Counter[int]:
    """Count the rows in these lists until enough were read."""
    counts: Counter[int] = Counter()
    for rows in places:
        counts.update(rows[:_MAX_PLACES_READ])
        if counts.total() >= _MAX_PLACES_READ:
            break
    return counts
