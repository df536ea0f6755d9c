"""Data files: their format by name, their lines with byte offsets, plain or gzip; one line in memory at a time."""

import codecs
import gzip
import io
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, TypeVar, cast

from plumbline.ground.errors import InvalidInput, quoted
from plumbline.ground.texts import CodedText
from plumbline.rows.records.encodings import SAMPLE_BYTES, UTF_8, RecodedStream, detect_encoding

# A row longer than this is no row: it bounds memory, whatever a gzip bomb expands to.
MAX_ROW_BYTES: Final = 64 * 1024 * 1024
_GZIP_MAGIC: Final = b"\x1f\x8b"
_BLOCK_BYTES: Final = 256 * 1024

_T = TypeVar("_T")


class TextLine(NamedTuple):
    """A line with its end, or None if it is too long; `number` counts from 1, `end` is the offset after it."""

    number: int
    data: bytes | None
    end: int


class ByteStream:
    """The bytes of a file, uncompressed; gzip is detected by its first bytes.

    `encoding`: of the file; what is read is UTF-8, without a byte-order mark. Raises InvalidInput: the file cannot be
    opened; when read: broken or truncated gzip.
    """

    def __init__(self, path: Path, *, encoding: str = UTF_8) -> None:
        self._name = path.name
        self.offset = 0
        try:
            raw = path.open("rb")
        except OSError as error:
            raise InvalidInput(CodedText("unreadable", reason=error.strerror or ""), place=self._name) from error
        try:
            self._stream: BinaryIO = raw
            if raw.peek(len(_GZIP_MAGIC)).startswith(_GZIP_MAGIC):
                # GzipFile reads through small calls; the buffer makes lines cheap.
                self._stream = cast(BinaryIO, io.BufferedReader(gzip.GzipFile(fileobj=raw), _BLOCK_BYTES))
            if encoding == UTF_8:
                mark = self.read(len(codecs.BOM_UTF8))
                self.offset = self._try_access(self._stream.seek, len(mark) if mark == codecs.BOM_UTF8 else 0)
            else:
                self._stream = cast(BinaryIO, io.BufferedReader(RecodedStream(self._stream, encoding), _BLOCK_BYTES))
        except BaseException:
            raw.close()
            raise
        self._raw = raw

    def read(self, size: int) -> bytes:
        data = self._try_access(self._stream.read, size)
        self.offset += len(data)
        return data

    def readline(self, limit: int) -> bytes:
        """Return the next line with its end, or its first `limit` bytes."""
        data = self._try_access(self._stream.readline, limit)
        self.offset += len(data)
        return data

    def close(self) -> None:
        self._stream.close()
        self._raw.close()

    def _try_access(self, access: Callable[[int], _T], amount: int) -> _T:
        try:
            return access(amount)
        except EOFError as error:
            raise InvalidInput(CodedText("gzip_ends_early", bytes=self.offset), place=self._name) from error
        except (gzip.BadGzipFile, zlib.error) as error:
            raise InvalidInput(CodedText("gzip_broken", bytes=self.offset), place=self._name) from error
        except OSError as error:
            raise InvalidInput(
                CodedText("unreadable", reason=error.strerror or str(error)), place=self._name
            ) from error


class TextLines:
    """The lines of a file, one at a time; lines can be put back. Raises InvalidInput: as `ByteStream`."""

    def __init__(self, path: Path, *, max_bytes: int = MAX_ROW_BYTES, encoding: str = UTF_8) -> None:
        self._stream = ByteStream(path, encoding=encoding)
        self._number = 0
        self._max_bytes = max_bytes
        self._put_back: list[TextLine] = []

    def next_line(self) -> TextLine | None:
        if self._put_back:
            return self._put_back.pop()
        data = self._stream.readline(self._max_bytes + 1)
        if not data:
            return None
        self._number += 1
        if len(data) > self._max_bytes:
            while data and not data.endswith(b"\n"):
                data = self._stream.readline(_BLOCK_BYTES)
            return TextLine(self._number, None, self._stream.offset)
        return TextLine(self._number, data, self._stream.offset)

    def put_back(self, lines: list[TextLine]) -> None:
        """Put lines back, in file order, to be read again first."""
        self._put_back.extend(reversed(lines))

    def close(self) -> None:
        self._stream.close()


def find_encoding(path: Path) -> str:
    """Return the encoding of a text file by its first bytes; raises as `ByteStream` and `detect_encoding`."""
    sample: list[bytes] = []
    with closing(ByteStream(path)) as stream:
        try:
            while stream.offset < SAMPLE_BYTES and (line := stream.readline(_BLOCK_BYTES)):
                sample.append(line)
        except InvalidInput:
            # What stands before the damage is read
            if not sample:
                raise
    try:
        # The mark of UTF-8 is read already
        return detect_encoding(b"".join(sample))
    except InvalidInput as error:
        raise InvalidInput(error.detail, place=path.name) from None


def read_lines(path: Path) -> Iterator[bytes | None]:
    """Yield the lines of a file; None for one that is too long."""
    with closing(TextLines(path)) as lines:
        while (line := lines.next_line()) is not None:
            yield line.data


def too_long(max_bytes: int) -> tuple[str, str]:
    return CodedText("row_too_large", limit=max_bytes), CodedText("less_in_one_row")


_FORM_BY_SUFFIX: Final[Mapping[str, str]] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
}
FORMS: Final = tuple(dict.fromkeys(_FORM_BY_SUFFIX.values()))
# Read as a whole: for files on one's own machine, not for uploads and results
SHEET_FORM: Final = "xlsx"


def parse_row_format(path: Path, named: str | None = None, *, is_own: bool = False) -> str:
    """Return the format of a data file, one of `FORMS`: as named, else by its suffix without `.gz`.

    `is_own`: an Excel workbook will do, too. Raises InvalidInput: no such format, or an unknown suffix.
    """
    if is_own and SHEET_FORM in (named, path.suffix.lower()[1:] if named is None else ""):
        return SHEET_FORM
    if named is not None:
        if named not in FORMS:
            raise InvalidInput(CodedText("format_unknown", name=quoted(named), names=tuple(FORMS)), place=path.name)
        return named
    name = path.name.lower().removesuffix(".gz")
    form = _FORM_BY_SUFFIX.get(Path(name).suffix)
    if form is None:
        known = (*_FORM_BY_SUFFIX, *([f".{SHEET_FORM}"] if is_own else []))
        raise InvalidInput(CodedText("suffix_unknown", names=known), place=path.name)
    return form


_TAIL_BYTES: Final = 64 * 1024


def drop_torn_line(file: BinaryIO) -> None:
    """Truncate a file after its last line end and seek to its end."""
    end = size = file.seek(0, os.SEEK_END)
    while end > 0:
        start = max(0, end - _TAIL_BYTES)
        file.seek(start)
        found = file.read(end - start).rfind(b"\n")
        if found >= 0:
            end = start + found + 1
            break
        end = start
    if end < size:
        file.truncate(end)
    file.seek(end)
