"""Store of verdicts beyond the process: in a file of bounded size, or in the store's PostgreSQL."""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import structlog
from sqlalchemy import delete, func, select, text

from plumbline.ground.errors import StoreUnavailable
from plumbline.ground.store.database import Database, Rest, Transaction
from plumbline.ground.store.postgres import SCHEMA, PostgresSchema
from plumbline.ground.store.sqlite import SqliteFile, is_damage
from plumbline.ground.store.tables import VERDICT, VERSION
from plumbline.judging.ports.observation import Readiness, State

# "PLVC"
_APPLICATION_ID: Final = 0x504C5643
_JOURNAL_BYTES: Final = 4 * 1024 * 1024
# How long one process waits for another's write to a file; one takes less than a millisecond, a checkpoint some tens.
_BUSY_SECONDS: Final = 0.5
# Beyond so long a sample does better without the store.
_FILE_SECONDS: Final = 1.5
_SERVER_SECONDS: Final = 0.4
# Expired entries that one write takes away, at most, so that it stays short.
_SWEPT_AT_ONCE: Final = 64
# Beyond so many writes waiting for a slow disk, new ones are dropped.
_MAX_WAITING: Final = 1_000
# What an entry takes besides its value, and the share of pages that is filled.
_FRAME_BYTES: Final = 512
_FILLED: Final = 0.85
# Entries are counted again when this share of the bound was written.
_COUNTED_SHARE: Final = 64
_PUT: Final = text(
    "INSERT INTO verdict (key, stored, used, size, value) VALUES (:key, :at, :at, :size, :value) ON CONFLICT (key)"
    " DO UPDATE SET stored = excluded.stored, used = excluded.used, size = excluded.size, value = excluded.value"
)
_EXPIRED: Final = select(VERDICT.c.key).limit(_SWEPT_AT_ONCE)
_UP_TO: Final = func.sum(VERDICT.c.size).over(order_by=(VERDICT.c.used.desc(), VERDICT.c.key))
_RANKED: Final = select(VERDICT.c.key, _UP_TO.label("up_to")).subquery()


class SqlVerdictStore:
    """Store of bytes by key that several processes may share; no failure raises, and none is waited for twice.

    Of more than `max_bytes` the oldest entries go first; one of `ttl_seconds` is not returned any more. `place` is for
    the readiness.
    """

    def __init__(self, database: Database, *, max_bytes: int, ttl_seconds: float, place: str) -> None:
        self._database = database
        self._max_bytes = max_bytes
        self._ttl_seconds = ttl_seconds
        self._place = place
        self._reading, self._writing = Rest(), Rest()
        self._written = max_bytes
        self._waiting = 0
        self._is_closed = False
        self._complaint: str | None = None

    async def get(self, key: str) -> bytes | None:
        """Return the value; None if it is missing or too old, or if the store fails."""

        def read(sql: Transaction) -> Any:
            is_fresh = VERDICT.c.stored > sql.now - self._ttl_seconds
            return sql.execute(select(VERDICT.c.value).where(VERDICT.c.key == key, is_fresh)).scalar_one_or_none()

        if self._is_closed or not self._reading.may_try():
            return None
        try:
            found = await self._database.read(read)
        except StoreUnavailable as error:
            self._fail(self._reading, error)
            return None
        self._reading.end()
        return None if found is None else bytes(found)

    async def put(self, key: str, value: bytes) -> None:
        """Store the value if possible; one of more than a quarter of `max_bytes` is not stored."""
        is_too_large = len(value) > self._max_bytes // 4
        if self._is_closed or self._waiting >= _MAX_WAITING or is_too_large or not self._writing.may_try():
            return
        self._waiting += 1
        try:
            await self._database.write(lambda sql: self._put(sql, key, value))
        except StoreUnavailable as error:
            self._fail(self._writing, error)
            return
        finally:
            self._waiting -= 1
        self._writing.end()
        self._reading.end()
        self._complaint = None

    def readiness(self) -> Readiness:
        """Return where verdicts are stored, or why they cannot be stored now."""
        if self._complaint is not None:
            return Readiness(State.UNAVAILABLE, f"verdicts are not kept: {self._complaint}")
        return Readiness(State.READY, f"{self._place}, {self._max_bytes} bytes, {self._ttl_seconds:g} s")

    async def close(self) -> None:
        """Wait for pending writes and close the store; from now on every entry is a miss."""
        self._is_closed = True
        await self._database.close()

    def _put(self, sql: Transaction, key: str, value: bytes) -> None:
        expired = _EXPIRED.where(VERDICT.c.stored <= sql.now - self._ttl_seconds)
        sql.execute(delete(VERDICT).where(VERDICT.c.key.in_(expired)))
        size = len(value) + _FRAME_BYTES
        sql.execute_many(_PUT, [{"key": key, "at": sql.now, "size": size, "value": value}])
        self._written += size
        if self._written >= self._max_bytes // _COUNTED_SHARE:
            self._written = 0
            beyond = select(_RANKED.c.key).where(_RANKED.c.up_to > int(_FILLED * self._max_bytes))
            sql.execute(delete(VERDICT).where(VERDICT.c.key.in_(beyond)))

    def _fail(self, rest: Rest, error: StoreUnavailable) -> None:
        """Pause, and log the first failure after a success; the logged messages hold no entry."""
        rest.fail()
        if self._complaint is None:
            structlog.get_logger().warning("verdict_store_failed", error=str(error))
        self._complaint = str(error)


class _CacheFile(SqliteFile):
    """A file of verdicts, which is put aside when it is damaged: its content can be missed."""

    def __init__(self, path: Path, *, clock: Callable[[], float]) -> None:
        super().__init__(
            path,
            tables=(VERSION, VERDICT),
            application_id=_APPLICATION_ID,
            format_version=1,
            journal_bytes=_JOURNAL_BYTES,
            busy_seconds=_BUSY_SECONDS,
            clock=clock,
        )

    def unavailable(self, error: Exception) -> StoreUnavailable:
        cause = getattr(error, "orig", error)
        if is_damage(cause):
            with contextlib.suppress(FileNotFoundError):
                self.path.replace(f"{self.path}.corrupt")
            for journal in ("-wal", "-shm"):
                Path(f"{self.path}{journal}").unlink(missing_ok=True)
        return StoreUnavailable(getattr(cause, "sqlite_errorname", None) or type(cause).__name__)


def open_verdict_file(
    path: Path, *, max_bytes: int, ttl_seconds: float, clock: Callable[[], float] = time.time
) -> SqlVerdictStore:
    """Return the store in a file with mode 0600, since quotes of contexts are in it; opened at first use."""
    database = Database(_CacheFile(path, clock=clock), seconds=_FILE_SECONDS)
    return SqlVerdictStore(database, max_bytes=max_bytes, ttl_seconds=ttl_seconds, place="on disk")


def open_shared_verdicts(
    url: str, *, max_bytes: int, ttl_seconds: float, schema: str = SCHEMA, seconds: float = _SERVER_SECONDS
) -> SqlVerdictStore:
    """Return the store in PostgreSQL, which other processes find too; raise ConfigurationError for a wrong URL."""
    backend = PostgresSchema(url, schema=schema, seconds=seconds, writers=2, readers=2, is_durable=False)
    database = Database(backend, seconds=seconds)
    return SqlVerdictStore(database, max_bytes=max_bytes, ttl_seconds=ttl_seconds, place="in PostgreSQL")
