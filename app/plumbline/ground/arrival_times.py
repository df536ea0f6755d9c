"""Storage for rate limits: the theoretical arrival time of each, in memory or shared by the processes of a machine."""

import math
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import structlog

from plumbline.ground.sqlite import SqliteFormat, open_database, transaction

T = TypeVar("T")

_BUSY_SECONDS = 1.0
# "PLRT"
_FORMAT = SqliteFormat(
    0x504C5254,
    "CREATE TABLE arrival (key TEXT PRIMARY KEY, seconds REAL NOT NULL) WITHOUT ROWID",
    journal_bytes=1_048_576,
)
_READ = "SELECT seconds FROM arrival WHERE key = ?"
_WRITE = "INSERT INTO arrival VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET seconds = excluded.seconds"


class ArrivalTimes:
    """Theoretical arrival times of `RateLimit` by key, each read and written in one transaction.

    One transaction on the file takes some 30 microseconds. It survives its processes, not a loss of power: what is
    older than a minute is worth nothing. If the file fails, this process limits by itself and logs that once.

    Args:
        path: an SQLite file for several processes, which must use one clock (`time.monotonic` is the system's); None
            for memory.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._arrivals: dict[str, float] = {}

    def update(self, key: str, change: Callable[[float], tuple[float | None, T]]) -> T:
        """Replace the arrival time of `key` and return the second value of `change`.

        Args:
            key: of one limit; holds no secret.
            change: gets the time, `-inf` for a limit that was never used, and returns the new one (None: unchanged).
        """
        if self._path is not None:
            try:
                return self._update_file(self._path, key, change)
            except sqlite3.Error as error:
                structlog.get_logger().warning("shared_rates_failed", reason=type(error).__name__, detail=str(error))
                self.close()
                self._path = None
        arrival, result = change(self._arrivals.get(key, -math.inf))
        if arrival is not None:
            self._arrivals[key] = arrival
        return result

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _update_file(self, path: Path, key: str, change: Callable[[float], tuple[float | None, T]]) -> T:
        if self._connection is None:
            self._connection = open_database(path, _FORMAT, busy_seconds=_BUSY_SECONDS)
            self._connection.execute("PRAGMA synchronous = OFF")
        database = self._connection
        with transaction(database):
            row = database.execute(_READ, (key,)).fetchone()
            arrival, result = change(row[0] if row else -math.inf)
            if arrival is not None:
                database.execute(_WRITE, (key, arrival))
        return result
