"""Uploaded files as checked UTF-8, decompressed under a cap, and the quoting of their content in errors."""

import codecs
import io
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

from plumbline.ground.errors import FileTooLarge, InvalidInput
from plumbline.ground.texts import CodedText

_GZIP_MAGIC: Final = b"\x1f\x8b"
# It expands to at most 8 MiB before the limits are checked.
_BLOCK_BYTES: Final = 8 * 1024
# bgzip writes a member per 64 KiB, so this is 4 GiB of it; each member copies up to a block of input.
MAX_GZIP_MEMBERS: Final = 65_536
# Text that repeats itself shrinks to a hundredth; zeros, by which a bomb is made, to a thousandth. Small files may be
# anything.
MAX_EXPANSION: Final = 250
UNWATCHED_BYTES: Final = 1_048_576
_MAX_NAME: Final = 120


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Limits of a file: its bytes, and again those that it decompresses to; its rows, without comments and blanks.

    max_reply: characters of an LLM's reply that is read for a ranking; None: any number.
    """

    max_bytes: int
    max_rows: int
    max_reply: int | None = None


def read_text_bytes(source: bytes | BinaryIO, *, name: str, limits: ReadLimits) -> bytes:
    """Return a file as UTF-8 bytes without a byte-order mark, decompressed; raise InvalidInput, or FileTooLarge."""
    data = source if isinstance(source, bytes) else source.read(limits.max_bytes + 1)
    if len(data) > limits.max_bytes:
        raise FileTooLarge(CodedText("file_too_large", limit=limits.max_bytes), place=format_place(name))
    if data.startswith(_GZIP_MAGIC):
        data = _gunzip(data, name, limits.max_bytes)
    data = data.removeprefix(codecs.BOM_UTF8)
    _check_text(data, name)
    return data


def numbered_lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield each line, its end included, with its number from 1; the file is not copied."""
    return enumerate(io.BytesIO(data), 1)


def format_place(name: str, line_number: int = 0) -> str:
    """Return `run.txt:14`, or the bare name for the whole file; unprintable characters become `?`."""
    printable = "".join(char if char.isprintable() else "?" for char in name[:_MAX_NAME])
    return f"{printable}:{line_number}" if line_number else printable


def file_error(detail: str, name: str, line_number: int = 0) -> InvalidInput:
    """Return an error that names the file, and the line where one is known."""
    return InvalidInput(detail, place=format_place(name, line_number))


def _gunzip(data: bytes, name: str, max_bytes: int) -> bytes:
    """Decompress, never holding more than `max_bytes` and one block."""
    out = io.BytesIO()
    inflater = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    members, pending, position = 1, b"", 0
    try:
        while pending or position < len(data):
            if not pending:
                pending = data[position : position + _BLOCK_BYTES]
                position += len(pending)
            if inflater.eof:
                pending = pending.lstrip(b"\0")  # padding between and after members, as gzip itself allows
                if not pending:
                    continue
                members += 1
                if members > MAX_GZIP_MEMBERS:
                    raise file_error(CodedText("gzip_of_many_members", limit=MAX_GZIP_MEMBERS), name)
                inflater = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
            out.write(inflater.decompress(pending, max_bytes + 1 - out.tell()))
            if out.tell() > max_bytes:
                raise FileTooLarge(CodedText("gzip_expands", limit=max_bytes), place=format_place(name))
            pending = inflater.unused_data if inflater.eof else inflater.unconsumed_tail
            if out.tell() > max(UNWATCHED_BYTES, MAX_EXPANSION * (position - len(pending))):
                raise file_error(CodedText("gzip_expands_times", times=MAX_EXPANSION), name)
    except zlib.error as error:
        raise file_error(CodedText("gzip_damaged", reason=str(error)), name) from error
    if not inflater.eof:
        raise file_error(CodedText("gzip_cut"), name)
    return out.getvalue()


def _check_text(data: bytes, name: str) -> None:
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise file_error(CodedText("is_utf16"), name)
    nul = data.find(b"\0")
    if nul >= 0:
        raise file_error(CodedText("holds_nul"), name, _find_line(data, nul))
    if data.isascii():
        return
    decoder = codecs.getincrementaldecoder("utf-8")()
    view = memoryview(data)
    for start in range(0, len(data), _BLOCK_BYTES):
        held = len(decoder.getstate()[0])
        try:
            decoder.decode(view[start : start + _BLOCK_BYTES], final=start + _BLOCK_BYTES >= len(data))
        except UnicodeDecodeError as error:
            line_number = _find_line(data, start - held + error.start)
            raise file_error(CodedText("is_not_utf8"), name, line_number) from error


def _find_line(data: bytes, offset: int) -> int:
    return data.count(b"\n", 0, offset) + 1
