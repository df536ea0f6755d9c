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
    bounds = np.searchsorted(owners, np.arange(count + 1))
    wanted = (_distinct(codes[start:end], left_out) for start, end in pairwise(bounds))
    places = _Places(_ascending(codes), others, size)
    return [places.cover(grams) for grams in within_deadline(wanted)]


def shared(texts: Units, others: Units, *, size: int) -> list[float]:
    """Return the share of each text's grams of `size` units that any of the others has; 0 for a text without one."""
    codes, owners = _grams(texts, size)
    count = int((texts == 0).sum()) + 1
    found = np.bincount(owners, np.isin(codes, _grams(others, size)[0]), count)
    shares: list[float] = (found / np.maximum(1, np.bincount(owners, minlength=count))).tolist()
    return shares


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

    def cover(self, grams: Units) -> Cover:
        if not len(grams):
            return Cover(0.0, 0.0, ())
        ids = np.searchsorted(self._vocabulary, grams)
        starts, ends = self._bounds[ids], self._bounds[ids + 1]
        lengths = ends - starts
        anywhere = int((lengths > 0).sum())
        if not anywhere:
            return Cover(0.0, 0.0, ())
        rows, counts = self._count(ids, starts, lengths)
        best = int(counts.max())
        equals = rows[counts == best][:_MAX_EQUALS]
        return Cover(anywhere / len(grams), best / len(grams), tuple(int(row) for row in equals))

    def _count(self, ids: IntArray, starts: IntArray, lengths: IntArray) -> tuple[IntArray, IntArray]:
        """Return the rows that hold any of the grams, ascending, and how many each holds."""
        if lengths.sum() <= _MAX_PLACES_READ:
            return self._tally(self._rows[_ranges(starts, lengths)])
        order = np.flatnonzero(lengths)[np.argsort(lengths[lengths > 0], kind="stable")]
        kept = order[: max(1, int(np.searchsorted(np.cumsum(lengths[order]), _MAX_PLACES_READ)))]
        rows, counts = self._tally(self._rows[_ranges(starts[kept], np.minimum(lengths[kept], _MAX_PLACES_READ))])
        candidates = np.sort(rows[np.argsort(-counts, kind="stable")[:_MAX_CANDIDATES]])
        # Ascending throughout, so that each search starts near the one before.
        keys = ids[:, None] * self._others + candidates[None, :]
        found = np.minimum(np.searchsorted(self._pairs, keys), len(self._pairs) - 1)
        return candidates, (self._pairs[found] == keys).sum(axis=0)

    def _tally(self, rows: IntArray) -> tuple[IntArray, IntArray]:
        if len(rows) * 8 < self._others:
            return np.unique(rows, return_counts=True)
        counts = np.bincount(rows)
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


def _distinct(grams: Units, left_out: Units | None) -> Units:
    distinct = _ascending(grams)
    if left_out is None:
        return distinct
    kept = distinct[~np.isin(distinct, left_out)]
    return kept if len(kept) else distinct


def _ascending(numbers: NDArray[Number]) -> NDArray[Number]:
    """Return the distinct numbers, ascending: `np.unique` takes ten times as long on a sample's few."""
    if not len(numbers):
        return numbers
    ordered = np.sort(numbers)
    return ordered[np.concatenate(([True], ordered[1:] != ordered[:-1]))]


def _ranges(starts: IntArray, lengths: IntArray) -> IntArray:
    ends = np.cumsum(lengths)
    return np.asarray(np.arange(ends[-1]) + np.repeat(starts - (ends - lengths), lengths))
