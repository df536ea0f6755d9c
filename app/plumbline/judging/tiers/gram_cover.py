"""Shares of a text's n-grams that other texts hold: all together, and the best one alone; batched in numpy."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from plumbline.ground.concurrency import within_deadline

Units = NDArray[np.uint64]
IntArray = NDArray[np.int64]
Number = TypeVar("Number", np.uint64, np.int64)

# A unit is one of 16 bits, so that four of them fit in one number.
_BITS = 16
_LARGEST = np.uint64(0xFFFF)
MAX_GRAM = 4
# Bounds on the work for one text, so that hostile ones cannot make it quadratic: beyond the first its rarest grams
# name the candidates, and the second many of those are counted exactly.
_MAX_PLACES_READ = 20_000
_MAX_CANDIDATES = 32
_MAX_EQUALS = 16
# Counted at once, some megabytes.
_MAX_TEXTS, _MAX_CELLS = 64, 262_144


@dataclass(frozen=True, slots=True)
class Cover:
    """Coverage of a text's distinct grams by other texts, shares in [0, 1].

    `anywhere`: in any of them; `best`: in the one that holds most; `rows`: those that hold as many, ascending, few.
    """

    anywhere: float
    best: float
    rows: tuple[int, ...]


def characters(texts: Sequence[str]) -> Units:
    """Return the texts' characters as units, a zero between two; those beyond the basic plane are folded into it."""
    codes = np.frombuffer("\0".join(texts).encode("utf-32-le", "surrogatepass"), dtype=np.uint32).astype(np.uint64)
    return np.where(codes > _LARGEST, codes % _LARGEST + np.uint64(1), codes)


def to_unit(character: str) -> int:
    code = ord(character)
    return code % int(_LARGEST) + 1 if code > _LARGEST else code


def cover(texts: Units, others: Units, *, size: int, left_out: Units | None = None) -> list[Cover]:
    """Measure how the others cover each of the texts, by grams of `size` units (at most `MAX_GRAM`).

    Units have a zero between two texts. Grams `left_out` count for nothing, unless a text has no others.
    """
    codes, owners = _grams(texts, size)
    count = int((texts == 0).sum()) + 1
    vocabulary = _ascending(codes)
    # One number for a text and a gram of it, ascending.
    pairs = _ascending(owners * len(vocabulary) + np.searchsorted(vocabulary, codes))
    owners, ids = np.divmod(pairs, max(1, len(vocabulary)))
    if left_out is not None:
        counted = ~np.isin(vocabulary, left_out)[ids]
        counted |= np.bincount(owners, counted, count)[owners] == 0
        owners, ids = owners[counted], ids[counted]
    return _Places(vocabulary, others, size).cover(owners, ids, count)


