"""A PostgreSQL database: transactions in threads, connections that come back by themselves."""

import asyncio
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final, TypeVar

import psycopg
import structlog
from psycopg import errors

from plumbline.ground.concurrency import Threads
from plumbline.ground.errors import StoreUnavailable
from plumbline.ground.postgres import reason_of
from plumbline.rows.jobs.postgres_schema import make_schema
from plumbline.rows.jobs.sql import Sql

T = TypeVar("T")

# For what takes milliseconds, and for files that are written into the database, which may take minutes.
_CONNECTIONS, _LONG_CONNECTIONS = 4, 2
# Two that wait for each other, or that cannot both be: one of them is told so, and has changed nothing.
_CLASHES: Final = (errors.DeadlockDetected, errors.SerializationFailure)
_TRIES: Final = 5
_CLOCK: Final = b"SELECT extract(epoch FROM now())::double precision"


class PostgresSql:
    """One transaction. Several may write at one time."""

    for_update = " FOR UPDATE"
    for_share = " FOR SHARE"
    skip_locked = " FOR UPDATE SKIP LOCKED"

    def __init__(self, connection: psycopg.Connection) -> None:
        self.connection = connection
        self._now: float | None = None

    def now(self) -> float:
        """When the transaction began, by the clock of the server."""
        if self._now is None:
            ((self._now,),) = self.connection.execute(_CLOCK).fetchall()
        return self._now

    def execute(self, statement: str, values: Sequence[object] = ()) -> psycopg.Cursor[Any]:
        return self.connection.execute(_translated(statement), values)

    def execute_many(self, statement: str, values: Iterable[Sequence[object]]) -> None:
        self.connection.cursor().executemany(_translated(statement), values)


class PostgresDatabase:
    """Runs functions within transactions, some of them at one time, each in a thread with a connection of its own.

    In threads, so that the functions are those of the embedded store. Connected and made when first used; a connection
    that failed is replaced at the next use.

    Args:
        conninfo: as `connection_string` makes it.
        schema: where the tables are.
    """

    def __init__(self, conninfo: str, *, schema: str) -> None:
        self._conninfo = conninfo
        self._schema = schema
        self._threads = Threads(max_workers=_CONNECTIONS, thread_name_prefix="jobs-postgres")
        self._long_threads = Threads(max_workers=_LONG_CONNECTIONS, thread_name_prefix="jobs-submission")
        self._own = threading.local()
        self._lock = threading.Lock()
        self._connections: set[psycopg.Connection] = set()
        self._is_made = self._is_closed = False

    async def write(self, work: Callable[[Sql], T], *, is_durable: bool = False) -> T:
        """What `work` returns, once it is committed: on disk, always. After a clash with another it is called again."""
        return await self._run(self._threads, work, b"BEGIN")

    async def write_long(self, work: Callable[[PostgresSql], T]) -> T:
        """As `write`, for work that may take minutes: what takes milliseconds does not wait for it."""
        return await self._run(self._long_threads, work, b"BEGIN")

    async def read(self, work: Callable[[Sql], T]) -> T:
        """What `work` returns, seeing one state of the database."""
        return await self._run(self._threads, work, b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    async def close(self) -> None:
        """Close the connections, once what is under way is done."""
        self._is_closed = True
        await asyncio.to_thread(self._threads.shutdown)
        await asyncio.to_thread(self._long_threads.shutdown)
        for connection in self._connections:
            connection.close()
        self._connections.clear()

    async def _run(self, threads: Threads, work: Callable[[PostgresSql], T], begin: bytes) -> T:
        if self._is_closed:
            raise StoreUnavailable("the store of jobs is closed: the service is ending")
        return await asyncio.get_running_loop().run_in_executor(threads, lambda: self._tried(work, begin))

    # --- everything below runs in a thread

    def _tried(self, work: Callable[[PostgresSql], T], begin: bytes) -> T:
        for is_last in (*[False] * (_TRIES - 1), True):
            try:
                return self._once(work, begin)
            except _CLASHES as error:
                if is_last:
                    raise unavailable(error) from error
            except psycopg.Error as error:
                self._drop()
                raise unavailable(error) from error
        raise AssertionError

    def _once(self, work: Callable[[PostgresSql], T], begin: bytes) -> T:
        connection = self._begun(begin)
        try:
            answer = work(PostgresSql(connection))
            connection.execute(b"COMMIT")
        except BaseException:
            with suppress(psycopg.Error):
                connection.execute(b"ROLLBACK")
            raise
        return answer

    def _begun(self, begin: bytes) -> psycopg.Connection:
        """A connection with a transaction; one that was kept may be of a server that has ended since."""
        is_kept = getattr(self._own, "connection", None) is not None
        connection = self._connected()
        try:
            connection.execute(begin)
        except psycopg.OperationalError:
            if not is_kept:
                raise
            self._drop()
            connection = self._connected()
            connection.execute(begin)
        return connection

    def _connected(self) -> psycopg.Connection:
        connection: psycopg.Connection | None = getattr(self._own, "connection", None)
        if connection is None:
            connection = psycopg.connect(self._conninfo, autocommit=True)
            self._make(connection)
            self._own.connection = connection
            with self._lock:
                self._connections.add(connection)
        return connection

    def _make(self, connection: psycopg.Connection) -> None:
        try:
            with self._lock:
                if not self._is_made:
                    make_schema(connection, self._schema)
                    self._is_made = True
        except BaseException:
            connection.close()
            raise

    def _drop(self) -> None:
        # It may be another database that answers next, or one that was emptied.
        self._is_made = False
        connection: psycopg.Connection | None = getattr(self._own, "connection", None)
        if connection is not None:
            self._own.connection = None
            with self._lock:
                self._connections.discard(connection)
            connection.close()


def unavailable(error: psycopg.Error) -> StoreUnavailable:
    """What is told of a failure of the database; the log has its code."""
    structlog.get_logger().warning("database_failed", reason=reason_of(error))
    if isinstance(error, errors.DiskFull):
        return StoreUnavailable("the disk of the database of jobs is full; make room and try again")
    if isinstance(error, errors.ReadOnlySqlTransaction | errors.InsufficientPrivilege):
        return StoreUnavailable("the database of jobs cannot be written by this service; grant it its schema")
    return StoreUnavailable("the database of jobs cannot be used now; try again")


@lru_cache(maxsize=256)
def _translated(statement: str) -> bytes:
    return statement.replace("?", "%s").encode()
