"""Rows of JSON: a line each, the items of an array, or what one object holds; a malformed row fails alone."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import accumulate
from pathlib import Path
from typing import Final

import msgspec

from plumbline.ground.errors import InvalidInput
from plumbline.ground.texts import CodedText
from plumbline.rows.records.data_file import MAX_ROW_BYTES, ByteStream, TextLines, too_long
from plumbline.rows.records.encodings import NOT_UTF_8, UTF_8
from plumbline.rows.records.json_objects import FieldTest, rows_in_object
from plumbline.rows.records.record import BadRow, MendedRow, RawRow, ReadPosition, RowSource, describe_type

_WANTED: Final = CodedText("a_json_object")
_BLOCK_BYTES: Final = 256 * 1024
# Between indented objects, as jq and the console exporter of traces write them
_NEXT_OBJECT: Final = re.compile(rb"(?<=^\})\r?\n(?=\{)", re.MULTILINE)
# Whole texts in one step; the quote alone where a text continues in the next block or is broken. Possessive: linear.
_TEXT: Final = rb'"(?:[^"\\\n]++|\\[^\n])*+"'
_OUTSIDE: Final = re.compile(_TEXT + rb'|["{}\[\],]')
_NESTED: Final = re.compile(_TEXT + rb'|["{}\[\]]')
_INSIDE: Final = re.compile(rb'["\\\n]')
_NO_SPACE: Final = re.compile(rb"[^ \t\r\n]")
_DECODER: Final = msgspec.json.Decoder()
_SPACE: Final = b" \t\r\n"


def open_json(
    path: Path, *, encoding: str = UTF_8, fits: FieldTest | None = None, max_bytes: int | None = MAX_ROW_BYTES
) -> "RowSource":
    """Open the rows of a file of JSON, by what stands in it: an array, objects one behind the other, or one a line.

    Args:
        fits: tells which fields make a sample, as `rows_in_object` takes it.
        max_bytes: of a file that is one object, or several that are indented; None: any number.

    Raises:
        InvalidInput: the file cannot be opened, or one object holds no rows that can be told.
    """
    with closing(TextLines(path, encoding=encoding)) as lines:
        filled = (line for line in iter(lines.next_line, None) if line.data is None or line.data.strip())
        first, second = next(filled, None), next(filled, None)
    start = b"" if first is None or first.data is None else first.data.lstrip()
    if start.startswith(b"["):
        return JsonArrayRows(path, encoding=encoding)
    if start.startswith(b"{") and (second is None or isinstance(decode_row(start), BadRow)):
        with closing(ByteStream(path, encoding=encoding)) as stream:
            data = stream.read(-1 if max_bytes is None else max_bytes + 1)
        value = decode_row(data) if max_bytes is None or len(data) <= max_bytes else None
        if isinstance(value, BadRow) and len(parts := _NEXT_OBJECT.split(data)) > 1:
            lines_before = accumulate((part.count(b"\n") + 1 for part in parts), initial=1)
            return ListedRows([*map(decode_row, parts)], "", size=len(data), lines=[*lines_before])
        if isinstance(value, dict):
            try:
                return ListedRows(*rows_in_object(value, fits), size=len(data))
            except InvalidInput as error:
                raise InvalidInput(error.detail, place=path.name) from None
    return JsonLineRows(path, encoding=encoding)


class ListedRows:
    """Rows in memory; `note` tells where in their file they were."""

    columns: tuple[str, ...] | None = None

    def __init__(
        self, rows: Sequence[Mapping[str, object] | BadRow], note: str, *, size: int, lines: Sequence[int] = (1,)
    ) -> None:
        self._rows = rows
        self._lines = lines
        self._size = size
        self.note = note

    def __iter__(self) -> Iterator[RawRow]:
        for row, fields in enumerate(self._rows):
            # A list of rows has no lines that could be told
            line = None if self.note else self._lines[row]
            yield RawRow(row, line, fields, ReadPosition(row + 1, self._size * (row + 1) // len(self._rows)))

    def close(self) -> None:
        self._rows = ()


class JsonLineRows:
    """The rows of a JSON Lines file, plain or gzip; blank lines are no rows.

    Raises:
        InvalidInput: the file cannot be opened; when iterated: broken gzip, after the rows before the break.
    """

    columns: tuple[str, ...] | None = None
    note = ""

    def __init__(self, path: Path, *, max_bytes: int = MAX_ROW_BYTES, encoding: str = UTF_8) -> None:
        self._lines = TextLines(path, max_bytes=max_bytes, encoding=encoding)
        self._max_bytes = max_bytes

    def __iter__(self) -> Iterator[RawRow]:
        row = 0
        while (line := self._lines.next_line()) is not None:
            if line.data is None or not line.data.isspace():
                fields = BadRow(*too_long(self._max_bytes)) if line.data is None else decode_row(line.data)
                yield RawRow(row, line.number, fields, ReadPosition(row + 1, line.end))
                row += 1

    def close(self) -> None:
        self._lines.close()


class JsonArrayRows:
    """The elements of one JSON array, read a block at a time.

    A malformed element fails alone if its brackets are paired; unpaired brackets swallow the rest of the array, which
    raises at the end of the file.

    Raises:
        InvalidInput: the file cannot be opened or does not begin with `[`; when iterated: it ends without the `]`, or
            there is text after it; raised after the rows before it.
    """

    columns: tuple[str, ...] | None = None
    note = ""

    def __init__(self, path: Path, *, max_bytes: int = MAX_ROW_BYTES, encoding: str = UTF_8) -> None:
        self._name = path.name
        self._max_bytes = max_bytes
        self._row = self._line = 0
        self._stream = ByteStream(path, encoding=encoding)
        self._buffer = b""
        self._at = 0
        try:
            first = self._next_char()
            if first != b"[":
                begins = CodedText("begins_with", text=repr(first.decode("ascii", "replace")))
                raise InvalidInput(begins if first else CodedText("array_empty"), place=self._name)
            self._move(self._at + 1)
        except BaseException:
            self._stream.close()
            raise

    def __iter__(self) -> Iterator[RawRow]:
        while self._is_before_element():
            line = self._line + 1
            element = self._element()
            fields = BadRow(*too_long(self._max_bytes)) if element is None else decode_row(element)
            row, self._row = self._row, self._row + 1
            offset = self._stream.offset - len(self._buffer) + self._at
            yield RawRow(row, line, fields, ReadPosition(self._row, offset))

    def close(self) -> None:
        self._stream.close()

    def _is_before_element(self) -> bool:
        if self._next_char() != b"]":
            return True
        self._move(self._at + 1)
        if self._next_char():
            raise InvalidInput(CodedText("text_after_array"), place=self._place())
        return False

    def _next_char(self) -> bytes:
        """Return the next non-space character without consuming it; empty at the end of the file."""
        while True:
            match = _NO_SPACE.search(self._buffer, self._at)
            self._move(len(self._buffer) if match is None else match.start())
            if match is not None:
                return match[0]
            if not self._fill():
                return b""

    def _element(self) -> bytes | None:
        """Return the bytes up to the comma or bracket that ends the element; None if over the size limit."""
        scan, kept, is_long, is_ended = _ElementScan(), bytearray(), False, False
        while not is_ended:
            end, is_ended = scan.walk(self._buffer, self._at)
            is_long = is_long or len(kept) + end - self._at > self._max_bytes
            kept += b"" if is_long else self._buffer[self._at : end]
            self._move(end)
            if not is_ended and not self._fill():
                # A whole element counts; the missing bracket raises after it
                if scan.is_open or not kept.strip(_SPACE):
                    raise InvalidInput(CodedText("array_not_closed", row=self._row), place=self._place())
                break
        if is_ended and self._buffer[self._at : self._at + 1] == b",":
            self._move(self._at + 1)
        return None if is_long else bytes(kept)

    def _fill(self) -> bool:
        """Read another block, dropping consumed bytes; return False at the end of the file."""
        block = self._stream.read(_BLOCK_BYTES)
        self._buffer, self._at = self._buffer[self._at :] + block, 0
        return bool(block)

    def _move(self, to: int) -> None:
        self._line += self._buffer.count(b"\n", self._at, to)
        self._at = to

    def _place(self) -> str:
        return f"{self._name}:{self._line + 1}"


class _ElementScan:
    """Incremental search for the end of an array element, over any number of blocks."""

    def __init__(self) -> None:
        self._depth = 0
        self._is_text = False

    @property
    def is_open(self) -> bool:
        """Return True if the element cannot end here."""
        return self._depth > 0 or self._is_text

    def walk(self, block: bytes, position: int) -> tuple[int, bool]:
        """Return the position of the element's end and True, or the position reached and False."""
        while True:
            pattern = _INSIDE if self._is_text else _NESTED if self._depth else _OUTSIDE
            match = pattern.search(block, position)
            if match is None:
                return len(block), False
            char, position = match[0], match.end()
            if char == b"\\":
                # It and the character that it escapes are read together
                if position == len(block):
                    return match.start(), False
                position += 1
            elif len(char) == 1 and not self.is_open and char in b",]":
                return match.start(), True
            elif self._is_text or char == b'"':
                # A line end closes a text without a closing quote, so that only its own row fails.
                self._is_text = not self._is_text
            elif char in (b"{", b"["):
                self._depth += 1
            elif char in (b"}", b"]"):
                self._depth = max(0, self._depth - 1)


def decode_row(data: bytes) -> dict[str, object] | BadRow:
    """Decode one JSON object, or return why it is none. The last value of a repeated name is used.

    NaN and Infinity, which Python writes, are null, and half of a surrogate pair is kept: what needs it refuses it.
    """
    try:
        fields = _DECODER.decode(data)
    except UnicodeDecodeError:
        return BadRow(*NOT_UTF_8)
    except (ValueError, RecursionError):
        return _mend(data)
    if isinstance(fields, dict):
        return fields
    return BadRow(describe_type(fields), _WANTED)


def _mend(data: bytes) -> dict[str, object] | BadRow:
    """Decode as the standard library does: with NaN, Infinity and lone surrogates; an error has its column."""
    try:
        fields = json.loads(data.strip(_SPACE), parse_constant=lambda _: None)
    except UnicodeDecodeError:
        return BadRow(*NOT_UTF_8)
    except json.JSONDecodeError as error:
        return BadRow(CodedText("not_json_at", column=error.colno, reason=error.msg), _WANTED)
    except (ValueError, RecursionError):
        return BadRow(CodedText("json_too_deep_or_long"), _WANTED)
    return MendedRow(fields) if isinstance(fields, dict) else BadRow(describe_type(fields), _WANTED)
