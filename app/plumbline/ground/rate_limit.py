"""Rate limiting by the generic cell rate algorithm (GCRA), without state or clock of its own."""

from typing import NamedTuple, Self

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