class _Places:
    def __init__(self, vocabulary: Units, others: Units, size: int) -> None:
        codes, owners = _grams(others, size)
        self._vocabulary = vocabulary
        self._others = int((others == 0).sum()) + 1
        at = np.searchsorted(vocabulary, codes)
        at[at == len(vocabulary)] = 0
        known = vocabulary[at] == codes if len(vocabulary) else np.zeros(len(codes), dtype=bool)
        # One number for a gram and a text that holds it, ascending.
        self._pairs = _ascending(at[known] * self._others + owners[known])
        grams, self._rows = np.divmod(self._pairs, self._others)
        self._bounds = np.searchsorted(grams, np.arange(len(vocabulary) + 1))

    def cover(self, owners: IntArray, ids: IntArray, count: int) -> list[Cover]:
        """Return the coverage of so many texts; `ids[i]` is a gram of text `owners[i]`, both ascending."""
        starts, lengths = self._bounds[ids], self._bounds[ids + 1] - self._bounds[ids]
        totals, found, places = (np.bincount(owners, each, count) for each in (None, lengths > 0, lengths))
        is_long = places > _MAX_PLACES_READ
        lengths_read = np.where(is_long[owners], 0, lengths)
        bounds = np.searchsorted(owners, np.arange(count + 1))
        tops: list[tuple[int, tuple[int, ...]]] = []
        step = min(_MAX_TEXTS, 1 + _MAX_CELLS // self._others)
        for first in within_deadline(range(0, count, step)):
            last = min(count, first + step)
            part = slice(bounds[first], bounds[last])
            rows = self._rows[_ranges(starts[part], lengths_read[part])]
            own = np.repeat(owners[part] - first, lengths_read[part])
            tops += self._tops(*_tally(own * self._others + rows, (last - first) * self._others), last - first)
        for text in within_deadline(np.flatnonzero(is_long).tolist()):
            part = slice(bounds[text], bounds[text + 1])
            (tops[text],) = self._tops(*self._count(ids[part], starts[part], lengths[part]), 1)
        return [
            Cover(some / total, best / total, rows) if some else Cover(0.0, 0.0, ())
            for (best, rows), some, total in zip(tops, found.tolist(), totals.tolist(), strict=True)
        ]

    def _tops(self, keys: IntArray, counts: IntArray, texts: int) -> list[tuple[int, tuple[int, ...]]]:
        """Return the highest count of each text, and the rows that have it."""
        owners, rows = np.divmod(keys, self._others)
        best = np.zeros(texts, dtype=np.int64)
        np.maximum.at(best, owners, counts)
        is_top = counts == best[owners]
        rows = rows[is_top]
        bounds = np.searchsorted(owners[is_top], np.arange(texts + 1)).tolist()
        equals = (rows[start : min(end, start + _MAX_EQUALS)] for start, end in pairwise(bounds))
        return [(each, tuple(some.tolist())) for each, some in zip(best.tolist(), equals, strict=True)]

    def _count(self, ids: IntArray, starts: IntArray, lengths: IntArray) -> tuple[IntArray, IntArray]:
        """Return the rows likeliest to hold most of the grams of a text, ascending, and how many each holds."""
        order = np.flatnonzero(lengths)[np.argsort(lengths[lengths > 0], kind="stable")]
        kept = order[: max(1, int(np.searchsorted(np.cumsum(lengths[order]), _MAX_PLACES_READ)))]
        places = _ranges(starts[kept], np.minimum(lengths[kept], _MAX_PLACES_READ))
        rows, counts = _tally(self._rows[places], self._others)
        candidates = np.sort(rows[np.argsort(-counts, kind="stable")[:_MAX_CANDIDATES]])
        # Ascending throughout, so that each search starts near the one before.
        keys = ids[:, None] * self._others + candidates[None, :]
        found = np.minimum(np.searchsorted(self._pairs, keys), len(self._pairs) - 1)
        return candidates, (self._pairs[found] == keys).sum(axis=0)


def _tally(numbers: IntArray, size: int) -> tuple[IntArray, IntArray]:
    """Return the distinct of these numbers below `size`, ascending, and how often each is there."""
    if len(numbers) * 8 < size:
        return np.unique(numbers, return_counts=True)
    counts = np.bincount(numbers)
    found = np.flatnonzero(counts)
    return found, counts[found]


def _grams(units: Units, size: int) -> tuple[Units, IntArray]:
    """Return every gram within one text, packed into one number each, and the number of its text, ascending."""
    if len(units) < size:
        return np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64)
    length = len(units) - size + 1
    codes = np.zeros(length, dtype=np.uint64)
    inside = np.ones(length, dtype=bool)
    for offset in range(size):
        part = units[offset : offset + length]
        codes |= part << np.uint64(_BITS * offset)
        inside &= part != 0
    owners = np.cumsum(units == 0)[:length]
    return codes[inside], owners[inside]


def _ascending(numbers: NDArray[Number]) -> NDArray[Number]:
    """Return the distinct numbers, ascending: `np.unique` takes ten times as long on a sample's few."""
    if not len(numbers):
        return numbers
    ordered = np.sort(numbers)
    return ordered[np.concatenate(([True], ordered[1:] != ordered[:-1]))]


def _ranges(starts: IntArray, lengths: IntArray) -> IntArray:
    if not len(starts):
        return starts
    ends = np.cumsum(lengths)
    return np.asarray(np.arange(ends[-1]) + np.repeat(starts - (ends - lengths), lengths))
