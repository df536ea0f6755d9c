"""SQLite as the database of the store: one file, known by its header, that processes of a machine share."""

import errno
import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from plumbline.ground.errors import StoreUnavailable
from plumbline.ground.store.backend import Backend
from plumbline.ground.texts import CodedText

# "PLJB"; version 1 is that of 0.2, which refuses a file of another one.
_APPLICATION_ID: Final = 0x504C4A42
_FORMAT_VERSION: Final = 2
# Bound of the write-ahead log between checkpoints.
_JOURNAL_BYTES: Final = 64 * 1024 * 1024
# To wait for another process's transaction; one takes some milliseconds.
_BUSY_SECONDS: Final = 5.0


class _File(sqlite3.Connection):
    is_read_only = False


class SqliteFile(Backend):
    """`Backend` on a file of mode 0600 in a folder of mode 0700; one that cannot be written is opened to be read."""

    dialect = "sqlite://"
    writers = readers = 1
    is_server = False

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time) -> None:
        self.path = path
        self._clock = clock

    @property
    def exists(self) -> bool:
        return self.path.exists()

    def begin_write(self, connection: Connection, *, is_durable: bool) -> float:
        # In WAL mode NORMAL survives the end of a process at any moment, and FULL that of the machine.
        connection.exec_driver_sql(f"PRAGMA synchronous = {'FULL' if is_durable else 'NORMAL'}")
        # Locked at once: a lock that follows a read cannot be waited for.
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        return self._clock()

    def begin_read(self, connection: Connection) -> float:
        connection.exec_driver_sql("BEGIN")
        return self._clock()

    def tables(self, connection: Connection) -> set[str]:
        names = set(connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'table'").scalars())
        found = tuple(
            connection.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in ("application_id", "user_version")
        )
        if names and (found[0] != _APPLICATION_ID or found[1] > _FORMAT_VERSION):
            raise StoreUnavailable(CodedText("file_of_another_program", name=self.path.name))
        return names

    def create(self, connection: Connection) -> None:
        super().create(connection)
        connection.exec_driver_sql(f"PRAGMA application_id = {_APPLICATION_ID}")
        self.set_format_version(connection)

    def set_format_version(self, connection: Connection) -> None:
        connection.exec_driver_sql(f"PRAGMA user_version = {_FORMAT_VERSION}")

    def abort(self, raw: sqlite3.Connection) -> None:
        with suppress(sqlite3.Error):
            raw.interrupt()

    def is_reusable(self, raw: _File) -> bool:
        return not raw.is_read_only

    def unavailable(self, error: Exception) -> StoreUnavailable:
        return unavailable(error)

    def connect(self) -> _File:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # SQLite gives the mode of the file to its journals. Only a file that is not there yet is opened here: closing
        # it would drop the locks that other connections of this process hold on it.
        with suppress(FileExistsError):
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        is_read_only = not (os.access(self.path, os.W_OK) and os.access(self.path.parent, os.W_OK))
        connection = sqlite3.connect(
            self._read_only_address() if is_read_only else self.path,
            uri=is_read_only,
            timeout=_BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            factory=_File,
        )
        connection.is_read_only = is_read_only
        try:
            if not is_read_only and self._is_ours(connection):
                self.path.chmod(0o600)
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute(f"PRAGMA journal_size_limit = {_JOURNAL_BYTES}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _is_ours(self, connection: sqlite3.Connection) -> bool:
        """Return False for a file of another program, of which not a byte may change."""
        is_empty = connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
        (application_id,) = connection.execute("PRAGMA application_id").fetchone()
        return is_empty or int(application_id) == _APPLICATION_ID

    def _read_only_address(self) -> str:
        # Without a journal no process writes; SQLite cannot know that in a folder in which it may not lock.
        journal = Path(f"{self.path}-wal")
        is_at_rest = not journal.exists() or journal.stat().st_size == 0
        return f"{self.path.absolute().as_uri()}?mode=ro{'&immutable=1' if is_at_rest else ''}"


def unavailable(error: Exception) -> StoreUnavailable:
    """Return the error of a failed file or data folder, with its remedy."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(cause, OSError):
        name = what = cause.strerror or type(cause).__name__
        is_full, is_read_only = cause.errno == errno.ENOSPC, cause.errno in (errno.EROFS, errno.EACCES, errno.EPERM)
    else:
        name = what = getattr(cause, "sqlite_errorname", "") or type(cause).__name__
        is_full, is_read_only = name == "SQLITE_FULL", name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN"))
    if is_full:
        return StoreUnavailable(CodedText("folder_full"))
    if is_read_only:
        return StoreUnavailable(CodedText("folder_read_only"))
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")) or name == "SQLITE_ERROR":
        return StoreUnavailable(CodedText("jobs_file_damaged", reason=what))
    return StoreUnavailable(CodedText("folder_unavailable", reason=what))
