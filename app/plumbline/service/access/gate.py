"""How many requests are let in: of everybody at one time, of each key a minute and at one time. Nobody waits here."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from plumbline.ground.errors import ConcurrencyExceeded, RateExceeded, TooBusy
from plumbline.ground.rate_limit import WINDOW_SECONDS
from plumbline.service.access.key import AccessKey
from plumbline.service.access.rate import CellRate, RateStanding

_RATE: Final = "requests"
_AT_ONCE: Final = "concurrency"
# Nobody knows when one of the requests under way will end.
_SOON_SECONDS: Final = 1


class Quota(NamedTuple):
    """One limit of a key and where the key stands in it, as RateLimit fields have them.

    Args:
        unit: empty for requests.
        window_seconds: None where none is.
        next_seconds: until there is one more; None where nobody knows.
    """

    policy: str
    quota: int
    remaining: int
    unit: str = ""
    window_seconds: int | None = None
    next_seconds: int | None = None


@dataclass(slots=True)
class _Turnstile:
    """Where one key stands."""

    rate: CellRate = field(default_factory=CellRate)
    under_way: int = 0


class Gate:
    """Counts requests, in this process.

    Attributes:
        under_way: requests that were let in and have not ended.
        refused: how many were not, by `rate`, `concurrency` and `capacity`.

    Args:
        max_requests: that may be under way at one time, of all keys together.
        clock: seconds that never run backwards.
    """

    def __init__(self, *, max_requests: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.under_way = 0
        self.refused: Counter[str] = Counter()
        self._max_requests = max_requests
        self._clock = clock
        # One for each key that ever called: as many as there are keys.
        self._turnstiles: dict[str, _Turnstile] = {}

    def enter(self, key: AccessKey, told: list[Quota]) -> None:
        """Takes a place for a request, until `leave`. `told` gets the key's quotas, also when there is none.

        Raises:
            TooBusy: the service has as many requests as it takes.
            RateExceeded, ConcurrencyExceeded: the key has had its share.
        """
        if self.under_way >= self._max_requests:
            self.refused["capacity"] += 1
            raise TooBusy(f"{self._max_requests} requests are under way, as many as are served at one time")
        mine = self._turnstiles.setdefault(key.tenant, _Turnstile())
        self._check_concurrency(key, mine, told)
        self._check_rate(key, mine, told)
        mine.under_way += 1
        self.under_way += 1

    def leave(self, key: AccessKey) -> None:
        """Gives the place back; once for each `enter` that did not raise."""
        self._turnstiles[key.tenant].under_way -= 1
        self.under_way -= 1

    def _check_concurrency(self, key: AccessKey, mine: _Turnstile, told: list[Quota]) -> None:
        most = key.limits.concurrency
        if most is None:
            return
        left = most - mine.under_way
        told.append(Quota(_AT_ONCE, most, max(0, left - 1), unit="concurrent-requests"))
        if left <= 0:
            self.refused["concurrency"] += 1
            raise ConcurrencyExceeded(
                f"the key has {most} request{'' if most == 1 else 's'} under way, as many as it may at one time",
                retry_after_seconds=_SOON_SECONDS,
            )

    def _check_rate(self, key: AccessKey, mine: _Turnstile, told: list[Quota]) -> None:
        most = key.limits.requests_per_minute
        if most is None:
            return
        standing = mine.rate.ask(most, self._clock())
        told.insert(0, _rate_quota(most, standing))
        if not standing.is_admitted:
            self.refused["rate"] += 1
            raise RateExceeded(
                f"the key may make {most} request{'' if most == 1 else 's'} a minute; the next one is free in "
                f"{standing.next_seconds} s",
                retry_after_seconds=standing.next_seconds,
            )


def _rate_quota(most: int, standing: RateStanding) -> Quota:
    return Quota(_RATE, most, standing.remaining, window_seconds=WINDOW_SECONDS, next_seconds=standing.next_seconds)
