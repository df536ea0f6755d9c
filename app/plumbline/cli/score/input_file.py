"""Which file is scored: known again by its size and its content, whatever its name and date."""

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from plumbline.ground.errors import InvalidInput

_BLOCK_BYTES: Final = 1 << 20
_DIGEST_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file as it was found. `digest` is BLAKE2b of its bytes as they lie there, compressed or not."""

    bytes: int
    modified_ns: int
    digest: str


def identified(path: Path, before: InputFile | None = None) -> InputFile:
    """The file's identity; not read when size and date are those it had `before` (1.2 s a GB else).

    Raises:
        InvalidInput: it cannot be read.
    """
    try:
        stat = path.stat()
        if before is not None and (stat.st_size, stat.st_mtime_ns) == (before.bytes, before.modified_ns):
            return before
        with path.open("rb") as file:
            return InputFile(stat.st_size, stat.st_mtime_ns, _digest(file))
    except OSError as error:
        raise InvalidInput(f"cannot be read ({error.strerror})", place=path.name) from error


def spooled(stream: BinaryIO, folder: Path) -> Path:
    """A stream in a file, which can be read twice: once for its columns."""
    path = folder / "standard-input.jsonl"
    with path.open("wb") as file:
        shutil.copyfileobj(stream, file, _BLOCK_BYTES)
    return path


def _digest(file: BinaryIO) -> str:
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    while block := file.read(_BLOCK_BYTES):
        digest.update(block)
    return digest.hexdigest()
