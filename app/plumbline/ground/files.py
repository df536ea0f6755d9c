"""Files that are replaced atomically, locked over processes and compared by digest; on Linux, macOS and Windows."""

import hashlib
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from plumbline.ground.errors import InvalidInput

PARTIAL_SUFFIX: Final = ".partial"
# Less holds no group of results, nor the journal of a database.
_LEAST_FREE_BYTES: Final = 4 * 1024 * 1024


@contextmanager
def atomic_write(path: Path, *, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Open a temporary file in the folder of `path` that replaces `path` when the block ends without an error.

    Its content is on the disk before it takes the name. A killed process leaves `.NAME.RANDOM.partial`.
    """
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}{PARTIAL_SUFFIX}")
    try:
        with os.fdopen(os.open(partial, _flags(os.O_WRONLY | os.O_CREAT | os.O_EXCL), mode), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def replace_file(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Write a small file atomically; raise InvalidInput if it cannot be written."""
    try:
        with atomic_write(path, mode=mode) as file:
            file.write(data)
    except OSError as error:
        raise InvalidInput(f"cannot be written ({error.strerror})", place=path.name) from error


def read_file(path: Path) -> bytes:
    """Return the content of a small file; raise InvalidInput if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"cannot be read ({error.strerror})", place=path.name) from error


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file of any size in hexadecimal digits; raise InvalidInput if it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InvalidInput(f"cannot be read ({error.strerror})", place=path.name) from error


@contextmanager
def locked(path: Path, *, place: str, busy: str | None = None) -> Iterator[None]:
    """Hold an exclusive lock over processes while the block runs; it ends with the process, too.

    `path`: a lock file, created when missing and left behind (removing it would let two processes in), and not the
    file that is protected. Raises InvalidInput at `place`: another process holds the lock and `busy` says so, without
    which it is waited for; or the lock file cannot be created.
    """
    try:
        descriptor = os.open(path, _flags(os.O_RDWR | os.O_CREAT), 0o600)
    except OSError as error:
        raise InvalidInput(f"cannot be locked ({error.strerror})", place=place) from error
    try:
        if not try_lock(descriptor, is_waiting=busy is None):
            raise InvalidInput(busy or "", place=place)
        yield
    finally:
        os.close(descriptor)


def try_lock(descriptor: int, *, is_waiting: bool = False) -> bool:
    """Lock an open file for this process, exclusively; return False, or wait, if another process holds the lock.

    It is advisory on POSIX; on Windows it covers the file's first byte. Closing the file releases it. Raises OSError.
    """
    # 70 ms of import that a process without locks never pays.
    from filelock import lock_descriptor  # noqa: PLC0415

    return lock_descriptor(descriptor, blocking=is_waiting)


def find_folder_problem(folder: Path) -> str | None:
    """Return why nothing can be written to a folder, or to where it would be made; None if it can."""
    place = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    if not place.is_dir():
        return f"cannot be used: {place.name} is a file"
    if not os.access(place, os.W_OK | os.X_OK):
        return "cannot be written"
    try:
        free = shutil.disk_usage(place).free
    except OSError as error:
        return f"cannot be used ({error.strerror})"
    return None if free >= _LEAST_FREE_BYTES else "is on a disk that is full"


class FileStamp(NamedTuple):
    changed_ns: int
    size: int
    inode: int


def file_stamp(path: Path) -> FileStamp | None:
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return FileStamp(found.st_mtime_ns, found.st_size, found.st_ino)


def _flags(flags: int) -> int:
    # Without it Windows translates line ends.
    return flags | getattr(os, "O_BINARY", 0)
