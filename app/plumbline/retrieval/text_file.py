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
                    detail = f"the gzip data has more than {MAX_GZIP_MEMBERS} members; compress it in one piece"
                    raise file_error(detail, name)
                inflater = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
            out.write(inflater.decompress(pending, max_bytes + 1 - out.tell()))
            if out.tell() > max_bytes:
                raise FileTooLarge(CodedText("gzip_expands", limit=max_bytes), place=format_place(name))
            pending = inflater.unused_data if inflater.eof else inflater.unconsumed_tail
            if out.tell() > max(UNWATCHED_BYTES, MAX_EXPANSION * (position - len(pending))):
                detail = f"the gzip data expands to more than {MAX_EXPANSION} times of what was sent"
                raise file_error(detail, name)
    except zlib.error as error:
        raise file_error(f"the gzip data is broken: {error}", name) from error
    if not inflater.eof:
        raise file_error("the gzip data ends too early; was the upload cut off?", name)
    return out.getvalue()


def _check_text(data: bytes, name: str) -> None:
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise file_error("is UTF-16; send text as UTF-8, plain or gzip", name)
    nul = data.find(b"\0")
    if nul >= 0:
        detail = "holds a NUL byte; send text as UTF-8, plain or gzip"
        raise file_error(detail, name, _find_line(data, nul))
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
            detail = "is not UTF-8; send text as UTF-8, plain or gzip"
            raise file_error(detail, name, line_number) from error


def _find_line(data: bytes, offset: int) -> int:
    return data.count(b"\n", 0, offset) + 1
