"""PostgreSQL database where several processes share verdicts. A failure reaches no sample."""

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import structlog

from plumbline.ground.postgres import connection_string, reason_of
from plumbline.judging.ports.observation import Readiness, State

if TYPE_CHECKING:
    from psycopg_pool import AsyncConnectionPool


SCHEMA: Final = "plumbline_judges"
# "PLSJ"
_LOCK: Final = 0x504C534A
_CONNECTIONS: Final = 4
# Beyond so long a process does better without the others.
_PATIENCE_SECONDS: Final = 1.0
_REST_SECONDS: Final = 5.0
_TABLES: Final = f"""
SELECT pg_advisory_xact_lock({_LOCK});
CREATE SCHEMA IF NOT EXISTS {SCHEMA};
CREATE TABLE IF NOT EXISTS verdict (
    key text PRIMARY KEY, stored double precision NOT NULL, used double precision NOT NULL, size bigint NOT NULL,
    value bytea NOT NULL);
CREATE INDEX IF NOT EXISTS verdict_stored ON verdict (stored);
CREATE INDEX IF NOT EXISTS verdict_used ON verdict (used);
"""


class SharedDatabase:
    """One PostgreSQL database for all processes, opened at first use.

    Raises ConfigurationError if the URL cannot be read, or the extra is not installed.
    """

    def __init__(self, url: str, *, schema: str = SCHEMA) -> None:
        self._schema = schema
        self._conninfo = connection_string(url, schema=schema, is_durable=False)
        self._pool: AsyncConnectionPool | None = None
        self._opening = asyncio.Lock()
        self._rest_until = 0.0
        self._is_closed = False
        self.complaint: str | None = None

    async def ask(self, query: str, values: Sequence[object]) -> list[tuple[Any, ...]] | None:
        """Run a query and return its rows; None while the database fails and for 5 seconds after."""
        from psycopg import Error  # noqa: PLC0415
        from psycopg_pool import PoolTimeout, TooManyRequests  # noqa: PLC0415

        if self._is_closed or time.monotonic() < self._rest_until:
            return None
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                pool = self._pool or await self._opened()
                async with pool.connection() as connection:
                    cursor = await connection.execute(query.encode(), values)
                    rows = await cursor.fetchall() if cursor.description else []
        except (Error, PoolTimeout, TooManyRequests, TimeoutError) as error:
            self._complain(error)
            return None
        self.complaint = None
        return rows

    async def close(self) -> None:
        """Close the connections; nothing is found from now on."""
        self._is_closed = True
        if self._pool is not None:
            await self._pool.close()

    async def _opened(self) -> "AsyncConnectionPool":
        from psycopg_pool import AsyncConnectionPool  # noqa: PLC0415

        async with self._opening:
            if self._pool is None:
                pool = AsyncConnectionPool(
                    self._conninfo,
                    min_size=1,
                    max_size=_CONNECTIONS,
                    open=False,
                    timeout=_PATIENCE_SECONDS,
                    reconnect_timeout=_REST_SECONDS,
                    kwargs={"autocommit": True},
                    name="judges",
                )
                try:
                    await pool.open()
                    async with pool.connection() as connection, connection.transaction():
                        await connection.execute(_TABLES.replace(SCHEMA, self._schema).encode())
                except BaseException:
                    await pool.close()
                    raise
                self._pool = pool
            return self._pool

    def _complain(self, error: Exception) -> None:
        from psycopg import Error  # noqa: PLC0415

        self._rest_until = time.monotonic() + _REST_SECONDS
        reason = reason_of(error) if isinstance(error, Error) else type(error).__name__
        if self.complaint is None:
            structlog.get_logger().warning("shared_database_failed", reason=reason)
        self.complaint = reason


_NOW: Final = "extract(epoch FROM now())::double precision"
# A use is written down when the last one is older than this: what is read all the time is not written all the time.
_GET: Final = f"""
WITH found AS (SELECT key, value, used FROM verdict WHERE key = %s AND stored > {_NOW} - %s),
    touched AS (UPDATE verdict SET used = {_NOW} FROM found
        WHERE verdict.key = found.key AND found.used < {_NOW} - 60)
SELECT value FROM found
"""
_PUT: Final = f"""
INSERT INTO verdict VALUES (%s, {_NOW}, {_NOW}, %s, %s) ON CONFLICT (key) DO UPDATE
    SET stored = excluded.stored, used = excluded.used, size = excluded.size, value = excluded.value
"""
# One process at a time; what was used longest ago goes first.
_SWEEP: Final = f"""
DELETE FROM verdict WHERE (SELECT pg_try_advisory_xact_lock(1347179084)) AND (stored <= {_NOW} - %s OR key IN (
    SELECT key FROM (SELECT key, sum(size) OVER (ORDER BY used DESC, key) AS up_to FROM verdict) ranked
    WHERE up_to > %s))
"""
# What an entry takes besides its value.
_FRAME_BYTES: Final = 256
_SWEEP_SECONDS: Final = 60.0
_SWEPT_SHARE: Final = 64


class SharedVerdictStore:
    """Store of bytes by key for all processes that share a database; no failure raises.

    Args:
        max_bytes: of all values, the entries used longest ago go first; it may be a little more until the next sweep.
        ttl_seconds: age from which an entry is not returned any more; reading it does not renew it.
    """

    def __init__(self, database: SharedDatabase, *, max_bytes: int, ttl_seconds: float) -> None:
        self._database = database
        self._max_bytes = max_bytes
        self._ttl_seconds = ttl_seconds
        self._swept = time.monotonic()
        self._written = 0

    async def get(self, key: str) -> bytes | None:
        """Return the value; None if it is missing or too old, or if the database fails."""
        found = await self._database.ask(_GET, (key, self._ttl_seconds))
        return bytes(found[0][0]) if found else None

    async def put(self, key: str, value: bytes) -> None:
        """Store the value if possible; one of more than a quarter of `max_bytes` is not stored."""
        size = len(value) + _FRAME_BYTES
        if size > self._max_bytes // 4 or await self._database.ask(_PUT, (key, size, value)) is None:
            return
        self._written += size
        is_due = time.monotonic() - self._swept >= _SWEEP_SECONDS
        if is_due or self._written >= self._max_bytes // _SWEPT_SHARE:
            self._swept, self._written = time.monotonic(), 0
            await self._database.ask(_SWEEP, (self._ttl_seconds, self._max_bytes))

    def readiness(self) -> Readiness:
        """Return where verdicts are stored, or why they cannot be stored now."""
        if self._database.complaint is not None:
            return Readiness(State.UNAVAILABLE, f"verdicts are not kept: {self._database.complaint}")
        return Readiness(State.READY, f"in PostgreSQL, {self._max_bytes} bytes, {self._ttl_seconds:g} s")

    async def close(self) -> None:
        """Do nothing: the database is closed by its owner."""
