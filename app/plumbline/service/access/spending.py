"""What each tenant spends today, counted call by call, kept on disk a second later at most."""

import asyncio
import math
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, time, timedelta
from functools import reduce
from pathlib import Path
from typing import Final

import structlog

from plumbline.ground.errors import BudgetSpent
from plumbline.judging.ports.exchange import Usage
from plumbline.service.access.key import Limits
from plumbline.service.access.spending_file import Spent, Stamp, add_to_day, read_day, spent_of, stamp_of

# What a process that is killed forgets to have spent.
_KEEP_SECONDS: Final = 1.0
_LOG = structlog.get_logger()


class Spending:
    """Counts in memory, where each request looks; adds to a file that other processes of the machine add to too.

    A file that cannot be used is said in the log; counting goes on in memory and is tried to be kept again.

    Args:
        path: of the file, made with the first call that is to be kept.
        now: the time, with its zone.
    """

    def __init__(self, path: Path, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._path = path
        self._now = now
        self._day = self._today()
        self._kept: dict[str, Spent] = {}
        self._leaving: dict[str, Spent] = {}
        self._unkept: dict[str, Spent] = {}
        self._is_failing = False
        self._state: tuple[str, Stamp | None] = ("", None)
        self._saving = asyncio.Lock()

    def add(self, tenant: str, usage: Usage) -> None:
        """Counts one call to a chat model."""
        self._turn_day()
        self._unkept[tenant] = self._unkept.get(tenant, Spent()).plus(spent_of(usage))

    def today(self, tenant: str) -> Spent:
        """What the tenant has spent since midnight UTC."""
        self._turn_day()
        places = (self._kept, self._leaving, self._unkept)
        return reduce(Spent.plus, [place.get(tenant, Spent()) for place in places])

    def check(self, tenant: str, limits: Limits) -> None:
        """Raises BudgetSpent when the tenant has spent what its key may a day, or it cannot be known."""
        if limits.tokens_per_day is None and limits.cost_per_day is None:
            return
        complaint = _complaint(self.today(tenant), limits)
        if complaint:
            ends = datetime.combine(self._now().date() + timedelta(days=1), time(), UTC)
            seconds = max(1, math.ceil((ends - self._now()).total_seconds()))
            raise BudgetSpent(f"{complaint}; there is more at {ends:%Y-%m-%dT%H:%M:%SZ}", retry_after_seconds=seconds)

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Keeps what is counted, second by second and at the end; what others have spent is read too."""
        await self.save()
        keeping = asyncio.create_task(self._keep())
        try:
            yield
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)
            await self.save()

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(_KEEP_SECONDS)
            await self.save()

    async def save(self) -> None:
        """Keeps what is counted now. Raises nothing."""
        async with self._saving:
            self._turn_day()
            day = self._day
            self._leaving, self._unkept = self._unkept, {}
            try:
                # Blocks for as long as the disk does.
                found = await asyncio.to_thread(self._exchange, day, dict(self._leaving))
            except (OSError, sqlite3.Error) as error:
                self._take_back(day)
                self._complain(error)
            else:
                self._is_failing = False
                if day == self._day:
                    self._kept = found
            self._leaving = {}

    def _exchange(self, day: str, more: dict[str, Spent]) -> dict[str, Spent]:
        # The stamp first: what others add in between is read the next time.
        state = (day, stamp_of(self._path))
        if not more and state == self._state:
            return self._kept
        found = add_to_day(self._path, day, more) if more else read_day(self._path, day)
        self._state = state
        return found

    def _take_back(self, day: str) -> None:
        if day == self._day:
            for tenant, spent in self._leaving.items():
                self._unkept[tenant] = self._unkept.get(tenant, Spent()).plus(spent)

    def _complain(self, error: Exception) -> None:
        if not self._is_failing:
            _LOG.warning("spending_not_kept", reason=type(error).__name__)
        self._is_failing = True

    def _turn_day(self) -> None:
        today = self._today()
        if today != self._day:
            self._day = today
            self._kept, self._leaving, self._unkept = {}, {}, {}

    def _today(self) -> str:
        return self._now().astimezone(UTC).date().isoformat()


def _complaint(spent: Spent, limits: Limits) -> str | None:
    if limits.tokens_per_day is not None and spent.tokens >= limits.tokens_per_day:
        return f"the key has used {spent.tokens:,} of its {limits.tokens_per_day:,} tokens a day"
    if limits.cost_per_day is None:
        return None
    if spent.unpriced:
        return (
            "the key has a budget of money, and a call was made whose price is not known (PLUMBLINE_LLM_PRICES), so "
            "what is left of it cannot be told"
        )
    if spent.cost >= limits.cost_per_day:
        return f"the key has spent {spent.cost:.4f} of its {limits.cost_per_day:g} a day"
    return None
