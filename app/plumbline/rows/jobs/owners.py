"""Which processes are alive that work on one folder: each holds a lock that the system takes back when it ends."""

import fcntl
import os
import secrets
from pathlib import Path


class Owners:
    """The processes that share a folder on one machine.

    A lock of the system tells at once that a process was killed, where waiting for its lease would take as long as the
    lease. Made lazily: a folder that cannot be written raises OSError from `name`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._name: str | None = None
        self._lock: int | None = None

    def name(self) -> str:
        """The name of this process, alive from the first call to `close`."""
        if self._name is None:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            name = f"{os.getpid()}-{secrets.token_hex(8)}"
            # Locked before it has its name: nobody may take it for dead in between.
            unnamed = self._folder / f".{name}"
            self._lock = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            unnamed.rename(self._folder / name)
            self._name = name
        return self._name

    def is_alive(self, name: str) -> bool:
        """Whether the process of that name still runs."""
        if name == self._name:
            return True
        try:
            descriptor = os.open(self._folder / name, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def forget(self, name: str) -> None:
        """Remove what a dead process left."""
        (self._folder / name).unlink(missing_ok=True)

    def close(self) -> None:
        """Say that this process is no owner any more."""
        if self._name is not None and self._lock is not None:
            self.forget(self._name)
            os.close(self._lock)
            self._name = self._lock = None
