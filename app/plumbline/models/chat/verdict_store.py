"""Store of verdicts: one SQLite file of bounded size, or the same in memory.

SQLite of the standard library, since the one library that does this on disk, diskcache, had its last release in 2023
and reads pickles.
"""

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import structlog

from plumbline.ground.concurrency import Threads
from plumbline.ground.settings import Settings
from plumbline.ground.sqlite import SqliteFormat, is_damage, open_database, pragma, transaction
from plumbline.judging.ports.observation import Readiness, State
from plumbline.models.chat.shared_database import SharedDatabase, SharedVerdictStore

T = TypeVar("T")

# "PLVC".
_FORMAT = SqliteFormat(
    0x504C5643,
    """
CREATE TABLE verdicts (key TEXT PRIMARY KEY, stored REAL NOT NULL, used REAL NOT NULL, value BLOB NOT NULL);
CREATE INDEX verdicts_stored ON verdicts (stored);
CREATE INDEX verdicts_used ON verdicts (used);
""",
    journal_bytes=4 * 1024 * 1024,
)
_PUT = """
INSERT INTO verdicts (key, stored, used, value) VALUES (?, ?, ?, ?)
ON CONFLICT (key) DO UPDATE SET stored = excluded.stored, used = excluded.used, value = excluded.value
"""
# How long one process waits for another's write; one takes less than a millisecond, a checkpoint some tens.
_BUSY_SECONDS = 0.5
# After a failure nothing is written for so long: waiting for a locked file would hold up the reads behind it.
_REST_SECONDS = 5.0
# A use is written down when the last one is older than this: what is read all the time is not written all the time.
_TOUCH_SECONDS = 60.0
# Expired entries that one write takes away, at most, so that it stays short.
_SWEPT_AT_ONCE = 64
# Beyond so many writes waiting for a slow disk, new ones are dropped.
_MAX_WAITING = 1_000
# Pages that an entry takes besides its value: table, three indices, their inner nodes.
_SPARE_PAGES = 8


