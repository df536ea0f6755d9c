"""How many rows a worker scores at one time, over all its chunks; and how one is scored with nothing beside it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager


class Slots:
    """So many slots. Whoever wants them all is served before those who want some."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._free = count
        self._waiting_for_all = 0
        self._waiters: list[asyncio.Future[None]] = []

    async def take(self, most: int) -> int:
        """As many slots as are free, `most` of them, at least one: waits for that."""
        await self._until(lambda: self._free > 0 and not self._waiting_for_all)
        return self.take_now(most)

    def take_now(self, most: int) -> int:
        """As many slots as are free, `most` of them, or none."""
        taken = 0 if self._waiting_for_all else min(most, self._free)
        self._free -= taken
        return taken

    def give(self, count: int) -> None:
        """Give slots back."""
        self._free += count
        self._wake()

    @asynccontextmanager
    async def all(self) -> AsyncIterator[None]:
        """All slots, for as long as the context lasts."""
        self._waiting_for_all += 1
        try:
            await self._until(lambda: self._free == self._count)
            self._free = 0
        finally:
            self._waiting_for_all -= 1
            self._wake()
        try:
            yield
        finally:
            self.give(self._count)

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
