"""The store of verdicts: one SQLite file that bounds itself, or the same in memory.

SQLite of the standard library, since the one library that does this on disk, diskcache, had its last release in 2023
and reads pickles.
"""

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import structlog

from app.backends.shared_database import SharedDatabase
from app.backends.shared_verdicts import SharedVerdictStore
from app.concurrency import Threads
from app.readiness import Readiness, State
from app.settings import Settings

T = TypeVar("T")

# Written into the file's header: a database of somebody else's is left alone. "PLVC".
_APPLICATION_ID = 0x504C5643
_SCHEMA = """
CREATE TABLE verdicts (key TEXT PRIMARY KEY, stored REAL NOT NULL, used REAL NOT NULL, value BLOB NOT NULL);
CREATE INDEX verdicts_stored ON verdicts (stored);
CREATE INDEX verdicts_used ON verdicts (used);
"""
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
_JOURNAL_BYTES = 4 * 1024 * 1024
# Pages that an entry takes besides its value: table, three indices, their inner nodes.
_SPARE_PAGES = 8


class SqliteVerdictStore:
    """Bytes by key in one file that several processes may share; nothing that goes wrong there raises.

    The file has mode 0600, since quotes of contexts are in it. All its work is done in one thread of its own. A file
    that is damaged is put aside as `<name>.corrupt` and a new one begun.

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
        """The value, or None when there is none, it is too old, or the file cannot be read."""
        return None if self._is_closed else await self._in_thread(lambda: self._guarded(lambda: self._get(key)))

    async def put(self, key: str, value: bytes) -> None:
        """Keeps the value if that can be done; one of more than a quarter of `max_bytes` is not kept."""
        if self._is_closed or self._waiting >= _MAX_WAITING or len(value) > self._max_bytes // 4:
            return
        self._waiting += 1
        try:
            await self._in_thread(lambda: self._guarded(lambda: self._put(key, value)))
        finally:
            self._waiting -= 1

    def readiness(self) -> Readiness:
        """Where verdicts are kept, or why they cannot be kept now."""
        if self._complaint is not None:
            return Readiness(State.UNAVAILABLE, f"verdicts are not kept: {self._complaint}")
        where = "in memory" if self._path is None else "on disk"
        return Readiness(State.READY, f"{where}, {self._max_bytes} bytes, {self._ttl_seconds:g} s")

    async def close(self) -> None:
        """Waits for what is being written and closes the file; from now on every entry is a miss."""
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
            if _is_damage(error):
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

    def _put(self, key: str, value: bytes) -> None:
        if self._is_resting:
            return
        connection, now = self._connected(), self._clock()
        with _Transaction(connection):
            connection.execute(
                "DELETE FROM verdicts WHERE rowid IN (SELECT rowid FROM verdicts WHERE stored <= ? LIMIT ?)",
                (now - self._ttl_seconds, _SWEPT_AT_ONCE),
            )
            self._make_room(connection, len(value))
            connection.execute(_PUT, (key, now, now, value))
        self._complaint = None

    def _make_room(self, connection: sqlite3.Connection, size: int) -> None:
        """Deletes entries, those used longest ago first, until one more of `size` bytes is within the bound."""
        page_size = _pragma(connection, "page_size")
        allowed = self._max_bytes // page_size - size // page_size - _SPARE_PAGES
        while _pragma(connection, "page_count") - _pragma(connection, "freelist_count") > allowed:
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
            connection = sqlite3.connect(
                self._path or ":memory:", timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            try:
                _claim(connection)
                if self._path is not None:
                    # Before there is a journal: SQLite gives it the mode of the file.
                    self._path.chmod(0o600)
                _tune(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
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
        """Logs the first failure after a success, and rests; the messages of SQLite and the system hold no entry."""
        self._rest_until = time.monotonic() + _REST_SECONDS
        if self._complaint is None:
            structlog.get_logger().warning("verdict_store_failed", error=f"{type(error).__name__}: {error}")
        self._complaint = getattr(error, "sqlite_errorname", None) or type(error).__name__


class _ForeignDatabase(sqlite3.Error):
    """The file is a database, and not one of ours."""


class _Transaction:
    """Commits at its end, rolls back on an error. Locks at once: a lock taken after a read cannot be waited for."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is None:
            self._connection.execute("COMMIT")
        elif self._connection.in_transaction:
            self._connection.execute("ROLLBACK")


def make_verdict_store(
    settings: Settings, shared: SharedDatabase | None = None
) -> SqliteVerdictStore | SharedVerdictStore | None:
    """The store that the settings ask for; None when they turn the cache off. It is opened when first used.

    Args:
        shared: where verdicts are kept that other processes find too, unless the settings name a file.
    """
    if not settings.cache_ttl_seconds:
        return None
    max_bytes, ttl_seconds = settings.cache_max_bytes, settings.cache_ttl_seconds
    if shared is not None and settings.cache_path is None:
        return SharedVerdictStore(shared, max_bytes=max_bytes, ttl_seconds=ttl_seconds)
    return SqliteVerdictStore(settings.cache_path, max_bytes=max_bytes, ttl_seconds=ttl_seconds)


def _claim(connection: sqlite3.Connection) -> None:
    """Makes an empty file ours.

    Raises:
        sqlite3.Error: it is a database of somebody else, or none.
    """
    if _pragma(connection, "application_id") == _APPLICATION_ID:
        return
    with _Transaction(connection):
        # Asked again with the lock: another process may have made it meanwhile.
        if _pragma(connection, "application_id") == _APPLICATION_ID:
            return
        if connection.execute("SELECT count(*) FROM sqlite_master").fetchone() != (0,):
            raise _ForeignDatabase("the file is a database of something else")
        connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        for statement in _SCHEMA.strip().splitlines():
            connection.execute(statement)


def _tune(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    # In WAL mode a loss of power may take the last entries, never the file.
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(f"PRAGMA journal_size_limit = {_JOURNAL_BYTES}")


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    return int(value)


def _is_damage(error: Exception) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    # The lower byte is the kind; the rest says where.
    return code is not None and code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
