"""Daily spending of each tenant: counted in memory, stored where processes share it, an SQLite file or PostgreSQL."""

import asyncio
import math
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, closing
from datetime import UTC, date, datetime, time, timedelta
from functools import reduce
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from plumbline.ground.concurrency import end_tasks
from plumbline.ground.errors import BudgetSpent
from plumbline.ground.files import FileStamp, file_stamp
from plumbline.ground.sqlite import SqliteFormat, open_database, transaction
from plumbline.judging.ports.exchange import Usage
from plumbline.models.chat.shared_database import SharedDatabase
from plumbline.service.access.keys import Limits

SPENDING_FILE_NAME: Final = "spending.sqlite"
# A killed process loses the spending of so long, and other processes see it so late.
_KEEP_SECONDS: Final = 0.25
_KEPT_DAYS: Final = 40
# "PLSP". No WAL: a change must show in the file's modification time.
_FORMAT: Final = SqliteFormat(
    0x504C5350,
    """
CREATE TABLE spent (
    tenant TEXT NOT NULL, day TEXT NOT NULL, tokens INTEGER NOT NULL, cost REAL NOT NULL, unpriced INTEGER NOT NULL,
    PRIMARY KEY (day, tenant)) WITHOUT ROWID
""",
)
_ADD: Final = """
INSERT INTO spent (tenant, day, tokens, cost, unpriced) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (day, tenant) DO UPDATE SET tokens = tokens + excluded.tokens, cost = cost + excluded.cost,
    unpriced = unpriced + excluded.unpriced
"""
# Adds to a day and returns all of it, in one round trip.
_EXCHANGE: Final = """
WITH swept AS (DELETE FROM spent WHERE day < %s),
    added AS (INSERT INTO spent (day, tenant, tokens, cost, unpriced)
        SELECT %s, * FROM unnest(%s::text[], %s::bigint[], %s::double precision[], %s::bigint[])
        ON CONFLICT (day, tenant) DO UPDATE SET tokens = spent.tokens + excluded.tokens,
            cost = spent.cost + excluded.cost, unpriced = spent.unpriced + excluded.unpriced
        RETURNING tenant, tokens, cost, unpriced)
SELECT * FROM added UNION ALL
SELECT tenant, tokens, cost, unpriced FROM spent WHERE day = %s AND tenant NOT IN (SELECT tenant FROM added)
"""
_LOG = structlog.get_logger()


class Spent(NamedTuple):
    """Tokens as providers counted them, money in the currency of the price table, calls of unknown price."""

    tokens: int = 0
    cost: float = 0.0
    unpriced: int = 0

    def plus(self, other: "Spent") -> "Spent":
        return Spent(self.tokens + other.tokens, self.cost + other.cost, self.unpriced + other.unpriced)


