"""Texts side by side in rows of equal length, so that little of a model's work goes into padding."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# Rows have lengths in steps of so many tokens, so that what a backend prepares for one shape serves again.
_STEP = 16
# Rows that several texts share: attention costs the square of a row, and short rows leave gaps.
_SHARED = range(48, 129, _STEP)
_COMMON = _SHARED[-1]


@dataclass(frozen=True, slots=True)
class RowSlot:
    """Where a text lies: tokens [start, start + length) of a row."""

    row: int
    start: int
    length: int


@dataclass(frozen=True, slots=True)
class PackedBatch:
    """What a model is given, each of shape (rows, length).

    `tokens`; `positions`: of each token within its text; `owners`: the number of its text, -1 for padding. `places`:
    where each text lies.
    """

    tokens: NDArray[np.int64]
    positions: NDArray[np.int64]
    owners: NDArray[np.int64]
    places: Sequence[RowSlot]

    def may_see(self) -> NDArray[np.float32]:
        """Shape (rows, 1, length, length): 0 where a token may look at another, of its own text, else very little."""
        same = self.owners[:, :, None] == self.owners[:, None, :]
        return np.where(same, np.float32(0.0), np.finfo(np.float32).min)[:, None]


def places_in_rows(lengths: Sequence[int], *, budget: int, shares: bool) -> list[RowSlot | None]:
    """Where each text lies in the next batch, None for those that it has no room for; the first one always has.

    Args:
        lengths: of the texts in tokens, those that come first matter most.
        budget: tokens of all rows together, roughly; a longer text is a batch of its own.
        shares: several texts may lie in one row.
    """
    longest = max(lengths) if not shares else lengths[0]
    sizes = _SHARED if shares and longest <= _COMMON else (row_length(longest),)
    tries = [
        _first_fit(lengths, size, rows=max(1, round(budget / size)), shares=shares) for size in sizes if size >= longest
    ]
    return max(tries, key=lambda found: found[0])[1]


def _first_fit(lengths: Sequence[int], size: int, *, rows: int, shares: bool) -> tuple[float, list[RowSlot | None]]:
    """The share of the rows that is filled, and the places: each text in the first row that has room."""
    filled = [0] * rows
    places: list[RowSlot | None] = []
    for length in lengths:
        row = next((row for row, used in enumerate(filled) if used + length <= size and (shares or not used)), None)
        if row is None:
            places.append(None)
            continue
        places.append(RowSlot(row, filled[row], length))
        filled[row] += length
    return sum(filled) / (rows * size), places


def row_length(longest: int) -> int:
    """The length of rows for texts of at most so many tokens."""
    if longest <= _COMMON:
        return -(-longest // _STEP) * _STEP
    length = 2 * _COMMON
    while length < longest:
        length *= 2
    return length


def batch_of(texts: Sequence[Sequence[int]], places: Sequence[RowSlot]) -> PackedBatch:
    """The texts at their places, in rows no longer than needed."""
    rows = 1 + max(place.row for place in places)
    length = row_length(max(place.start + place.length for place in places))
    tokens, positions = np.zeros((2, rows, length), dtype=np.int64)
    owners = np.full((rows, length), -1, dtype=np.int64)
    for number, (text, place) in enumerate(zip(texts, places, strict=True)):
        span = slice(place.start, place.start + place.length)
        tokens[place.row, span] = text
        positions[place.row, span] = np.arange(place.length)
        owners[place.row, span] = number
    return PackedBatch(tokens, positions, owners, places)


def forward_in_rows(
    texts: Sequence[Sequence[int]],
    forward: Callable[[PackedBatch], NDArray[np.float32]],
    *,
    budget: int,
    shares: bool,
) -> list[NDArray[np.float32]]:
    """The vectors of every token of each text, outside of any queue; for checks and measurements."""
    found: list[NDArray[np.float32]] = [np.empty((0, 0), dtype=np.float32)] * len(texts)
    waiting = sorted(range(len(texts)), key=lambda text: -len(texts[text]))
    while waiting:
        places = places_in_rows([len(texts[text]) for text in waiting], budget=budget, shares=shares)
        placed = [(text, place) for text, place in zip(waiting, places, strict=True) if place]
        vectors = forward(batch_of([texts[text] for text, _ in placed], [place for _, place in placed]))
        for text, place in placed:
            found[text] = vectors[place.row, place.start : place.start + place.length].copy()
        waiting = [text for text, place in zip(waiting, places, strict=True) if not place]
    return found
