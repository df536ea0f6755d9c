"""Jobs in one SQLite file: its tables, a writer thread and a reader thread, errors that name the remedy."""

import asyncio
import contextlib
import errno
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

from plumbline.ground.concurrency import Threads
from plumbline.ground.errors import StoreUnavailable
from plumbline.ground.sqlite import SqliteFormat, open_database, transaction
from plumbline.rows.jobs.job_table import ADDED_COLUMNS, COUNT_COLUMNS
from plumbline.rows.jobs.sql import Sql

T = TypeVar("T")

# A result's key is its job's number and its row: rows of a job lie side by side, in order. `line` is last, so that
# counting reads no line. Tokens and cost of a result include those of results that it replaced.
_TABLES: Final = """
CREATE TABLE job (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, tenant TEXT NOT NULL, name TEXT,
    options BLOB NOT NULL, max_cost REAL, state TEXT NOT NULL, seq INTEGER NOT NULL, total INTEGER,
    created REAL NOT NULL, started REAL, ended REAL, problem TEXT, damage TEXT, upload TEXT, form TEXT NOT NULL,
    columns TEXT, rows_file TEXT,
    idempotency_key TEXT, fingerprint TEXT NOT NULL);
CREATE UNIQUE INDEX job_key ON job (tenant, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX job_open ON job (number) WHERE state IN ('validating', 'queued', 'running');
CREATE INDEX job_upload ON job (upload) WHERE upload IS NOT NULL;
CREATE TABLE change (
    job INTEGER NOT NULL, seq INTEGER NOT NULL, state TEXT NOT NULL, at REAL NOT NULL, problem TEXT,
    PRIMARY KEY (job, seq)) WITHOUT ROWID;
CREATE TABLE chunk (
    job INTEGER NOT NULL, n INTEGER NOT NULL, first_row INTEGER NOT NULL, rows INTEGER NOT NULL,
    offset INTEGER NOT NULL DEFAULT 0, length INTEGER NOT NULL DEFAULT 0,
    state TEXT NOT NULL DEFAULT 'free', owner TEXT,
    fence INTEGER NOT NULL DEFAULT 0, lease_until REAL, deaths INTEGER NOT NULL DEFAULT 0,
    under_way TEXT NOT NULL DEFAULT '[]', counted INTEGER NOT NULL DEFAULT 0, @COUNTS@,
    PRIMARY KEY (job, n)) WITHOUT ROWID;
CREATE INDEX chunk_free ON chunk (job, n) WHERE state = 'free';
CREATE INDEX chunk_leased ON chunk (job) WHERE state = 'leased';
CREATE INDEX chunk_begun ON chunk (job, n) WHERE counted = 0 AND fence > 0;
CREATE TABLE result (
    key INTEGER PRIMARY KEY, status TEXT NOT NULL, tier TEXT, degraded INTEGER NOT NULL, passed INTEGER,
    calls INTEGER NOT NULL,
    unmetered_calls INTEGER NOT NULL, prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL, cost REAL, redo INTEGER NOT NULL DEFAULT 0, line BLOB NOT NULL);
CREATE INDEX result_again ON result (key) WHERE degraded = 1 OR status IN ('failed', 'not_judged');
CREATE TABLE strike (key INTEGER PRIMARY KEY, deaths INTEGER NOT NULL);
CREATE TABLE garbage (job INTEGER PRIMARY KEY);
"""
# "PLJB".
_FORMAT: Final = SqliteFormat(
    0x504C4A42,
    _TABLES.replace("@COUNTS@", ", ".join(f"{name} NUMERIC NOT NULL DEFAULT 0" for name in COUNT_COLUMNS)),
    version=1,
    added_columns=[(table, f"{name} NUMERIC {rest}") for table, name, rest in ADDED_COLUMNS],
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
                self._connection = _connected(self._path)
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


def _connected(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # SQLite gives the mode of the file to its journals. Only a file that is not there yet is opened here: closing it
    # would drop the locks that other connections of this process hold on it.
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    return open_database(path, _FORMAT)
