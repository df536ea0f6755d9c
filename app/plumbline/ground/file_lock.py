"""One process at a time: a lock on a file, which ends with the process that holds it."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from plumbline.ground.errors import InvalidInput


@contextmanager
def alone(lock: Path, *, place: str, busy: str) -> Iterator[None]:
    """Holds off other processes that lock the same file, which is made where it is not there.

    Args:
        place: what is locked, as the user knows it.
        busy: what is said when another process holds it.

    Raises:
        InvalidInput: another process holds it, or it cannot be made.
    """
    try:
        descriptor = os.open(lock, os.O_WRONLY | os.O_CREAT, 0o600)
    except OSError as error:
        raise InvalidInput(f"cannot be locked ({error.strerror})", place=place) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise InvalidInput(busy, place=place) from None
    finally:
        os.close(descriptor)
