"""Jobs in PostgreSQL: transactions in threads, automatic reconnection, and the liveness of owners."""

import asyncio
import secrets
import threading
import time
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

# For short transactions, and for submissions, whose rows may take minutes to write.
_CONNECTIONS, _LONG_CONNECTIONS = 4, 2
# One of two conflicting transactions is rolled back by the server, and is retried.
_CLASHES: Final = (errors.DeadlockDetected, errors.SerializationFailure)
_TRIES: Final = 5
# "PLOW": class of the advisory locks of owners.
_OWNER_LOCK: Final = 0x504C4F57
_CLOCK: Final = b"SELECT extract(epoch FROM now())::double precision"


class PostgresSql:
    """Transaction on PostgreSQL; write transactions run concurrently."""

    for_update = " FOR UPDATE"
    for_share = " FOR SHARE"
    skip_locked = " FOR UPDATE SKIP LOCKED"

    def __init__(self, connection: psycopg.Connection) -> None:
        self.connection = connection
        self._now: float | None = None

    def now(self) -> float:
        """Return the start of the transaction by the clock of the server."""
        if self._now is None:
            ((self._now,),) = self.connection.execute(_CLOCK).fetchall()
        return self._now

    def execute(self, statement: str, values: Sequence[object] = ()) -> psycopg.Cursor[Any]:
        return self.connection.execute(_translated(statement), values)

    def execute_many(self, statement: str, values: Iterable[Sequence[object]]) -> None:
        self.connection.cursor().executemany(_translated(statement), values)


class PostgresDatabase:
    """Runner of functions within concurrent transactions, each in a thread with its own connection.

    Threads, so that the functions are those of the embedded store. Connects lazily, creates the schema if needed, and
    replaces a failed connection at its next use.

    `conninfo` is as `connection_string` makes it.
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
        """Run `work` and commit durably; call it again after a conflict with another transaction."""
        return await self._run(self._threads, work, b"BEGIN")

    async def write_long(self, work: Callable[[PostgresSql], T]) -> T:
        """Run `work` as `write` does, in threads of its own, since it may take minutes."""
        return await self._run(self._long_threads, work, b"BEGIN")

    async def read(self, work: Callable[[Sql], T]) -> T:
        return await self._run(self._threads, work, b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    async def close(self) -> None:
        """Wait for running transactions, then close the connections."""
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
        """Begin a transaction; reconnect once if the connection is from before a restart of the server."""
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
            try:
                with self._lock:
                    if not self._is_made:
                        make_schema(connection, self._schema)
                        self._is_made = True
            except BaseException:
                connection.close()
                raise
            self._own.connection = connection
            with self._lock:
                self._connections.add(connection)
        return connection

    def _drop(self) -> None:
        # The next connection may reach another or an emptied database.
        self._is_made = False
        connection: psycopg.Connection | None = getattr(self._own, "connection", None)
        if connection is not None:
            self._own.connection = None
            with self._lock:
                self._connections.discard(connection)
            connection.close()


class OwnerSession:
    """Advisory lock by which this process owns chunks, on a connection of its own.

    The server releases it at once when the process is killed, on any machine, without waiting for leases to expire.
    """

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._number = secrets.randbelow(1 << 31)
        self._connection: psycopg.Connection | None = None
        # When the lock was taken, in monotonic seconds.
        self.since = 0.0
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """Return the name under which this process leases chunks."""
        return str(self._number)

    @property
    def seconds(self) -> float:
        """Return for how many seconds the lock has been held without a break."""
        return 0.0 if self._connection is None else time.monotonic() - self.since

    def hold(self, *, is_checked: bool = False) -> None:
        """Take the lock unless it is held; blocks. `is_checked`: test the connection first.

        Raises:
            psycopg.Error: the database cannot be reached.
        """
        with self._lock:
            try:
                if self._connection is not None and is_checked:
                    self._connection.execute(b"SELECT 1")
            except psycopg.Error:
                self._disconnect()
            if self._connection is None:
                connection = psycopg.connect(self._conninfo, autocommit=True)
                try:
                    self._take_lock(connection)
                except BaseException:
                    connection.close()
                    raise
                self._connection, self.since = connection, time.monotonic()

    def close(self) -> None:
        with self._lock:
            self._disconnect()

    def _take_lock(self, connection: psycopg.Connection) -> None:
        while True:
            query = "SELECT pg_try_advisory_lock(%s, %s)"
            if connection.execute(query, (_OWNER_LOCK, self._number)).fetchone() == (True,):
                return
            # The server still has our previous session. Chunks leased under that name stay ours by renewal.
            self._number = secrets.randbelow(1 << 31)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def living_owners(sql: Sql) -> set[str]:
    """Return the names of the owners that hold their locks."""
    found = sql.execute(
        "SELECT objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND granted AND classid = ? AND objsubid = 2"
        " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
        (_OWNER_LOCK,),
    )
    return {str(number) for (number,) in found}


def unavailable(error: psycopg.Error) -> StoreUnavailable:
    """Log a failure of the database and return its error with the remedy."""
    structlog.get_logger().warning("database_failed", reason=reason_of(error))
    if isinstance(error, errors.DiskFull):
        return StoreUnavailable("the disk of the database of jobs is full; make room and try again")
    if isinstance(error, errors.ReadOnlySqlTransaction | errors.InsufficientPrivilege):
        return StoreUnavailable("the database of jobs cannot be written by this service; grant it its schema")
    return StoreUnavailable("the database of jobs cannot be used now; try again")


@lru_cache(maxsize=256)
def _translated(statement: str) -> bytes:
    return statement.replace("?", "%s").encode()
