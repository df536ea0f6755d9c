"""Texts side by side in rows of equal length, so that little of a model's work goes into padding."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# Lengths of rows, in tokens: few of them, so that what a backend prepares for one shape serves again. Attention costs
# the square of a row, and short rows leave gaps: 128 lost least of 32 to 256 with sentences of 30 tokens.
_LENGTHS = (32, 64, 96, 128)
_COMMON = _LENGTHS[-1]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a text lies: tokens [start, start + length) of a row."""

    row: int
    start: int
    length: int


@dataclass(frozen=True, slots=True)
class Batch:
    """What a model is given, each of shape (rows, length).

    `tokens`; `positions`: of each token within its text; `owners`: the number of its text, -1 for padding. `places`:
    where each text lies.
    """

    tokens: NDArray[np.int64]
    positions: NDArray[np.int64]
    owners: NDArray[np.int64]
    places: Sequence[Place]

    def may_see(self) -> NDArray[np.float32]:
        """Shape (rows, 1, length, length): 0 where a token may look at another, of its own text, else very little."""
        same = self.owners[:, :, None] == self.owners[:, None, :]
        return np.where(same, np.float32(0.0), np.finfo(np.float32).min)[:, None]


class RowFilling:
    """Rows that are filled text by text.

    Args:
        budget: tokens of all rows together, as long as no single text is longer.
        shares: several texts may lie in one row.
        longest: of the text that must fit, in tokens.
    """

    def __init__(self, budget: int, *, shares: bool, longest: int) -> None:
        self._shares = shares
        self._length = row_length(longest) if not shares or longest > _COMMON else _COMMON
        self._filled = [0] * max(1, budget // self._length)

    def place(self, length: int) -> tuple[int, int] | None:
        """Row and start for a text of so many tokens in the first row that has room; None when none has."""
        for row, filled in enumerate(self._filled):
            if filled + length <= self._length and (self._shares or not filled):
                self._filled[row] = filled + length
                return row, filled
        return None


def row_length(longest: int) -> int:
    """The length of rows for texts of at most so many tokens."""
    if longest <= _COMMON:
        return next(length for length in _LENGTHS if longest <= length)
    length = 2 * _COMMON
    while length < longest:
        length *= 2
    return length


def batch_of(texts: Sequence[Sequence[int]], places: Sequence[Place]) -> Batch:
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
    return Batch(tokens, positions, owners, places)


def forward_in_rows(
    texts: Sequence[Sequence[int]],
    forward: Callable[[Batch], NDArray[np.float32]],
    *,
    budget: int,
    shares: bool,
) -> list[NDArray[np.float32]]:
    """The vectors of every token of each text, outside of any queue; for checks and measurements."""
    found: list[NDArray[np.float32]] = [np.empty((0, 0), dtype=np.float32)] * len(texts)
    waiting = sorted(range(len(texts)), key=lambda text: -len(texts[text]))
    while waiting:
        filling = RowFilling(budget, shares=shares, longest=len(texts[waiting[0]]))
        placed, places = _fill(filling, waiting, texts)
        vectors = forward(batch_of([texts[text] for text in placed], places))
        for text, place in zip(placed, places, strict=True):
            found[text] = vectors[place.row, place.start : place.start + place.length].copy()
        done = frozenset(placed)
        waiting = [text for text in waiting if text not in done]
    return found


def _fill(filling: RowFilling, waiting: Iterable[int], texts: Sequence[Sequence[int]]) -> tuple[list[int], list[Place]]:
    placed, places = [], []
    for text in waiting:
        at = filling.place(len(texts[text]))
        if at is not None:
            placed.append(text)
            places.append(Place(*at, len(texts[text])))
    return placed, places
