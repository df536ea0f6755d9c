"""Read regular TREC runs of scores as columns, in blocks of numpy, without building a Python text per line."""

import itertools
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from plumbline.retrieval.run import WORD_BYTES, WORD_MASKS, Results, ScoreColumn, TextColumn, joined

SCORED_COLUMNS: Final = 6
LARGEST_BLANK: Final = 32
_SCAN_BYTES: Final = 256 * 1024  # stays in the processor's cache


class IrregularRun(Exception):
    """A line differs from the others; the line reader decides which one, and if it is wrong."""


@dataclass(frozen=True, slots=True)
class RegularText:
    """Text that holds `rows` lines of six fields, if every line has as many fields as the first.

    No field is empty or holds a blank or a control character. With `rows` lines of six fields, there is exactly one
    `separator` byte between two fields and one `\\n` between two lines.
    """

    data: bytes
    separator: bytes
    rows: int


def find_regular_text(data: bytes) -> RegularText | None:
    """Return the text with `\\r\\n` as `\\n`; None if it has comments, blank lines, or blanks of several kinds."""
    if b"\r" in data:
        # a lone carriage return is white space to one reader and a line's end to another
        if data.count(b"\r") != data.count(b"\r\n"):
            return None
        data = data.replace(b"\r\n", b"\n")
    end = data.find(b"\n")
    first = data[: end if end >= 0 else len(data)]
    separator = b"\t" if b"\t" in first else b" "
    columns = first.count(separator) + 1
    if columns != SCORED_COLUMNS or data.startswith((separator, b"#")) or data.endswith(separator):
        return None
    blanks = _count_single_blanks(data)
    rows, left = divmod((blanks or 0) + (not data.endswith(b"\n")), columns)
    return RegularText(data, separator, rows) if blanks and not left else None


def _count_single_blanks(data: bytes) -> int | None:
    """Count blanks and control characters; return None if two of them are adjacent."""
    text = np.frombuffer(data, dtype=np.uint8)
    found = 0
    for start in range(0, len(text), _SCAN_BYTES):
        is_blank = text[start : start + _SCAN_BYTES + 1] <= LARGEST_BLANK
        if (is_blank[1:] & is_blank[:-1]).any():
            return None
        found += int(np.count_nonzero(is_blank[:_SCAN_BYTES]))
    return found


_BLOCK_BYTES: Final = 512 * 1024
# Below, places are kept in 32 bits.
_WIDE_BYTES: Final = 2**31 - 4096
_NEWLINE: Final = ord("\n")
# A longer number is left to the line reader.
_MAX_NUMBER_BYTES: Final = 31
_MAX_FIXED_BYTES: Final = 16
_ZERO, _NINE, _POINT, _MINUS = np.uint8(ord("0")), 9, ord("."), ord("-")
_SPACES: Final = np.uint64(int.from_bytes(b" " * WORD_BYTES, "little"))
_COMMA_LAST: Final = np.uint64((ord(",") ^ ord(" ")) << (8 * (WORD_BYTES - 1)))


def _split_blocks(text: RegularText) -> Iterator[tuple[TextColumn, TextColumn, npt.NDArray[np.float64]]]:
    """Yield queries, documents and scores of some lines at a time; all texts are parts of one buffer.

    Raises (when walked):
        IrregularRun: a line has too few fields or too many, or a number is not written as JSON has it.
    """
    data, start = text.data, 0
    size = len(data) + (data[-1] != _NEWLINE)
    buffer = np.frombuffer(data + b"\n" * (size - len(data)) + bytes(WORD_BYTES), dtype=np.uint8)
    while start < size:
        end = data.rfind(b"\n", start, start + _BLOCK_BYTES) + 1 or data.find(b"\n", start) + 1 or size
        yield _parse_block(buffer, start, end, separator=text.separator[0])
        start = end


def _parse_block(
    buffer: npt.NDArray[np.uint8], start: int, end: int, *, separator: int
) -> tuple[TextColumn, TextColumn, npt.NDArray[np.float64]]:
    ends = np.flatnonzero(buffer[start:end] <= LARGEST_BLANK) + start
    if len(ends) % SCORED_COLUMNS:
        raise IrregularRun
    by_line = buffer[ends].reshape(-1, SCORED_COLUMNS)
    if (by_line[:, -1] != _NEWLINE).any() or (by_line[:, :-1] != separator).any():
        raise IrregularRun
    ends = ends.astype(np.int32 if len(buffer) < _WIDE_BYTES else np.int64, copy=False)
    starts = np.empty_like(ends)
    starts[0], starts[1:] = start, ends[:-1] + 1
    # copies: a view would keep the places of all six columns in memory, four times the file
    query_ids, documents, numbers = (
        TextColumn(
            buffer, starts[index::SCORED_COLUMNS].copy(), ends[index::SCORED_COLUMNS] - starts[index::SCORED_COLUMNS]
        )
        for index in (0, 2, 4)
    )
    scores = _decode_fixed(numbers)
    return query_ids, documents, _decode_numbers(numbers) if scores is None else scores


