"""Limits on calls: adaptive concurrency, requests and tokens a minute, and prices."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

from anyio import CapacityLimiter

from plumbline.ground.errors import FailureReason
from plumbline.ground.judge_settings import ModelPrice
from plumbline.ground.texts import CodedText
from plumbline.models.chat.call_failures import CallFailure
from plumbline.models.chat.completions import TokenCounts


@dataclass(slots=True, eq=False)
class Slot:
    """One concurrent call. The caller sets `was_throttled` if the provider reported too many calls."""

    era: int = 0
    was_throttled: bool = False


class AdaptiveLimit:
    """Concurrency limit with additive increase and multiplicative decrease under a hard cap, where it starts; FIFO.

    Calls that were under way when the limit was halved do not halve it again.
    """

    def __init__(self, cap: int) -> None:
        self._cap = cap
        # It bounds concurrent calls now, between 1 and the cap.
        self.limit = cap
        self._limiter = CapacityLimiter(cap)
        self._era = 0
        self._clean = 0

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[Slot]:
        """Wait for a slot and hold it during the call."""
        slot = Slot()
        await self._limiter.acquire_on_behalf_of(slot)
        slot.era = self._era
        try:
            yield slot
        finally:
            self._learn(slot)
            self._limiter.total_tokens = self.limit
            self._limiter.release_on_behalf_of(slot)

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


_WINDOW_SECONDS = 60
# Calls reach a provider unevenly late: 0.2 % is 120 ms in a minute.
_MARGIN = 1.002
# Providers count requests by the second too (DashScope: a sixtieth of the budget), tokens by the minute alone.
_BURST_OF_REQUESTS_SECONDS, _BURST_OF_TOKENS_SECONDS = 0.1, 1.0
# Takes the tokens that were used.
Settle = Callable[[int], None]


class RateBudget:
    """Allow `per_minute` units in any 60 seconds, first come, first served; so much at once as `burst_seconds` allow.

    Generic cell rate algorithm GCRA(T, tau), virtual scheduling: ATM Forum, Traffic Management 4.0 (1996). T is how
    long a unit takes, tau how long before its theoretical arrival time a unit may start.
    """

    def __init__(self, per_minute: int, *, burst_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        burst = max(1, round(per_minute * burst_seconds / _WINDOW_SECONDS))
        # A burst and what follows it stay within the limit together.
        self._seconds_per_unit = _MARGIN * _WINDOW_SECONDS / (per_minute - burst + 1)
        self._tolerance_seconds = (burst - 1) * self._seconds_per_unit
        self._arrival = -math.inf
        self._clock = clock

    def reserve(self, units: float, *, within_seconds: float) -> float | None:
        """Return the seconds to wait before the work may start; None, with nothing reserved, if beyond the bound.

        Work of more units than the burst starts when everything before it is paid for, and delays what follows it.
        """
        now = self._clock()
        start = max(self._arrival, now)
        wait = max(0.0, start - self._tolerance_seconds - now)
        if wait > within_seconds:
            return None
        self._arrival = start + units * self._seconds_per_unit
        return wait

    def settle(self, reserved: float, used: float) -> None:
        """Correct a reservation by the units that were used."""
        self._arrival += (used - reserved) * self._seconds_per_unit


class CallBudget:
    """Limits on requests and tokens in any minute, of this process; None: no bound."""

    def __init__(self, rpm: int | None, tpm: int | None) -> None:
        self._rpm, self._tpm = rpm, tpm
        self._requests = RateBudget(rpm, burst_seconds=_BURST_OF_REQUESTS_SECONDS) if rpm else None
        self._tokens = RateBudget(tpm, burst_seconds=_BURST_OF_TOKENS_SECONDS) if tpm else None

    async def turn(self, tokens: int, *, until: float) -> Settle:
        """Wait until a call of so many tokens may be made; raise CallFailure, and take nothing, beyond `until`."""
        await _wait_for(self._tokens, tokens, f"{self._tpm} tokens", until)
        settle = partial(self._settle, tokens)
        try:
            await _wait_for(self._requests, 1, f"{self._rpm} requests", until)
        except BaseException:
            settle(0)
            raise
        return settle

    def _settle(self, reserved: int, used: int) -> None:
        if self._tokens:
            self._tokens.settle(reserved, used)


async def _wait_for(budget: RateBudget | None, units: int, what: str, until: float) -> None:
    """Wait for these units, without yielding to other tasks for a wait of 0; a cancelled wait takes none."""
    wait = budget.reserve(units, within_seconds=until - time.monotonic()) if budget else 0.0
    if wait is None:
        raise CallFailure(FailureReason.RATE_LIMITED, CodedText("minute_budget_spent", what=what), is_throttle=True)
    if budget and wait > 0:
        try:
            await asyncio.sleep(wait)
        except BaseException:
            budget.settle(units, 0)
            raise


_MILLION: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Tariff:
    """Price of one model; None if unknown."""

    price: ModelPrice | None

    def worst_case(self, prompt: int, max_output: int) -> float | None:
        """Return the upper bound of a call's cost; None if its price is unknown."""
        if self.price is None:
            return None
        return (prompt * max(self.price.input, self.price.cached or 0.0) + max_output * self.price.output) / _MILLION

    def cost(self, tokens: TokenCounts, *, worst: float | None, is_free: bool = False) -> float | None:
        """Return the cost of a call: the worst case if the provider sent no count, as it may have billed it.

        `is_free`: it refused the call and bills nothing, unless it counted tokens.
        """
        if is_free and not tokens.is_known:
            return 0.0
        if self.price is None:
            return None
        if not tokens.is_known:
            return worst
        cached = min(tokens.cached or 0, tokens.prompt or 0)
        fresh = (tokens.prompt or 0) - cached
        cached_price = self.price.input if self.price.cached is None else self.price.cached
        return (
            fresh * self.price.input + cached * cached_price + (tokens.completion or 0) * self.price.output
        ) / _MILLION
