"""Small files that are replaced as a whole: a reader, or a crash, finds the old one or the new one."""

import hashlib
import os
from pathlib import Path
from typing import Final

from plumbline.ground.errors import InvalidInput

_BLOCK_BYTES: Final = 1024 * 1024


def replace_file(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Writes the file, on the disk before it takes its name.

    Raises:
        InvalidInput: it cannot be written.
    """
    partial = path.with_name(f"{path.name}.partial")
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise InvalidInput(f"cannot be written ({error.strerror})", place=path.name) from error


def read_file(path: Path) -> bytes:
    """All of a small file.

    Raises:
        InvalidInput: it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"cannot be read ({error.strerror})", place=path.name) from error


def sha256_of(path: Path) -> str:
    """The digest of a file of any size, in hexadecimal digits.

    Raises:
        InvalidInput: it cannot be read.
    """
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(_BLOCK_BYTES):
                digest.update(block)
    except OSError as error:
        raise InvalidInput(f"cannot be read ({error.strerror})", place=path.name) from error
    return digest.hexdigest()
