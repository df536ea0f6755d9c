"""How many calls may be under way at one time: fewer after the provider complains, more again while it does not."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass


@dataclass(slots=True)
class Slot:
    """One call's place. `was_throttled` is set by the caller when the provider said that there were too many."""

    era: int
    was_throttled: bool = False


class AdaptiveLimit:
    """Additive increase, multiplicative decrease, under a hard cap; first come, first served.

    Starts at the cap: a provider that never complains is never made to wait for us. Calls that were under way when the
    limit was halved do not halve it again.

    Args:
        cap: the most calls at one time, 1 or more.
    """

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._limit = cap
        self._in_use = 0
        self._era = 0
        self._clean = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def limit(self) -> int:
        """What may be under way now, between 1 and the cap."""
        return self._limit

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[Slot]:
        """A place for one call; waits for it until cancelled."""
        await self._enter()
        slot = Slot(self._era)
        try:
            yield slot
        finally:
            self._in_use -= 1
            self._learn(slot)
            self._wake()

    async def _enter(self) -> None:
        if self._in_use < self._limit and not self._waiting:
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
                self._limit = max(1, self._limit // 2)
                self._era += 1
                self._clean = 0
            return
        self._clean += 1
        if self._clean >= self._limit:
            self._limit = min(self._cap, self._limit + 1)
            self._clean = 0

    def _wake(self) -> None:
        while self._waiting and self._in_use < self._limit:
            turn = self._waiting.popleft()
            if not turn.done():
                self._in_use += 1
                turn.set_result(None)
