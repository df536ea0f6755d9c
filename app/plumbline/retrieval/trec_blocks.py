"""Blocks of a regular run without pyarrow: numpy finds the blanks, checks every line, and never makes a text."""

from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from plumbline.retrieval.text_column import WORD_BYTES, WORD_MASKS, TextColumn
from plumbline.retrieval.trec_layout import LARGEST_BLANK, SCORED_COLUMNS, IrregularRun, RegularText

_BLOCK_BYTES: Final = 512 * 1024
_NEWLINE: Final = ord("\n")
# A longer number is left to the line reader.
_MAX_NUMBER_BYTES: Final = 31
_SPACES: Final = np.uint64(int.from_bytes(b" " * WORD_BYTES, "little"))
_COMMA_LAST: Final = np.uint64((ord(",") ^ ord(" ")) << (8 * (WORD_BYTES - 1)))
_Integers = npt.NDArray[np.int64]


class Block(NamedTuple):
    """Some lines of a run, one entry each: scores, or ranks as numbers."""

    query_ids: TextColumn
    documents: TextColumn
    numbers: npt.NDArray[np.float64]


def split_blocks(text: RegularText) -> Iterator[Block]:
    """The blocks of a run of scores.

    Raises (when walked):
        IrregularRun: a line has too few fields or too many, a number is not written as JSON has it, or the run is one
            of ranked lists.
    """
    if text.columns != SCORED_COLUMNS:
        raise IrregularRun
    data, start = text.data, 0
    while start < len(data):
        end = data.rfind(b"\n", start, start + _BLOCK_BYTES) + 1 or data.find(b"\n", start) + 1 or len(data)
        yield _block(data[start:end], text)
        start = end


def _block(lines: bytes, text: RegularText) -> Block:
    size = len(lines) + (lines[-1] != _NEWLINE)
    buffer = np.zeros(size + WORD_BYTES, dtype=np.uint8)
    buffer[: len(lines)] = np.frombuffer(lines, dtype=np.uint8)
    buffer[size - 1] = _NEWLINE
    ends = np.flatnonzero(buffer[:size] <= LARGEST_BLANK)
    if len(ends) % text.columns:
        raise IrregularRun
    by_line = buffer[ends].reshape(-1, text.columns)
    if (by_line[:, -1] != _NEWLINE).any() or (by_line[:, :-1] != text.separator[0]).any():
        raise IrregularRun
    starts = np.concatenate([[0], ends[:-1] + 1])
    query_ids, documents, numbers = (_column(buffer, starts, ends, index) for index in (0, 2, 4))
    return Block(query_ids, documents, _decoded(numbers))


def _column(buffer: npt.NDArray[np.uint8], starts: _Integers, ends: _Integers, index: int) -> TextColumn:
    own = starts[index::SCORED_COLUMNS]
    return TextColumn(buffer, own, ends[index::SCORED_COLUMNS] - own)


def _decoded(numbers: TextColumn) -> npt.NDArray[np.float64]:
    """The numbers, read as one JSON list: each padded to the same width with blanks and a comma."""
    width = int(numbers.lengths.max())
    if width > _MAX_NUMBER_BYTES:
        raise IrregularRun
    padded = np.empty((len(numbers), width // WORD_BYTES + 1), dtype="<u8")
    for index in range(padded.shape[1]):
        left = np.clip(numbers.lengths - index * WORD_BYTES, 0, WORD_BYTES)
        padded[:, index] = numbers.words(index * WORD_BYTES) | (_SPACES & ~WORD_MASKS[left])
    padded[:, -1] ^= _COMMA_LAST
    try:
        decoded = msgspec.json.decode(b"[" + padded.tobytes()[:-1] + b"]", type=list[float])
    except msgspec.DecodeError as error:
        raise IrregularRun from error
    if len(decoded) != len(numbers):  # somebody's comma
        raise IrregularRun
    return np.array(decoded, dtype=np.float64)
