"""A circuit breaker: after some failures in a row nothing is sent for a while, then one probe."""

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Permit:
    """Leave to make one call; its outcome is told to the breaker that gave it, once."""

    era: int
    is_probe: bool


class Breaker:
    """Closed, open, or half open with one probe under way.

    What calls say that were let through before the breaker last changed is old news, and changes nothing.

    Args:
        threshold: failures in a row that open it.
        first_seconds: how long it stays open at first; it doubles for each probe that fails.
        longest_seconds: bound on that.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        *,
        threshold: int,
        first_seconds: float,
        longest_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._threshold = threshold
        self._first_seconds = first_seconds
        self._longest_seconds = longest_seconds
        self._clock = clock
        self._failures = 0
        self._era = 0
        self._open_seconds = 0.0
        self._open_until = 0.0
        self._is_probing = False

    @property
    def is_open(self) -> bool:
        """Whether a call would be refused now."""
        return self._open_seconds > 0 and (self._is_probing or self._clock() < self._open_until)

    @property
    def seconds_left(self) -> float:
        """Seconds until a probe may be made, 0 when one may or when the breaker is closed."""
        return max(0.0, self._open_until - self._clock()) if self._open_seconds > 0 else 0.0

    def admit(self) -> Permit | None:
        """Leave for one call; None while the breaker is open or another call is its probe."""
        if self.is_open:
            return None
        self._is_probing = self._open_seconds > 0
        return Permit(self._era, self._is_probing)

    def succeeded(self, permit: Permit) -> None:
        """The endpoint answered."""
        if permit.era != self._era:
            return
        self._failures = 0
        if permit.is_probe:
            self._change(open_seconds=0.0)

    def failed(self, permit: Permit) -> bool:
        """The endpoint failed; True when that opened the breaker."""
        if permit.era != self._era:
            return False
        self._failures += 1
        if permit.is_probe:
            self._change(open_seconds=min(self._longest_seconds, self._open_seconds * 2))
            return True
        if self._failures >= self._threshold:
            self._change(open_seconds=self._first_seconds)
            return True
        return False

    def withdrawn(self, permit: Permit) -> None:
        """The call was given up before it said anything of the endpoint: the next one may be the probe."""
        if permit.era == self._era and permit.is_probe:
            self._is_probing = False

    def _change(self, *, open_seconds: float) -> None:
        self._era += 1
        self._failures = 0
        self._is_probing = False
        self._open_seconds = open_seconds
        self._open_until = self._clock() + open_seconds
