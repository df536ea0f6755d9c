"""Transactions of the store in threads, on SQLite or PostgreSQL, each within a limit of seconds."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final, TypeVar

import structlog
from sqlalchemy import Connection, CursorResult, create_engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import QueuePool
from sqlalchemy.sql import Executable

from plumbline.ground.concurrency import Rest, Threads
from plumbline.ground.errors import StoreUnavailable
from plumbline.ground.store.backend import Backend
from plumbline.ground.store.versions import check_version, make_tables
from plumbline.ground.texts import CodedText

T = TypeVar("T")
# Begins a transaction on a connection, and returns the time.
Begin = Callable[[Connection], float]

# Longer than any transaction of ours takes, and short enough for a caller to wait.
_SECONDS: Final = 10.0
# A server that takes longer to refuse a connection is silent.
_SILENT_SECONDS: Final = 1.0
# One of two conflicting transactions is rolled back by the server, and is retried.
_TRIES: Final = 5


class Transaction:
    """One transaction. `now`: seconds since 1970 by the clock that all users of the database share."""

    def __init__(self, connection: Connection, now: float, *, is_server: bool) -> None:
        self._connection = connection
        self.now = now
        self.is_server = is_server

    def execute(self, statement: Executable, values: Mapping[str, Any] | None = None) -> CursorResult[*tuple[Any, ...]]:
        return self._connection.execute(statement, values)

    def execute_many(self, statement: Executable, values: Sequence[Mapping[str, Any]]) -> None:
        if values:
            self._connection.execute(statement, values)


class Database:
    """Runner of functions within transactions. Connects, and creates or migrates the tables, at the first use.

    Every call ends within `seconds`: then it raises StoreUnavailable, and its connection is closed. After that all
    calls fail at once, but one every 5 seconds, until one succeeds. A failed connection is replaced.

    Raises StoreUnavailable: from `read` and `write`. Nothing was changed, unless the limit passed during the commit.
    """

    def __init__(self, backend: Backend, *, seconds: float = _SECONDS) -> None:
        self.backend = backend
        self._seconds = seconds
        self._writers = Threads(max_workers=backend.writers, thread_name_prefix="store-writer")
        self._readers = Threads(max_workers=backend.readers, thread_name_prefix="store-reader")
        self._engine = create_engine(
            backend.dialect,
            creator=self._connect,
            poolclass=QueuePool,
            pool_size=backend.writers + backend.readers,
            max_overflow=0,
        )
        self._own = threading.local()
        self._changing = threading.Lock()
        # The tables were seen to be of this version.
        self._is_checked = self._is_closed = False
        self._rest, self._connecting = Rest(), Rest()

    async def write(self, work: Callable[[Transaction], T], *, is_durable: bool = False) -> T:
        """Run `work` and commit; run it again after a conflict. `is_durable`: survive a power failure too."""
        return await self._run(self._writers, work, begin=partial(self.backend.begin_write, is_durable=is_durable))

    async def read(self, work: Callable[[Transaction], T]) -> T:
        return await self._run(self._readers, work, begin=self.backend.begin_read)

    async def close(self) -> None:
        """Wait for running transactions, within the limit, then close the connections."""
        if self._is_closed:
            return
        self._is_closed = True
        ending = asyncio.gather(*(asyncio.to_thread(each.shutdown) for each in (self._writers, self._readers)))
        with suppress(TimeoutError):
            await asyncio.wait_for(ending, self._seconds)
        await asyncio.to_thread(self._engine.dispose)

    async def _run(self, threads: Threads, work: Callable[[Transaction], T], *, begin: Begin) -> T:
        if self._is_closed:
            raise StoreUnavailable(CodedText("store_closed"))
        if not self._rest.may_try():
            raise StoreUnavailable(CodedText("database_silent"))
        call = _Abortable(self.backend)
        try:
            async with asyncio.timeout(self._seconds):
                answer = await asyncio.get_running_loop().run_in_executor(
                    threads, self._run_with_retries, call, work, begin
                )
        except TimeoutError:
            call.abort()
            self._rest.fail()
            structlog.get_logger().warning("database_hung", seconds=self._seconds)
            raise StoreUnavailable(CodedText("database_timed_out", seconds=self._seconds)) from None
        except Exception:
            self._rest.end()
            raise
        self._rest.end()
        return answer

    # --- everything below runs in a thread

    def _run_with_retries(self, call: "_Abortable", work: Callable[[Transaction], T], begin: Begin) -> T:
        self._own.call = call
        for is_last in (*[False] * (_TRIES - 1), True):
            try:
                if not self._is_checked:
                    self._check_tables(call)
                with self._transaction(call, begin) as (connection, now):
                    answer = work(Transaction(connection, now, is_server=self.backend.is_server))
                    connection.commit()
                    return answer
            except (SQLAlchemyError, OSError) as error:
                is_conflict = isinstance(error, DBAPIError) and self.backend.is_conflict(error)
                if is_last or call.is_aborted or not is_conflict:
                    # The next connection may reach another or an emptied database.
                    self._is_checked = False
                    raise self.backend.unavailable(error) from error
            finally:
                call.let_go()
        raise AssertionError

    def _check_tables(self, call: "_Abortable") -> None:
        with self._transaction(call, self.backend.begin_read) as (connection, _):
            is_current = check_version(self.backend, connection)
        if not is_current:
            # A migration may take longer than any call.
            call.let_go()
            with self._changing:
                make_tables(self.backend, self._engine)
        self._is_checked = True

    @contextmanager
    def _transaction(self, call: "_Abortable", begin: Begin) -> Iterator[tuple[Connection, float]]:
        """Begin a transaction, on a new connection if the kept one is from before a restart of the server."""
        connection = self._engine.connect()
        try:
            try:
                now = self._begin(connection, call, begin)
            except DBAPIError as error:
                if not error.connection_invalidated or call.is_aborted:
                    raise
                connection.close()
                connection = self._engine.connect()
                now = self._begin(connection, call, begin)
            yield connection, now
            is_reusable = self.backend.is_reusable(connection.connection.driver_connection)
        except (SQLAlchemyError, OSError):
            is_reusable = False
            raise
        except BaseException:
            is_reusable = True
            raise
        finally:
            call.let_go()
            if not is_reusable:
                connection.invalidate()
            connection.close()

    def _begin(self, connection: Connection, call: "_Abortable", begin: Begin) -> float:
        call.hold(connection.connection.driver_connection)
        return begin(connection)

    def _connect(self) -> Any:
        # Callers queue for threads: each would wait for a silent server anew.
        if not self._connecting.may_try():
            raise StoreUnavailable(CodedText("database_silent"))
        started = time.monotonic()
        try:
            raw = self.backend.connect()
        except Exception:
            if time.monotonic() - started > _SILENT_SECONDS:
                self._connecting.fail()
            else:
                self._connecting.end()
            raise
        self._connecting.end()
        # What SQLAlchemy asks of a new connection can be aborted, too.
        call: _Abortable | None = getattr(self._own, "call", None)
        if call is not None:
            try:
                call.hold(raw)
            except StoreUnavailable:
                raw.close()
                raise
        return raw


class _Abortable:
    """The connection that a thread waits for, which another thread may close."""

    def __init__(self, backend: Backend) -> None:
        self.is_aborted = False
        self._backend = backend
        self._lock = threading.Lock()
        self._raw: Any = None

    def hold(self, raw: Any) -> None:
        with self._lock:
            if self.is_aborted:
                raise StoreUnavailable(CodedText("database_late"))
            self._raw = raw

    def let_go(self) -> None:
        with self._lock:
            self._raw = None

    def abort(self) -> None:
        with self._lock:
            self.is_aborted = True
            if self._raw is not None:
                self._backend.abort(self._raw)
