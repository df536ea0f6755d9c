"""One SQLite file in WAL mode: a thread that writes, a thread that reads, and errors that say what to mend."""

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
from plumbline.rows.jobs.sql import Sql

T = TypeVar("T")

# "PLJB", in the file's header: a database of somebody else's is left alone.
_APPLICATION_ID: Final = 0x504C4A42
_SCHEMA_VERSION: Final = 1
# How long one process waits for another's transaction; one takes some milliseconds.
_BUSY_SECONDS: Final = 5.0
_JOURNAL_BYTES: Final = 64 * 1024 * 1024


class SqliteSql:
    """One transaction. Those that write follow one another, so that nothing need be kept from others."""

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
    """Runs functions within transactions: `write` one after another, `read` beside them.

    Opened when first used. After a failure the connections are opened anew, so that a disk that has room again, or
    that is mounted again, is used again.

    Raises:
        StoreUnavailable: from both, when the file cannot be read or written; nothing was changed then.
    """

    def __init__(self, path: Path, *, schema: str, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._writer = _Side(path, schema, "jobs-writer")
        self._reader = _Side(path, schema, "jobs-reader")

    async def write(self, work: Callable[[Sql], T], *, is_durable: bool = False) -> T:
        """What `work` returns, in a transaction that is committed. `is_durable`: survives a loss of power too."""
        return await self._writer.run(
            lambda connection: _in_transaction(
                connection, lambda: work(SqliteSql(connection, self._clock)), is_durable=is_durable
            )
        )

    async def read(self, work: Callable[[Sql], T]) -> T:
        """What `work` returns, seeing one state of the database."""
        return await self._reader.run(
            lambda connection: _in_one_view(connection, lambda: work(SqliteSql(connection, self._clock)))
        )

    async def close(self) -> None:
        """Close the file."""
        await self._writer.close()
        await self._reader.close()


class _Side:
    """A thread with a connection of its own."""

    def __init__(self, path: Path, schema: str, name: str) -> None:
        self._path = path
        self._schema = schema
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
                self._connection = _connected(self._path, self._schema)
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
    """What is told of a failure of the database or of the folder around it."""
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
    """Work on files of the folder: raises StoreUnavailable for OSError."""
    try:
        yield
    except OSError as error:
        raise unavailable(error) from error


def _in_transaction(connection: sqlite3.Connection, work: Callable[[], T], *, is_durable: bool) -> T:
    # In WAL mode NORMAL survives the end of a process at any moment, and FULL that of the machine.
    connection.execute(f"PRAGMA synchronous = {'FULL' if is_durable else 'NORMAL'}")
    # Locks at once: a lock that is taken after a read cannot be waited for.
    connection.execute("BEGIN IMMEDIATE")
    try:
        answer = work()
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return answer


def _in_one_view(connection: sqlite3.Connection, work: Callable[[], T]) -> T:
    connection.execute("BEGIN")
    try:
        return work()
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _connected(path: Path, schema: str) -> sqlite3.Connection:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # SQLite gives the mode of the file to its journals. Only a file that is not there yet is opened here: closing it
    # would drop the locks that other connections of this process hold on it.
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    connection = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA journal_size_limit = {_JOURNAL_BYTES}")
        _claim(connection, schema)
    except BaseException:
        connection.close()
        raise
    return connection


def _claim(connection: sqlite3.Connection, schema: str) -> None:
    """Makes an empty file ours; raises sqlite3.Error when it is somebody else's."""
    if _header(connection) == (_APPLICATION_ID, _SCHEMA_VERSION):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Asked again with the lock: another process may have made it meanwhile.
        if _header(connection) != (_APPLICATION_ID, _SCHEMA_VERSION):
            if connection.execute("SELECT count(*) FROM sqlite_master").fetchone() != (0,):
                raise sqlite3.DatabaseError("the file is a database of something else, or of another version")
            for statement in schema.split(";\n"):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _header(connection: sqlite3.Connection) -> tuple[int, int]:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return application, version