class Spending:
    """Daily spending in memory, for each request to check, and in a file or database that other processes add to.

    If that fails, it is logged, counting continues in memory, and storing is retried. `shared`, in place of the file,
    is closed at the end of `kept`.
    """

    def __init__(
        self,
        path: Path,
        *,
        shared: SharedDatabase | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._path = path
        self._shared = shared
        self._now = now
        self._day = self._today()
        self._kept: dict[str, Spent] = {}
        self._leaving: dict[str, Spent] = {}
        self._unkept: dict[str, Spent] = {}
        self._is_failing = False
        self._state: tuple[str, FileStamp | None] = ("", None)
        self._saving = asyncio.Lock()

    def add(self, tenant: str, usage: Usage) -> None:
        """Count one call to a chat model."""
        self._turn_day()
        call = Spent(usage.prompt_tokens + usage.completion_tokens, usage.cost or 0.0, int(usage.cost is None))
        self._unkept[tenant] = self._unkept.get(tenant, Spent()).plus(call)

    def today(self, tenant: str) -> Spent:
        """Return the tenant's spending since midnight UTC."""
        self._turn_day()
        places = (self._kept, self._leaving, self._unkept)
        return reduce(Spent.plus, [place.get(tenant, Spent()) for place in places])

    def check(self, tenant: str, limits: Limits) -> None:
        """Raise BudgetSpent if the tenant has spent its daily budget, or that cannot be known."""
        if limits.tokens_per_day is None and limits.cost_per_day is None:
            return
        complaint = _complaint(self.today(tenant), limits)
        if complaint:
            ends = datetime.combine(self._now().date() + timedelta(days=1), time(), UTC)
            seconds = max(1, math.ceil((ends - self._now()).total_seconds()))
            raise BudgetSpent(f"{complaint}; there is more at {ends:%Y-%m-%dT%H:%M:%SZ}", retry_after_seconds=seconds)

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Store spending a few times a second and at the end, and read that of other processes."""
        await self.save()

        async def keep() -> None:
            while True:
                await asyncio.sleep(_KEEP_SECONDS)
                await self.save()

        keeping = asyncio.create_task(keep())
        try:
            yield
        finally:
            await end_tasks([keeping])
            await self.save()
            if self._shared is not None:
                await self._shared.close()

    async def save(self) -> None:
        """Store what is counted now. Raises nothing."""
        async with self._saving:
            self._turn_day()
            day = self._day
            self._leaving, self._unkept = self._unkept, {}
            try:
                if self._shared is not None:
                    found = await exchange_shared(self._shared, day, self._leaving)
                else:
                    # Blocks for as long as the disk does.
                    found = await asyncio.to_thread(self._exchange, day, dict(self._leaving))
            except (OSError, sqlite3.Error) as error:
                if day == self._day:
                    for tenant, spent in self._leaving.items():
                        self._unkept[tenant] = self._unkept.get(tenant, Spent()).plus(spent)
                if not self._is_failing:
                    _LOG.warning("spending_not_kept", reason=type(error).__name__)
                self._is_failing = True
            else:
                self._is_failing = False
                if day == self._day:
                    self._kept = found
            self._leaving = {}

    def _exchange(self, day: str, more: dict[str, Spent]) -> dict[str, Spent]:
        # The stamp first: what others add in between is read next time.
        state = (day, file_stamp(self._path))
        if not more and state == self._state:
            return self._kept
        found = add_to_day(self._path, day, more) if more else read_day(self._path, day)
        self._state = state
        return found

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
            "the key has a budget of money, and the price of a call that was made is unknown (PLUMBLINE_LLM_PRICES), "
            "so the rest of the budget is unknown"
        )
    if spent.cost >= limits.cost_per_day:
        return f"the key has spent {spent.cost:.4f} of its {limits.cost_per_day:g} a day"
    return None


def read_day(path: Path, day: str) -> dict[str, Spent]:
    """Return the spending of a day by tenant, blocking; raise OSError or sqlite3.Error if the file cannot be read."""
    if file_stamp(path) is None:
        return {}
    with closing(open_database(path, _FORMAT)) as database:
        return _day(database, day)


def add_to_day(path: Path, day: str, more: Mapping[str, Spent]) -> dict[str, Spent]:
    """Add to a day, all or nothing, and return its spending by tenant; blocks."""
    with closing(open_database(path, _FORMAT)) as database, transaction(database):
        database.executemany(_ADD, [(tenant, day, *spent) for tenant, spent in more.items()])
        database.execute("DELETE FROM spent WHERE day < date(?, ?)", (day, f"-{_KEPT_DAYS} days"))
        return _day(database, day)


def _day(database: sqlite3.Connection, day: str) -> dict[str, Spent]:
    rows = database.execute("SELECT tenant, tokens, cost, unpriced FROM spent WHERE day = ?", (day,))
    return {tenant: Spent(*spent) for tenant, *spent in rows}


async def exchange_shared(database: SharedDatabase, day: str, more: Mapping[str, Spent]) -> dict[str, Spent]:
    """Add to a day of all machines and return its spending by tenant; raise OSError if the database does not answer."""
    oldest = (date.fromisoformat(day) - timedelta(days=_KEPT_DAYS)).isoformat()
    columns = [list(column) for column in zip(*more.values(), strict=True)] or [[], [], []]
    rows = await database.ask(_EXCHANGE, (oldest, day, list(more), *columns, day))
    if rows is None:
        raise OSError("the database does not answer")
    return {tenant: Spent(*spent) for tenant, *spent in rows}
