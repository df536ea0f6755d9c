"""Files that are being sent, and those that wait to be read: each bears the name of the process that wrote it."""

import os
import secrets
from collections.abc import Set as AbstractSet
from pathlib import Path

from plumbline.rows.jobs.owners import Owners


class Uploads:
    """The uploads in a folder; every method may raise OSError."""

    def __init__(self, folder: Path, owners: Owners) -> None:
        self._folder = folder
        self._owners = owners

    def new(self) -> Path:
        """Where one may be written."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self._folder / f"{self._owners.name()}.{secrets.token_hex(8)}"

    def path(self, name: str) -> Path:
        """Where one lies."""
        return self._folder / name

    def orphans(self) -> set[str]:
        """Those of processes that have ended: a job may still need them."""
        found = self._folder.iterdir() if self._folder.exists() else ()
        return {each.name for each in found if not self._owners.is_alive(each.name.partition(".")[0])}

    def remove(self, names: AbstractSet[str]) -> None:
        """Remove these."""
        for name in names:
            self.path(name).unlink(missing_ok=True)

    def sync(self, path: Path) -> None:
        """Have one written down that was only handed to the system."""
        for each, flags in ((path, os.O_RDONLY), (path.parent, os.O_RDONLY | os.O_DIRECTORY)):
            descriptor = os.open(each, flags)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
