"""Limits on calls: adaptive concurrency, and requests and tokens a minute."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from plumbline.ground.errors import FailureReason
from plumbline.ground.rate_limit import ArrivalTimes, RateLimit
from plumbline.models.chat.call_failures import CallFailure
from plumbline.models.chat.shared_database import SharedDatabase


@dataclass(slots=True)
class Slot:
    """One concurrent call. The caller sets `was_throttled` if the provider reported too many calls."""

    era: int
    was_throttled: bool = False


class AdaptiveLimit:
    """Concurrency limit with additive increase and multiplicative decrease under a hard cap; FIFO.

    Starts at the cap: a provider that never complains is never made to wait for us. Calls that were under way when the
    limit was halved do not halve it again.

    Args:
        cap: most concurrent calls, 1 or more.
    """

    def __init__(self, cap: int) -> None:
        self._cap = cap
        # On concurrent calls now, between 1 and the cap.
        self.limit = cap
        self._in_use = 0
        self._era = 0
        self._clean = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[Slot]:
        """Wait for a slot and hold it during the call."""
        await self._enter()
        slot = Slot(self._era)
        try:
            yield slot
        finally:
            self._in_use -= 1
            self._learn(slot)
            self._wake()

    async def _enter(self) -> None:
        if self._in_use < self.limit and not self._waiting:
            self._in_use += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                # The place was given in the same turn of the loop in which we were cancelled: pass it on.
                self._in_use -= 1
                self._wake()
            raise

    def _learn(self, slot: Slot) -> None:
        if slot.was_throttled:
            if slot.era == self._era:
                self.limit = max(1, self.limit // 2)
                self._era += 1
                self._clean = 0
            return
        self._clean += 1
        if self._clean >= self.limit:
            self.limit = min(self._cap, self.limit + 1)
            self._clean = 0

    def _wake(self) -> None:
        while self._waiting and self._in_use < self.limit:
            turn = self._waiting.popleft()
            if not turn.done():
                self._in_use += 1
                turn.set_result(None)


# Providers count requests by the second too (DashScope: a sixtieth of the budget), tokens by the minute alone.
_BURST_OF_REQUESTS_SECONDS, _BURST_OF_TOKENS_SECONDS = 0.1, 1.0
_UNBOUNDED: Final = RateLimit(0.0, 0.0)
# Told the tokens that were used.
Settle = Callable[[int], None]


class RateBudget:
    """One rate limit, first come, first served.

    Args:
        burst_seconds: how many seconds' worth may start at once; one unit always may.
        arrivals, key: where the limit is kept, for other processes too.
    """

    def __init__(
        self,
        per_minute: int,
        *,
        burst_seconds: float,
        arrivals: ArrivalTimes | None = None,
        key: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limit = RateLimit.strict(per_minute, burst_seconds=burst_seconds)
        self._arrivals = arrivals or ArrivalTimes()
        self._key = key
        self._clock = clock

    def reserve(self, units: float, *, within_seconds: float) -> float | None:
        """Return the seconds to wait before the work may start; None, with nothing reserved, if beyond the bound."""

        def take(arrival: float) -> tuple[float | None, float | None]:
            reserved = self._limit.reserve(arrival, self._clock(), units)
            return (None, None) if reserved.wait_seconds > within_seconds else reserved

        return self._arrivals.update(self._key, take)

    def settle(self, reserved: float, used: float) -> None:
        """Correct a reservation by the units that were used."""
        correction = (used - reserved) * self._limit.seconds_per_unit
        self._arrivals.update(self._key, lambda arrival: (arrival + correction, None))


class CallBudget(Protocol):
    """Limits on requests and tokens in any minute."""

    async def turn(self, tokens: int, *, until: float) -> Settle:
        """Wait until a call of so many tokens may be made; raise CallFailure, and take nothing, beyond `until`."""


class LocalBudget:
    """`CallBudget` of this process, or of those that share `arrivals`; None: no bound."""

    def __init__(
        self, rpm: int | None, tpm: int | None, *, arrivals: ArrivalTimes | None = None, key: str = ""
    ) -> None:
        self._rpm, self._tpm = rpm, tpm

        def budget(per_minute: int | None, burst_seconds: float, unit: str) -> RateBudget | None:
            if per_minute is None:
                return None
            return RateBudget(per_minute, burst_seconds=burst_seconds, arrivals=arrivals, key=f"{unit} {key}")

        self._requests = budget(rpm, _BURST_OF_REQUESTS_SECONDS, "requests")
        self._tokens = budget(tpm, _BURST_OF_TOKENS_SECONDS, "tokens")

    async def turn(self, tokens: int, *, until: float) -> Settle:
        """Wait as `CallBudget.turn` does; FIFO."""
        wait = self._tokens.reserve(tokens, within_seconds=until - time.monotonic()) if self._tokens else 0.0
        if wait is None:
            raise _out_of_budget(f"{self._tpm} tokens")
        settle = partial(self._settle, tokens)
        try:
            await _sleep(wait)
            wait = self._requests.reserve(1, within_seconds=until - time.monotonic()) if self._requests else 0.0
            if wait is None:
                raise _out_of_budget(f"{self._rpm} requests")
            await _sleep(wait)
        except BaseException:
            settle(0)
            raise
        return settle

    def _settle(self, reserved: int, used: int) -> None:
        if self._tokens:
            self._tokens.settle(reserved, used)


class SharedBudget:
    """`CallBudget` of all processes that share a database; of this process alone while the database fails.

    The difference between reserved and used tokens is sent with the next call: a call is one round trip.
    """

    def __init__(self, database: SharedDatabase, key: str, rpm: int | None, tpm: int | None) -> None:
        self._database = database
        self._key = key
        self._rpm, self._tpm = rpm, tpm
        self._requests = RateLimit.strict(rpm, burst_seconds=_BURST_OF_REQUESTS_SECONDS) if rpm else _UNBOUNDED
        self._tokens = RateLimit.strict(tpm, burst_seconds=_BURST_OF_TOKENS_SECONDS) if tpm else _UNBOUNDED
        self._local = LocalBudget(rpm, tpm)
        self._correction = 0.0

    async def turn(self, tokens: int, *, until: float) -> Settle:
        """Wait as `CallBudget.turn` does; FIFO, by the clock of the database."""
        correction, self._correction = self._correction, 0.0
        found = await self._database.ask(
            "SELECT reserve_v1(%s, %s, %s, %s, %s, %s, %s)",
            (
                self._key,
                self._requests.seconds_per_unit,
                self._requests.tolerance_seconds,
                tokens * self._tokens.seconds_per_unit,
                self._tokens.tolerance_seconds,
                correction,
                until - time.monotonic(),
            ),
        )
        if found is None:
            self._correction += correction
            return await self._local.turn(tokens, until=until)
        ((wait,),) = found
        if wait is None:
            bounds = ((self._rpm, "requests"), (self._tpm, "tokens"))
            raise _out_of_budget(" and ".join(f"{bound} {what}" for bound, what in bounds if bound))
        settle = partial(self._settle, tokens)
        try:
            await _sleep(wait)
        except BaseException:
            settle(0)
            raise
        return settle

    def _settle(self, reserved: int, used: int) -> None:
        self._correction += (used - reserved) * self._tokens.seconds_per_unit


async def _sleep(seconds: float) -> None:
    """Sleep as `asyncio.sleep` does, but do not yield to other tasks for a wait of 0."""
    if seconds > 0:
        await asyncio.sleep(seconds)


def _out_of_budget(what: str) -> CallFailure:
    return CallFailure(FailureReason.RATE_LIMITED, f"the budget of {what} a minute has no room within the deadline")
