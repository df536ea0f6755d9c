"""Budgets a minute: the generic cell rate algorithm, in memory, first come, first served."""

import time
from collections.abc import Callable
from typing import NamedTuple, Self

_WINDOW_SECONDS = 60.0
# Calls reach the provider unevenly late: 0.2 % is 120 ms in a minute.
_MARGIN = 1.002


class Rate(NamedTuple):
    """How far apart units are, and how much earlier than that one may come; seconds."""

    seconds_per_unit: float
    tolerance: float

    @classmethod
    def of(cls, per_minute: int, *, burst_seconds: float) -> Self:
        """For so many units in any 60 seconds, `burst_seconds` worth of them at once, one at least."""
        burst = max(1, round(per_minute * burst_seconds / _WINDOW_SECONDS))
        # A burst and what follows it stay within the budget together.
        seconds_per_unit = _MARGIN * _WINDOW_SECONDS / (per_minute - burst + 1)
        return cls(seconds_per_unit, (burst - 1) * seconds_per_unit)


class RateBudget:
    """So many units in any 60 seconds, spread evenly but for a burst.

    A single piece of work may cost more than the burst: it goes when everything before it is paid, and what comes
    after waits for it.

    Args:
        per_minute: units in any 60 seconds, 1 or more.
        burst_seconds: how many seconds' worth may go at once; one unit always may.
        clock: monotonic seconds.
    """

    def __init__(self, per_minute: int, *, burst_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds_per_unit, self._tolerance = Rate.of(per_minute, burst_seconds=burst_seconds)
        self._clock = clock
        self._paid_until = clock()

    def reserve(self, units: float, *, within_seconds: float) -> float | None:
        """Seconds to wait before the work may start; None, and nothing taken, when they are more than allowed."""
        now = self._clock()
        start = max(self._paid_until, now)
        wait = max(0.0, start - self._tolerance - now)
        if wait > within_seconds:
            return None
        self._paid_until = start + units * self._seconds_per_unit
        return wait

    def settle(self, reserved: float, used: float) -> None:
        """Corrects a reservation by what the work took."""
        self._paid_until += (used - reserved) * self._seconds_per_unit
