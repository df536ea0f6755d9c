"""Requests a minute by the generic cell rate algorithm: one number of state, no clock that ticks."""

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

WINDOW_SECONDS: Final = 60
# What is left of a second after sums of seconds since the machine's start.
_ROUNDING: Final = 1e-6


class RateStanding(NamedTuple):
    """`remaining` requests may be made now; one more in `next_seconds`."""

    is_admitted: bool
    remaining: int
    next_seconds: int


@dataclass(slots=True)
class CellRate:
    """A full minute's requests at once, then one as each 60 / n seconds pass.

    ATM Forum, Traffic Management 4.0 (1996), GCRA(T, tau) with T = 60 / n and tau = 60 - T: the virtual-scheduling
    form. `_paid_until` is its theoretical arrival time, in the seconds of the caller's clock.
    """

    _paid_until: float = -math.inf

    def ask(self, requests_per_minute: int, now: float) -> RateStanding:
        """Makes a request, where there is room for it; one that is refused costs nothing."""
        cell = WINDOW_SECONDS / requests_per_minute
        ahead = max(0.0, self._paid_until - now)
        is_admitted = ahead + cell <= WINDOW_SECONDS + _ROUNDING
        if is_admitted:
            ahead += cell
            self._paid_until = now + ahead
        room = max(0.0, WINDOW_SECONDS - ahead)
        remaining = int((room + _ROUNDING) / cell)
        wait = (remaining + 1) * cell - room
        return RateStanding(is_admitted, remaining, max(1, math.ceil(wait - _ROUNDING)))
