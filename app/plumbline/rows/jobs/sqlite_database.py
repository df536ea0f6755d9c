"""Jobs in one SQLite file: its tables, a writer thread and a reader thread, errors that name the remedy."""

import asyncio
import errno
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

from plumbline.ground.concurrency import Threads
from plumbline.ground.errors import StoreUnavailable
from plumbline.ground.sqlite import SqliteFormat, open_database, transaction
from plumbline.rows.jobs.job_table import ADDED_COLUMNS, make_tables
from plumbline.rows.jobs.labels import LABEL_TABLE
from plumbline.rows.jobs.sql import Sql

T = TypeVar("T")

# "PLJB".
_FORMAT: Final = SqliteFormat(
    0x504C4A42,
    make_tables(
        replaced={
            "@NUMBER@": "INTEGER PRIMARY KEY AUTOINCREMENT",
            "@JOB@": "upload TEXT, form TEXT NOT NULL, columns TEXT, rows_file TEXT, ",
            "@CHUNK@": "offset INTEGER NOT NULL DEFAULT 0, length INTEGER NOT NULL DEFAULT 0, ",
            "@CHANGES@": " WITHOUT ROWID",
            "@CHUNKS@": " WITHOUT ROWID",
            "double precision": "REAL",
            "bigint": "INTEGER",
            "bytea": "BLOB",
        },
        more="CREATE INDEX job_upload ON job (upload) WHERE upload IS NOT NULL;\n",
    ),
    version=1,
    added_columns=[
        (table, f"{name} {'NUMERIC' if kind == 'bigint' else 'TEXT'} {rest}")
        for table, name, kind, rest in ADDED_COLUMNS
    ],
    added_tables=[("label", LABEL_TABLE)],
    journal_bytes=64 * 1024 * 1024,
)


class SqliteSql:
    """Transaction on SQLite; write transactions are serial, so that no row needs a lock."""

    for_update = for_share = skip_locked = ""

    def __init__(self, connection: sqlite3.Connection, clock: Callable[[], float]) -> None:
        self._connection = connection
        self._clock = clock

    def now(self) -> float:
        return self._clock()

    def execute(self, statement: str, values: Sequence[object] = ()) -> sqlite3.Cursor:
        return self._connection.execute(statement, values)

    def execute_many(self, statement: str, values: Iterable[Sequence[object]]) -> None:
        self._connection.executemany(statement, values)


class SqliteDatabase:
    """Runner of functions within transactions: `write` serially, `read` concurrently with it.

    Opened lazily, and reopened after a failure, so that a disk that has room again or is mounted again is used again.

    Raises:
        StoreUnavailable: from both, if the file cannot be read or written; nothing was changed then.
    """

    def __init__(self, path: Path, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._writer = _Side(path, "jobs-writer")
        self._reader = _Side(path, "jobs-reader")

    async def write(self, work: Callable[[Sql], T], *, is_durable: bool = False) -> T:

        def write(connection: sqlite3.Connection) -> T:
            connection.execute(f"PRAGMA synchronous = {'FULL' if is_durable else 'NORMAL'}")
            with transaction(connection):
                return work(SqliteSql(connection, self._clock))

        return await self._writer.run(write)

    async def read(self, work: Callable[[Sql], T]) -> T:

        def read(connection: sqlite3.Connection) -> T:
            connection.execute("BEGIN")
            try:
                return work(SqliteSql(connection, self._clock))
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

        return await self._reader.run(read)

    async def close(self) -> None:
        await self._writer.close()
        await self._reader.close()


class _Side:
    """Thread with its own connection."""

    def __init__(self, path: Path, name: str) -> None:
        self._path = path
        self._thread = Threads(max_workers=1, thread_name_prefix=name)
        self._connection: sqlite3.Connection | None = None
        self._is_closed = False

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._is_closed:
            raise StoreUnavailable("the store of jobs is closed: the service is ending")
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: self._guarded(work))

    async def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            await asyncio.get_running_loop().run_in_executor(self._thread, self._disconnect)
            self._thread.shutdown(wait=False)

    def _guarded(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            if self._connection is None:
                self._connection = open_database(self._path, _FORMAT)
            return work(self._connection)
        except (sqlite3.Error, OSError) as error:
            self._disconnect()
            raise unavailable(error) from error

    def _disconnect(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            try:
                connection.close()
            except sqlite3.Error:
                # Nothing that was committed is lost by it.
                return


def unavailable(error: sqlite3.Error | OSError) -> StoreUnavailable:
    """Return the error of a failed database or data folder, with its remedy."""
    if isinstance(error, OSError):
        is_full, is_read_only = error.errno == errno.ENOSPC, error.errno in (errno.EROFS, errno.EACCES, errno.EPERM)
        what = error.strerror or type(error).__name__
    else:
        name = getattr(error, "sqlite_errorname", "") or type(error).__name__
        is_full, is_read_only = name == "SQLITE_FULL", name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN"))
        what = name
    if is_full:
        return StoreUnavailable("the disk of the data folder is full; make room and try again")
    if is_read_only:
        return StoreUnavailable("the data folder cannot be written; let PLUMBLINE_DATA_DIR name one that can")
    return StoreUnavailable(f"the data folder cannot be used now ({what}); try again")


@contextmanager
def guarded() -> Iterator[None]:
    """Raise StoreUnavailable for an OSError within the context."""
    try:
        yield
    except OSError as error:
        raise unavailable(error) from error
