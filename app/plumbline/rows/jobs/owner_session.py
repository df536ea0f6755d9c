"""Whether the processes that work on one PostgreSQL are alive: each holds a lock that ends with its connection."""

import secrets
import threading
import time
from typing import Final

import psycopg

from plumbline.rows.jobs.sql import Sql

# "PLOW"
_OWNERS: Final = 0x504C4F57


class OwnerSession:
    """This process as an owner of chunks, by a connection that does nothing else.

    The server takes the lock back at once when the process is killed, where waiting for leases would take as long as
    a lease; of another machine no lock of a file could tell.
    """

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._number = secrets.randbelow(1 << 31)
        self._connection: psycopg.Connection | None = None
        self._since = 0.0
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """The name under which this process has chunks."""
        return str(self._number)

    @property
    def since(self) -> float:
        """Since when the lock has been held, monotonic seconds."""
        return self._since

    @property
    def seconds(self) -> float:
        """How long the lock has been held without a break."""
        return 0.0 if self._connection is None else time.monotonic() - self._since

    def hold(self, *, is_checked: bool = False) -> None:
        """Has the lock, taken anew where it was lost; blocks. `is_checked`: ask whether the connection still is.

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
                self._connection, self._since = connection, time.monotonic()

    def close(self) -> None:
        """Say that this process is no owner any more."""
        with self._lock:
            self._disconnect()

    def _take_lock(self, connection: psycopg.Connection) -> None:
        while True:
            query = "SELECT pg_try_advisory_lock(%s, %s)"
            if connection.execute(query, (_OWNERS, self._number)).fetchone() == (True,):
                return
            # The server still has our session of before. What was leased under that name is ours by its renewal.
            self._number = secrets.randbelow(1 << 31)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def living_owners(sql: Sql) -> set[str]:
    """Names of those that hold their locks."""
    found = sql.execute(
        "SELECT objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND granted AND classid = ? AND objsubid = 2"
        " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
        (_OWNERS,),
    )
    return {str(number) for (number,) in found}