def _decode_fixed(numbers: TextColumn) -> npt.NDArray[np.float64] | None:
    """Decode numbers that all have as many decimals, as `%.6f` writes them; None for others.

    Up to 15 digits are an exact integer, and its quotient by a power of ten is rounded once, as `float` does.
    """
    width = int(numbers.lengths.max())
    ends = numbers.starts + numbers.lengths
    if width > _MAX_FIXED_BYTES or int(ends.min()) < width:
        return None
    cells = np.lib.stride_tricks.sliding_window_view(numbers.buffer, width)[ends - width]
    point = int(np.argmax(cells[0] == _POINT))
    decimals = width - 1 - point
    if decimals < 1 or (cells[:, point] != _POINT).any():
        return None
    first = width - numbers.lengths
    digits = np.where(np.arange(width) >= first[:, None], cells - _ZERO, 0)
    digits[:, point] = 0
    is_negative = numbers.buffer[numbers.starts] == _MINUS
    digits[is_negative, first[is_negative]] = 0
    if digits.max() > _NINE:
        return None
    exponents = np.arange(width - 1, -1, -1) - (np.arange(width) < point)
    values: npt.NDArray[np.float64] = digits @ 10.0**exponents / 10.0**decimals
    values[is_negative] *= -1.0
    return values


def _decode_numbers(numbers: TextColumn) -> npt.NDArray[np.float64]:
    """Decode the numbers as one JSON list: each padded to the same width with blanks and a comma."""
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
    if len(decoded) != len(numbers):  # a comma inside a number
        raise IrregularRun
    return np.array(decoded, dtype=np.float64)


# Many queries with few documents each are read sooner line by line.
_MIN_ROWS_PER_STRETCH: Final = 16
_FREE_STRETCHES: Final = 1_000
# Below, a dictionary is smaller and quicker.
_MIN_COLUMN: Final = 32
# Ids are read eight bytes at a time, all rows at once; no real id is longer than a URL.
_MAX_ID_BYTES: Final = 1_024
_HALF: Final = np.uint64(32)


class _Stretch(NamedTuple):
    """Neighbouring lines of one query."""

    documents: TextColumn
    fingerprints: npt.NDArray[np.uint64]
    numbers: npt.NDArray[np.float64]


def read_run_columns(text: RegularText) -> dict[str, Results] | None:
    """Read a run as the line reader would; return None if the line reader has to look at it.

    A query's lines need not be together.
    """
    stretches: defaultdict[str, list[_Stretch]] = defaultdict(list)
    try:
        for query_ids, documents, numbers in _split_blocks(text):
            if max(query_ids.lengths.max(initial=0), documents.lengths.max(initial=0)) > _MAX_ID_BYTES:
                return None
            starts = [0, *query_ids.changes().tolist()]
            is_scattered = (len(starts) - _FREE_STRETCHES) * _MIN_ROWS_PER_STRETCH > len(documents)
            if is_scattered or not np.isfinite(numbers).all():
                return None
            fingerprints = documents.fingerprints()
            for start, end in itertools.pairwise([*starts, len(documents)]):
                part = _Stretch(documents.between(start, end), fingerprints[start:end], numbers[start:end])
                stretches[query_ids[start]].append(part)
        # `#` begins a comment, of six words
        is_commented = any(query_id.startswith("#") for query_id in stretches)
        return None if is_commented else {query_id: _score_column(found) for query_id, found in stretches.items()}
    except IrregularRun:
        return None


def _score_column(stretches: list[_Stretch]) -> Results:
    documents, fingerprints, numbers = stretches[0]
    if len(stretches) > 1:
        documents = joined([each.documents for each in stretches])
        fingerprints = np.concatenate([each.fingerprints for each in stretches])
        numbers = np.concatenate([each.numbers for each in stretches])
    if len(numbers) < _MIN_COLUMN:
        by_document = dict(zip(documents.texts(), numbers.tolist(), strict=True))
        if len(by_document) < len(numbers):
            raise IrregularRun
        return by_document
    # half of a fingerprint says nearly as much and is sorted in half the time
    halves = np.sort((fingerprints >> _HALF).astype(np.uint32))
    if (halves[1:] == halves[:-1]).any() and len(set(documents.texts())) < len(documents):
        raise IrregularRun
    return ScoreColumn(documents, fingerprints, numbers)
