"""Lock files of the processes that share a folder, and uploads named after the process that wrote them."""

import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from plumbline.ground.files import try_lock


class Owners:
    """Processes that share a folder on one machine; each holds a file lock that ends with it.

    The lock shows a killed process at once, without waiting for its leases to expire. Created lazily: a folder that
    cannot be written raises OSError from `name`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._name: str | None = None
        self._lock: int | None = None

    def name(self) -> str:
        """Return the name of this process, alive from the first call to `close`."""
        if self._name is None:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            name = f"{os.getpid()}-{secrets.token_hex(8)}"
            # Locked before it is renamed: no process may take it for dead in between.
            unnamed = self._folder / f".{name}"
            # (Windows renames no open file: there the moment in between remains.)
            path = unnamed if os.name == "posix" else self._folder / name
            self._lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            try_lock(self._lock)
            path.rename(self._folder / name)
            self._name = name
        return self._name

    def is_alive(self, name: str) -> bool:
        if name == self._name:
            return True
        try:
            descriptor = os.open(self._folder / name, os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            return not try_lock(descriptor)
        finally:
            os.close(descriptor)

    def forget(self, name: str) -> None:
        (self._folder / name).unlink(missing_ok=True)

    def close(self) -> None:
        if self._name is not None and self._lock is not None:
            self.forget(self._name)
            os.close(self._lock)
            self._name = self._lock = None


class Uploads:
    """Uploads in a folder; every method may raise OSError."""

    def __init__(self, folder: Path, owners: Owners) -> None:
        self._folder = folder
        self._owners = owners

    def new(self) -> Path:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self._folder / f"{self._owners.name()}.{secrets.token_hex(8)}"

    def orphans(self) -> set[str]:
        """Return the uploads of dead processes; a job may still need them."""
        found = self._folder.iterdir() if self._folder.exists() else ()
        return {each.name for each in found if not self._owners.is_alive(each.name.partition(".")[0])}

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            (self._folder / name).unlink(missing_ok=True)
