"""Budgets of a day: counted call by call, kept over restarts, shared by the processes of a machine."""

import asyncio
import contextlib
import sqlite3
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from plumbline.ground.errors import BudgetSpent
from plumbline.judging.ports.exchange import Ledger, Usage
from plumbline.service.access.keys import Limits
from plumbline.service.access.spending import Spending, Spent, add_to_day, read_day

EVENING = datetime(2026, 3, 1, 23, 0, 30, tzinfo=UTC)
TOKENS = Limits(tokens_per_day=100)
MONEY = Limits(cost_per_day=1.0)


class Clock:
    def __init__(self) -> None:
        self.time = EVENING

    def __call__(self) -> datetime:
        return self.time


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "spending.sqlite"


def spending(path: Path, clock: Clock | None = None) -> Spending:
    return Spending(path, now=clock or Clock())


def mode_of(path: Path) -> int | None:
    return stat.S_IMODE(path.stat().st_mode) if path.exists() else None


def somebody_elses(path: Path) -> bytes:
    """The content of a database that is not ours, made at the first call."""
    if not path.exists():
        path.parent.mkdir()
        with contextlib.closing(sqlite3.connect(path)) as database:
            database.execute("CREATE TABLE theirs (x)")
    return path.read_bytes()


def call(tokens: int = 0, cost: float | None = 0.0) -> Usage:
    return Usage(calls=1, prompt_tokens=tokens - tokens // 4, completion_tokens=tokens // 4, cost=cost)


def test_prompt_and_completion_tokens_count_up_to_the_budget(path: Path) -> None:
    counted = spending(path)
    counted.add("a", call(99))
    counted.check("a", TOKENS)
    counted.add("a", call(1))

    with pytest.raises(BudgetSpent) as spent:
        counted.check("a", TOKENS)

    # from 23:00:30 to midnight
    assert spent.value.retry_after_seconds == 59 * 60 + 30
    assert str(spent.value) == ("the key has used 100 of its 100 tokens a day; there is more at 2026-03-02T00:00:00Z")
    counted.check("b", TOKENS)
    counted.check("a", Limits())
    counted.check("a", MONEY)


def test_money_counts_up_to_the_budget(path: Path) -> None:
    counted = spending(path)
    counted.add("a", call(cost=0.75))
    counted.check("a", MONEY)
    counted.add("a", call(cost=0.25))

    with pytest.raises(BudgetSpent, match=r"has spent 1\.0000 of its 1 a day"):
        counted.check("a", MONEY)


def test_what_cannot_be_counted_is_spent(path: Path) -> None:
    counted = spending(path)
    counted.add("a", call(5, cost=None))

    with pytest.raises(BudgetSpent, match="PLUMBLINE_LLM_PRICES"):
        counted.check("a", MONEY)
    counted.check("a", TOKENS)


def test_at_midnight_there_is_more(path: Path) -> None:
    clock = Clock()
    counted = spending(path, clock)
    counted.add("a", call(100))
    clock.time += timedelta(hours=1)

    counted.check("a", TOKENS)

    assert counted.today("a") == Spent()


async def test_a_restart_forgets_nothing(path: Path) -> None:
    async with spending(path).kept():
        pass
    assert mode_of(path) is None
    first = spending(path)
    async with first.kept():
        first.add("a", call(60, cost=0.5))

    second = spending(path)
    async with second.kept():
        second.add("a", call(40, cost=None))
        assert second.today("a") == Spent(100, 0.5, 1)

    assert read_day(path, "2026-03-01") == {"a": Spent(100, 0.5, 1)}
    assert mode_of(path) == 0o600


async def test_processes_of_one_machine_add_up(path: Path) -> None:
    one, other = spending(path), spending(path)
    for _ in range(3):
        one.add("a", call(20))
        other.add("a", call(10))
        await asyncio.gather(one.save(), other.save())
    await asyncio.gather(one.save(), other.save())

    assert one.today("a").tokens == other.today("a").tokens == 90


async def test_what_is_spent_while_it_is_written_counts_once(path: Path) -> None:
    counted = spending(path)
    counted.add("a", call(10))
    saving = asyncio.create_task(counted.save())
    await asyncio.sleep(0)
    counted.add("a", call(1))
    meanwhile = counted.today("a").tokens
    await saving
    await counted.save()

    assert (meanwhile, counted.today("a").tokens) == (11, 11)
    assert read_day(path, "2026-03-01")["a"].tokens == 11


async def test_a_disk_that_fails_is_told_once_and_nothing_is_forgotten(path: Path) -> None:
    counted = spending(path)
    path.parent.write_text("in the way")
    with capture_logs() as logs:
        for _ in range(3):
            counted.add("a", call(10))
            await counted.save()
    assert [each["event"] for each in logs] == ["spending_not_kept"]
    assert counted.today("a").tokens == 30

    path.parent.unlink()
    await counted.save()

    assert read_day(path, "2026-03-01")["a"].tokens == 30


async def test_a_database_of_somebody_elses_is_left_alone(path: Path) -> None:
    before = somebody_elses(path)
    counted = spending(path)
    counted.add("a", call(10))

    await counted.save()

    assert somebody_elses(path) == before
    assert counted.today("a").tokens == 10


def test_days_long_past_are_forgotten(path: Path) -> None:
    for day in ("2026-01-01", "2026-02-28"):
        add_to_day(path, day, {"a": Spent(1)})

    add_to_day(path, "2026-03-01", {"a": Spent(1)})

    assert [bool(read_day(path, day)) for day in ("2026-01-01", "2026-02-28", "2026-03-01")] == [False, True, True]


def test_a_ledger_tells_each_call_as_it_is_written_down() -> None:
    told: list[Usage] = []
    ledger = Ledger(on_call=told.append)

    ledger.add_call(prompt_tokens=5, completion_tokens=2, cached_tokens=None, cost=0.5)
    ledger.add_call(prompt_tokens=None, completion_tokens=None, cached_tokens=None, cost=None)

    assert told == [
        Usage(calls=1, prompt_tokens=5, completion_tokens=2, cost=0.5),
        Usage(calls=1, unmetered_calls=1, cost=None),
    ]
    assert ledger.usage == told[0] + told[1]
