"""The store of verdicts that several processes share, in PostgreSQL."""

import time
from typing import Final

from plumbline.judging.ports.observation import Readiness, State
from plumbline.models.chat.shared_database import SharedDatabase

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
    """Bytes by key for all processes that share a database; nothing that goes wrong there raises.

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
        """The value, or None when there is none, it is too old, or the database cannot be asked."""
        found = await self._database.ask(_GET, (key, self._ttl_seconds))
        return bytes(found[0][0]) if found else None

    async def put(self, key: str, value: bytes) -> None:
        """Keeps the value if that can be done; one of more than a quarter of `max_bytes` is not kept."""
        size = len(value) + _FRAME_BYTES
        if size > self._max_bytes // 4 or await self._database.ask(_PUT, (key, size, value)) is None:
            return
        self._written += size
        is_due = time.monotonic() - self._swept >= _SWEEP_SECONDS
        if is_due or self._written >= self._max_bytes // _SWEPT_SHARE:
            self._swept, self._written = time.monotonic(), 0
            await self._database.ask(_SWEEP, (self._ttl_seconds, self._max_bytes))

    def readiness(self) -> Readiness:
        """Where verdicts are kept, or why they cannot be kept now."""
        if self._database.complaint is not None:
            return Readiness(State.UNAVAILABLE, f"verdicts are not kept: {self._database.complaint}")
        return Readiness(State.READY, f"in PostgreSQL, {self._max_bytes} bytes, {self._ttl_seconds:g} s")

    async def close(self) -> None:
        """The database is closed by who opened it."""
