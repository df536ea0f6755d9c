"""A store of jobs that lasts as long as its test, and fails when it is told to."""

import shutil
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from plumbline.ground.errors import StoreUnavailable
from plumbline.ground.store.database import Database, Transaction
from plumbline.judging.ports.observation import Readiness, State
from plumbline.rows.jobs.store import JobStore

T = TypeVar("T")


class MemoryStore(JobStore):
    """Jobs in a folder that goes with the store.

    Attributes:
        is_broken: every method raises StoreUnavailable while this is set.
        uploads: the folder of files that no job has taken; empty unless an upload is under way.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.is_broken = False
        home = folder or Path(tempfile.mkdtemp(prefix="plumbline-jobs-"))
        self.uploads = home / "uploads"
        weakref.finalize(self, shutil.rmtree, home, ignore_errors=True)
        database = JobStore.in_folder(home)._database
        super().__init__(_Breakable(database, self._check), home)

    def readiness(self) -> Readiness:
        return Readiness(State.UNAVAILABLE if self.is_broken else State.READY, "jobs are kept in memory")

    def new_upload(self) -> Path:
        self._check()
        return super().new_upload()

    def _check(self) -> None:
        if self.is_broken:
            raise StoreUnavailable("the disk of the data folder is full; make room and try again")


class _Breakable(Database):
    """A database that asks before each transaction whether it works."""

    def __init__(self, database: Database, check: Callable[[], None]) -> None:
        super().__init__(database.backend)
        self._check = check

    async def write(self, work: Callable[[Transaction], T], *, is_durable: bool = False) -> T:
        self._check()
        return await super().write(work, is_durable=is_durable)

    async def read(self, work: Callable[[Transaction], T]) -> T:
        self._check()
        return await super().read(work)
