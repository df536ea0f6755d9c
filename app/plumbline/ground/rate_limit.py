"""Rate limiting by the generic cell rate algorithm (GCRA), and the store of its state for several processes."""

import math
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Self, TypeVar

import structlog

from plumbline.ground.sqlite import SqliteFormat, open_database, transaction

WINDOW_SECONDS = 60
# Calls reach a provider unevenly late: 0.2 % is 120 ms in a minute.
_MARGIN = 1.002


class Reservation(NamedTuple):
    """Result of reserving units: the theoretical arrival time to store, and seconds until the work may start."""

    arrival: float
    wait_seconds: float


class RateLimit(NamedTuple):
    """Generic cell rate algorithm GCRA(T, tau), virtual scheduling: ATM Forum, Traffic Management 4.0 (1996).

    The whole state is one number, the theoretical arrival time of the next unit in seconds of the caller's clock.
    Nothing is kept here, so that it can be stored in memory, a file or a database. Any time that has passed, such as
    `-inf`, stands for a limit that was never used.

    Args:
        seconds_per_unit: T, 0 for no limit.
        tolerance_seconds: tau, how long before its theoretical arrival time a unit may start.
    """

    seconds_per_unit: float
    tolerance_seconds: float

    @classmethod
    def refilling(cls, per_minute: int) -> Self:
        """Allow `per_minute` units at once, then one each `60 / per_minute` seconds (a token bucket)."""
        seconds_per_unit = WINDOW_SECONDS / per_minute
        return cls(seconds_per_unit, WINDOW_SECONDS - seconds_per_unit)

    @classmethod
    def strict(cls, per_minute: int, *, burst_seconds: float) -> Self:
        """Allow `per_minute` units in any 60 seconds, at most `burst_seconds` worth of them at once."""
        burst = max(1, round(per_minute * burst_seconds / WINDOW_SECONDS))
        # A burst and what follows it stay within the limit together.
        seconds_per_unit = _MARGIN * WINDOW_SECONDS / (per_minute - burst + 1)
        return cls(seconds_per_unit, (burst - 1) * seconds_per_unit)

    def reserve(self, arrival: float, now: float, units: float = 1.0) -> Reservation:
        """Return the arrival time to store if the work is done, and how long it must wait.

        Work of more units than the burst starts when everything before it is paid for, and delays what follows it.
        """
        start = max(arrival, now)
        return Reservation(start + units * self.seconds_per_unit, max(0.0, start - self.tolerance_seconds - now))

    def seconds_available(self, arrival: float, now: float) -> float:
        """Return the room left now, in seconds' worth of units."""
        return max(0.0, self.tolerance_seconds + self.seconds_per_unit - max(0.0, arrival - now))


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
    The processes of a file must use one clock (`time.monotonic` is the system's); without a path it is in memory.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._arrivals: dict[str, float] = {}

    def update(self, key: str, change: Callable[[float], tuple[float | None, T]]) -> T:
        """Replace the arrival time of `key` and return the second value of `change`.

        `change` gets the time, `-inf` for a limit that was never used, and returns the new one (None: unchanged).
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
