"""Rows of JSON Lines and JSON arrays; a malformed row fails alone."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NoReturn

import msgspec

from plumbline.ground.errors import InvalidInput
from plumbline.rows.records.data_file import MAX_ROW_BYTES, ByteStream, TextLines, too_long
from plumbline.rows.records.record import BadRow, RawRow, ReadPosition, describe_type

_WANTED: Final = "one JSON object"
_BLOCK_BYTES: Final = 256 * 1024
# Whole texts in one step; the quote alone where a text continues in the next block or is broken. Possessive: linear.
_TEXT: Final = rb'"(?:[^"\\\n]++|\\[^\n])*+"'
_OUTSIDE: Final = re.compile(_TEXT + rb'|["{}\[\],]')
_NESTED: Final = re.compile(_TEXT + rb'|["{}\[\]]')
_INSIDE: Final = re.compile(rb'["\\\n]')
_NO_SPACE: Final = re.compile(rb"[^ \t\r\n]")
# An object that begins with a list: `{"data": [`
_WITHIN: Final = re.compile(rb'\{[ \t\r\n]*+"([A-Za-z0-9_-]{1,40})"[ \t\r\n]*+:[ \t\r\n]*+\[')
_DECODER: Final = msgspec.json.Decoder()
_SPACE: Final = b" \t\r\n"


class JsonLineRows:
    """The rows of a JSON Lines file, plain or gzip; blank lines are no rows.

    Raises:
        InvalidInput: the file cannot be opened; when iterated: broken gzip, after the rows before the break.
    """

    columns: tuple[str, ...] | None = None

    def __init__(self, path: Path, *, max_bytes: int = MAX_ROW_BYTES) -> None:
        self._lines = TextLines(path, max_bytes=max_bytes)
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

    def __init__(self, path: Path, *, max_bytes: int = MAX_ROW_BYTES) -> None:
        self._name = path.name
        self._max_bytes = max_bytes
        self._row = self._line = 0
        self._stream = ByteStream(path)
        self._buffer = b""
        self._at = 0
        try:
            first = self._next_char()
            if first != b"[":
                what = f"begins with {first.decode('ascii', 'replace')!r}" if first else "is empty"
                within = _WITHIN.match(self._buffer, self._at)
                advice = "name the format jsonl for one object a line"
                if within:
                    advice = f"take the list {within[1].decode()!r} out of its object into a file of its own"
                detail = f"{what}; expected '[' and JSON objects; {advice}"
                raise InvalidInput(detail, place=self._name)
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
            raise InvalidInput("more text after the array's ']'; expected its end", place=self._place())
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
                    detail = f"the array is not closed after row {self._row}; expected ']'; was the copy cut off?"
                    raise InvalidInput(detail, place=self._place())
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


def decode_row(data: bytes) -> Mapping[str, object] | BadRow:
    """Decode one JSON object, or return why it is none. The last value of a repeated name is used."""
    try:
        fields = _DECODER.decode(data)
    except UnicodeDecodeError:
        return BadRow("text that is not UTF-8", "text saved as UTF-8")
    except (ValueError, RecursionError):
        return _describe_malformed(data)
    if isinstance(fields, dict):
        return fields
    advice = "; name the format json where the file is one list" if isinstance(fields, list) else ""
    return BadRow(describe_type(fields), _WANTED + advice)


def _describe_malformed(data: bytes) -> BadRow:
    """Describe the error as the standard library does: with a column."""
    try:
        json.loads(data.strip(_SPACE), parse_constant=_constant)
    except BadRow as bad:
        return bad
    except json.JSONDecodeError as error:
        return BadRow(f"not JSON at column {error.colno} ({error.msg})", _WANTED)
    except (ValueError, RecursionError):
        return BadRow("JSON that is too deep or too long to read", _WANTED)
    return BadRow("a number out of range, or half of a surrogate pair", "numbers and text that UTF-8 JSON can hold")


def _constant(name: str) -> NoReturn:
    raise BadRow(f"{name}, which is no JSON", "numbers, or null where there is none")