class SqliteVerdictStore:
    """Store of bytes by key in one file that several processes may share; no failure raises.

    The file has mode 0600, since quotes of contexts are in it. All its work is done in one thread of its own. A file
    that is damaged is renamed to `<name>.corrupt` and a new one created.

    Args:
        path: None for memory; then it ends with the process.
        max_bytes: of the file, the entries used longest ago go first; its journal may add some megabytes.
        ttl_seconds: age from which an entry is not returned any more; reading it does not renew it.
        clock: seconds since 1970.
    """

    def __init__(
        self, path: Path | None, *, max_bytes: int, ttl_seconds: float, clock: Callable[[], float] = time.time
    ) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._ttl_seconds = ttl_seconds
        self._clock = clock
        self._thread = Threads(max_workers=1, thread_name_prefix="verdict-store")
        self._connection: sqlite3.Connection | None = None
        self._inode: int | None = None
        self._waiting = 0
        self._is_closed = False
        self._rest_until = 0.0
        self._complaint: str | None = None

    async def get(self, key: str) -> bytes | None:
        """Return the value; None if it is missing or too old, or if the file cannot be read."""
        return None if self._is_closed else await self._in_thread(lambda: self._guarded(lambda: self._get(key)))

    async def put(self, key: str, value: bytes) -> None:
        """Store the value if possible; one of more than a quarter of `max_bytes` is not stored."""
        await self.put_many({key: value})

    async def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        """Return the values that exist, as `get` does, in one step."""

        def work() -> dict[str, bytes]:
            return {key: value for key in keys if (value := self._get(key)) is not None}

        if self._is_closed:
            return {}
        found = await self._in_thread(lambda: self._guarded(work))
        return found or {}

    async def put_many(self, values: Mapping[str, bytes]) -> None:
        """Store the values in one transaction, each as `put` does."""
        kept = {key: value for key, value in values.items() if len(value) <= self._max_bytes // 4}
        if self._is_closed or self._waiting >= _MAX_WAITING or not kept:
            return
        self._waiting += 1
        try:
            await self._in_thread(lambda: self._guarded(lambda: self._put(kept)))
        finally:
            self._waiting -= 1

    def readiness(self) -> Readiness:
        """Return where verdicts are stored, or why they cannot be stored now."""
        if self._complaint is not None:
            return Readiness(State.UNAVAILABLE, f"verdicts are not kept: {self._complaint}")
        where = "in memory" if self._path is None else "on disk"
        return Readiness(State.READY, f"{where}, {self._max_bytes} bytes, {self._ttl_seconds:g} s")

    async def close(self) -> None:
        """Wait for pending writes and close the file; from now on every entry is a miss."""
        if not self._is_closed:
            self._is_closed = True
            await self._in_thread(lambda: self._guarded(self._disconnect))
            self._thread.shutdown(wait=False)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    # --- everything below runs in the thread

    def _guarded(self, work: Callable[[], T]) -> T | None:
        try:
            return work()
        except (sqlite3.Error, OSError) as error:
            self._complain(error)
            if is_damage(error):
                self._put_aside()
            return None

    def _get(self, key: str) -> bytes | None:
        connection, now = self._connected(), self._clock()
        row = connection.execute(
            "SELECT value, used FROM verdicts WHERE key = ? AND stored > ?", (key, now - self._ttl_seconds)
        ).fetchone()
        if row is None:
            return None
        value, used = row
        if now - used >= _TOUCH_SECONDS and not self._is_resting:
            try:
                connection.execute("UPDATE verdicts SET used = ? WHERE key = ?", (now, key))
            except sqlite3.OperationalError as error:
                # Locked, full or read-only: it can be read all the same.
                self._complain(error)
        return bytes(value)

    def _put(self, values: Mapping[str, bytes]) -> None:
        if self._is_resting:
            return
        connection, now = self._connected(), self._clock()
        with transaction(connection):
            connection.execute(
                "DELETE FROM verdicts WHERE rowid IN (SELECT rowid FROM verdicts WHERE stored <= ? LIMIT ?)",
                (now - self._ttl_seconds, _SWEPT_AT_ONCE),
            )
            for key, value in values.items():
                self._make_room(connection, len(value))
                connection.execute(_PUT, (key, now, now, value))
        self._complaint = None

    def _make_room(self, connection: sqlite3.Connection, size: int) -> None:
        """Delete the least recently used entries until one more of `size` bytes fits."""
        page_size = pragma(connection, "page_size")
        allowed = self._max_bytes // page_size - size // page_size - _SPARE_PAGES
        while pragma(connection, "page_count") - pragma(connection, "freelist_count") > allowed:
            deleted = connection.execute(
                "DELETE FROM verdicts WHERE rowid IN (SELECT rowid FROM verdicts ORDER BY used LIMIT 4)"
            )
            if not deleted.rowcount:
                return

    @property
    def _is_resting(self) -> bool:
        return time.monotonic() < self._rest_until

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            if self._path is not None:
                self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
                self._inode = os.fstat(descriptor).st_ino
                os.close(descriptor)
            self._connection = open_database(self._path, _FORMAT, busy_seconds=_BUSY_SECONDS)
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _put_aside(self) -> None:
        try:
            self._disconnect()
            # Another process may have done it before: its new file stays.
            if self._path is not None and self._path.stat().st_ino == self._inode:
                self._path.replace(f"{self._path}.corrupt")
                for journal in ("-wal", "-shm"):
                    Path(f"{self._path}{journal}").unlink(missing_ok=True)
            self._rest_until = 0.0
        except (sqlite3.Error, OSError) as error:
            self._complain(error)

    def _complain(self, error: Exception) -> None:
        """Log the first failure after a success, and pause writes; the logged messages hold no entry."""
        self._rest_until = time.monotonic() + _REST_SECONDS
        if self._complaint is None:
            structlog.get_logger().warning("verdict_store_failed", error=f"{type(error).__name__}: {error}")
        self._complaint = getattr(error, "sqlite_errorname", None) or type(error).__name__


def make_verdict_store(
    settings: Settings, shared: SharedDatabase | None = None
) -> SqliteVerdictStore | SharedVerdictStore | None:
    """Build the store of the settings, opened at first use; None if they turn the cache off.

    `shared`: keeps verdicts that other processes find too, unless the settings name a file.
    """
    if not settings.cache_ttl_seconds:
        return None
    max_bytes, ttl_seconds = settings.cache_max_bytes, settings.cache_ttl_seconds
    if shared is not None and settings.cache_path is None:
        return SharedVerdictStore(shared, max_bytes=max_bytes, ttl_seconds=ttl_seconds)
    return SqliteVerdictStore(settings.cache_path, max_bytes=max_bytes, ttl_seconds=ttl_seconds)
