"""Requests a minute of one key, by the generic cell rate algorithm."""

import math
from dataclasses import dataclass
from typing import Final, NamedTuple

from plumbline.ground.rate_limit import RateLimit

# What is left of a second after sums of seconds since the machine's start.
_ROUNDING: Final = 1e-6


class RateStanding(NamedTuple):
    """`remaining` requests may be made now; one more in `next_seconds`."""

    is_admitted: bool
    remaining: int
    next_seconds: int


@dataclass(slots=True)
class CellRate:
    """Allow a full minute's requests at once, then one each 60 / n seconds.

    Args:
        arrival: the limit's theoretical arrival time, in seconds of the caller's clock; the whole state.
    """

    arrival: float = -math.inf

    def ask(self, requests_per_minute: int, now: float) -> RateStanding:
        """Make a request if there is room for it; a refused one costs nothing."""
        limit = RateLimit.refilling(requests_per_minute)
        reserved = limit.reserve(self.arrival, now)
        is_admitted = reserved.wait_seconds <= _ROUNDING
        if is_admitted:
            self.arrival = reserved.arrival
        room, cell = limit.seconds_available(self.arrival, now), limit.seconds_per_unit
        remaining = int((room + _ROUNDING) / cell)
        wait = (remaining + 1) * cell - room
        return RateStanding(is_admitted, remaining, max(1, math.ceil(wait - _ROUNDING)))
