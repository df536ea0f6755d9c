"""Packing of texts into rows of equal length, so that little of a model's work is padding; and the model's protocol."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from plumbline.ground.bounded_cache import BoundedCache
from plumbline.judging.ports.token_vectors import TokenizedTexts

HalfVectors = NDArray[np.float16]
# Bound on the vectors that a process keeps in memory, in bytes.
CACHE_BYTES = 2**28
# Bytes that kept vectors take besides their numbers: the key, the array around them, their place in the table.
_OVERHEAD_BYTES = 300


def build_vector_cache(max_bytes: int) -> BoundedCache[bytes, HalfVectors]:
    return BoundedCache(max_bytes, lambda vectors: vectors.nbytes + _OVERHEAD_BYTES)


def make_key(tokens: Sequence[int], scope: bytes) -> bytes:
    """Return a key for tokens and scope (at most 64 bytes) that tells nothing of others' texts by timing."""
    return hashlib.blake2b(np.array(tokens, dtype=np.int32).tobytes(), digest_size=16, key=scope).digest()


# Rows have lengths in steps of so many tokens, so that what a backend prepares for one shape serves again.
_STEP = 16
# Rows that several texts share: attention costs the square of a row, and short rows leave gaps.
_SHARED = range(48, 129, _STEP)
_COMMON = _SHARED[-1]


@dataclass(frozen=True, slots=True)
class RowSlot:
    """Slot of a text: tokens [start, start + length) of a row."""

    row: int
    start: int
    length: int


@dataclass(frozen=True, slots=True)
class PackedBatch:
    """Input of a model, each array of shape (rows, length).

    `positions`: of each token within its text; `owners`: the number of its text, -1 for padding.
    """

    tokens: NDArray[np.int64]
    positions: NDArray[np.int64]
    owners: NDArray[np.int64]
    places: Sequence[RowSlot]

    def may_see(self) -> NDArray[np.float32]:
        """Return the attention mask, shape (rows, 1, length, length): 0 within one text, else very little."""
        same = self.owners[:, :, None] == self.owners[:, None, :]
        return np.where(same, np.float32(0.0), np.finfo(np.float32).min)[:, None]


def places_in_rows(lengths: Sequence[int], *, budget: int, shares: bool) -> list[RowSlot | None]:
    """Return the slot of each text in the next batch, None for those that do not fit; the first one always does.

    `lengths`: in tokens, those that come first matter most; `budget`: tokens of all rows together, roughly; a longer
    text is a batch of its own; `shares`: several texts may lie in one row.
    """
    longest = max(lengths) if not shares else lengths[0]
    sizes = _SHARED if shares and longest <= _COMMON else (row_length(longest),)
    tries = [
        _first_fit(lengths, size, rows=max(1, round(budget / size)), shares=shares) for size in sizes if size >= longest
    ]
    return max(tries, key=lambda found: found[0])[1]


def _first_fit(lengths: Sequence[int], size: int, *, rows: int, shares: bool) -> tuple[float, list[RowSlot | None]]:
    """Return the share of the batch that is no padding, and the slots: each text in the first row that has room."""
    filled = [0] * rows
    places: list[RowSlot | None] = []
    for length in lengths:
        row = next((row for row, used in enumerate(filled) if used + length <= size and (shares or not used)), None)
        if row is None:
            places.append(None)
            continue
        places.append(RowSlot(row, filled[row], length))
        filled[row] += length
    # What is left of the rows is cut off: a small request is not padded to the budget
    return sum(filled) / (sum(map(bool, filled)) * row_length(max(filled))), places


def row_length(longest: int) -> int:
    if longest <= _COMMON:
        return -(-longest // _STEP) * _STEP
    length = 2 * _COMMON
    while length < longest:
        length *= 2
    return length


def pack_batch(texts: Sequence[Sequence[int]], places: Sequence[RowSlot]) -> PackedBatch:
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
    """Return the vectors of every token of each text, without a queue; for checks and measurements."""
    found: list[NDArray[np.float32]] = [np.empty((0, 0), dtype=np.float32)] * len(texts)
    waiting = sorted(range(len(texts)), key=lambda text: -len(texts[text]))
    while waiting:
        places = places_in_rows([len(texts[text]) for text in waiting], budget=budget, shares=shares)
        placed = [(text, place) for text, place in zip(waiting, places, strict=True) if place]
        vectors = forward(pack_batch([texts[text] for text, _ in placed], [place for _, place in placed]))
        for text, place in placed:
            found[text] = vectors[place.row, place.start : place.start + place.length].copy()
        waiting = [text for text, place in zip(waiting, places, strict=True) if not place]
    return found


Precision = Literal["fp32", "bf16"]

# Texts of several lengths, for what a model makes of them alone and side by side.
PROBE = ("warm", "The bridge was opened in 1931.", "Two railway tracks cross the river, and so do 9,000 people a day.")
# fp32 differs by 1e-6 between two ways to add the same numbers; a model that mixes neighbours up, by far more.
MOST_DRIFT = 1e-3


class Reader(Protocol):
    """A model's tokenizer. `most`: tokens that the model reads of a text, None for no limit. For one thread."""

    most: int | None

    def read(self, texts: Sequence[str]) -> TokenizedTexts: ...

    def wanted_places(self, tokens: Sequence[int]) -> list[int]:
        """Return the places of the tokens whose vectors are wanted."""
        ...


class TokenModel(Protocol):
    """A loaded model. `forward` is thread-safe."""

    @property
    def reader(self) -> Reader: ...

    @property
    def backend(self) -> str:
        """Return the backend's name and version."""
        ...

    @property
    def digest(self) -> str:
        """Return the digest of its weights."""
        ...

    @property
    def supports_packing(self) -> bool:
        """Return True if several texts may share a row."""
        ...

    def forward(self, batch: PackedBatch) -> NDArray[np.float32]:
        """Return vectors of length 1 for all tokens, shape (rows, length, d); those of padding mean nothing."""
        ...


def is_same_side_by_side(
    texts: list[list[int]],
    alone: Callable[[list[int]], NDArray[np.float32]],
    forward: Callable[[PackedBatch], NDArray[np.float32]],
) -> bool:
    """Return True if texts packed into one row have the vectors that `alone` gives, of shape (tokens, d)."""
    try:
        together = forward_in_rows(texts, forward, budget=128, shares=True)
    except (TypeError, ValueError, RuntimeError, IndexError):
        return False
    return all(bool(np.abs(one - alone(text)).max() <= MOST_DRIFT) for text, one in zip(texts, together, strict=True))
