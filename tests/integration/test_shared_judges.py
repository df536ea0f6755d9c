"""What judges of several processes share: budgets a minute and verdicts, on a real PostgreSQL, and without it."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import structlog

from plumbline.ground.errors import BudgetSpent
from plumbline.judging.ports.exchange import Usage
from plumbline.judging.ports.observation import State
from plumbline.models.chat.call_failures import CallFailure
from plumbline.models.chat.call_limits import SharedBudget
from plumbline.models.chat.shared_database import SharedDatabase, SharedVerdictStore
from plumbline.service.access.keys import Limits
from plumbline.service.access.spending import Spending, Spent, exchange_shared
from tests.running.postgres_server import PostgresServer

pytest.importorskip("psycopg", reason="the extra postgres is not installed")

MEBIBYTE = 1024 * 1024
NOWHERE = "postgresql://nobody:secret-word@127.0.0.1:1/none"

Open = Callable[[], SharedDatabase]


@pytest.fixture
async def opened(postgres_server: PostgresServer) -> AsyncIterator[Open]:
    """Opens the database of this test, each time as another process would."""
    schema = f"judges_{secrets.token_hex(6)}"
    databases: list[SharedDatabase] = []

    def open_one() -> SharedDatabase:
        databases.append(SharedDatabase(postgres_server.url, schema=schema))
        return databases[-1]

    yield open_one
    for database in databases:
        await database.close()


async def waits_of(budget: SharedBudget, calls: int, *, tokens: int = 0, seconds: float = 1e6) -> list[float | None]:
    """What the database says that calls are to wait, without waiting; None: it refuses."""
    waits: list[float | None] = []
    for _ in range(calls):
        found = await budget._database.ask(
            "SELECT reserve_v1(%s, %s, %s, %s, %s, 0, %s)",
            (
                budget._key,
                *budget._requests,
                tokens * budget._tokens.seconds_per_unit,
                budget._tokens.tolerance_seconds,
                seconds,
            ),
        )
        assert found is not None
        waits.append(found[0][0])
    return waits


async def test_processes_share_the_requests_of_a_minute(opened: Open) -> None:
    budgets = [SharedBudget(opened(), "address", 60, None) for _ in range(3)]

    waits = [(await waits_of(budget, 1))[0] for _ in range(3) for budget in budgets]

    assert waits[0] == 0
    # a second apart, whoever asks
    assert waits[-1] == pytest.approx(8.0, abs=1.0)
    assert waits == sorted(waits, key=lambda wait: wait or 0.0)


async def test_addresses_do_not_share(opened: Open) -> None:
    database = opened()

    waits = [(await waits_of(SharedBudget(database, name, 60, None), 1))[0] for name in ("one", "two")]

    assert waits == [0, 0]


async def test_requests_wait_for_their_tokens_and_are_counted_from_then(opened: Open) -> None:
    budget = SharedBudget(opened(), "address", 600, 6_000)

    first, second = await waits_of(budget, 2, tokens=1_000)

    assert first == 0
    # a thousand tokens are ten seconds' worth, one of which may go at once
    assert second == pytest.approx(9.0, abs=1.0)


async def test_a_refusal_takes_nothing(opened: Open) -> None:
    budget = SharedBudget(opened(), "address", 60, None)
    await waits_of(budget, 1)

    assert await waits_of(budget, 3, seconds=0.1) == [None] * 3
    with pytest.raises(CallFailure, match="60 requests a minute"):
        await budget.turn(0, until=time.monotonic() + 0.1)
    assert (await waits_of(budget, 1))[0] == pytest.approx(1.0, abs=0.9)


async def test_tokens_that_were_not_used_are_given_back_with_the_next_call(opened: Open) -> None:
    budget = SharedBudget(opened(), "address", None, 6_000)
    settle = await budget.turn(2_000, until=time.monotonic() + 60)
    settle(10)

    await budget.turn(10, until=time.monotonic() + 1.0)


async def test_without_the_database_a_process_keeps_to_the_budget_by_itself() -> None:
    database = SharedDatabase(NOWHERE)
    budget = SharedBudget(database, "address", 60, None)
    await budget.turn(0, until=time.monotonic() + 5)

    with pytest.raises(CallFailure, match="60 requests a minute"):
        await budget.turn(0, until=time.monotonic() + 0.1)
    assert "secret-word" not in (database.complaint or "")
    await database.close()


async def test_a_verdict_of_one_process_is_found_by_another(opened: Open) -> None:
    one, other = (SharedVerdictStore(opened(), max_bytes=MEBIBYTE, ttl_seconds=100) for _ in range(2))
    await one.put("a", b"\x00one")
    await one.put("a", b"\x00two")

    assert await other.get("a") == b"\x00two"
    assert await other.get("b") is None
    assert other.readiness().state is State.READY


async def test_a_verdict_ends_with_its_time(opened: Open) -> None:
    database = opened()
    store = SharedVerdictStore(database, max_bytes=MEBIBYTE, ttl_seconds=100)
    await store.put("a", b"one")
    await database.ask("UPDATE verdict SET stored = stored - 101", ())

    assert await store.get("a") is None


async def test_verdicts_used_longest_ago_go_first(opened: Open) -> None:
    database = opened()
    store = SharedVerdictStore(database, max_bytes=MEBIBYTE, ttl_seconds=1e6)
    for number in range(30):
        await store.put(str(number), bytes(60_000))
        await database.ask("UPDATE verdict SET used = %s WHERE key = %s", (number, str(number)))

    kept = [number for number in range(30) if await store.get(str(number)) is not None]
    total = await database.ask("SELECT sum(size) FROM verdict", ())

    assert kept == list(range(kept[0], 30))
    assert total is not None
    assert MEBIBYTE // 2 < total[0][0] <= MEBIBYTE + 60_000


async def test_a_value_that_would_push_all_others_out_is_not_kept(opened: Open) -> None:
    store = SharedVerdictStore(opened(), max_bytes=MEBIBYTE, ttl_seconds=100)
    await store.put("large", bytes(MEBIBYTE // 4))

    assert await store.get("large") is None


async def test_verdicts_without_the_database_are_misses_and_nothing_raises() -> None:
    database = SharedDatabase(NOWHERE)
    store = SharedVerdictStore(database, max_bytes=MEBIBYTE, ttl_seconds=100)
    await store.put("a", b"one")

    assert await store.get("a") is None
    assert store.readiness().state is State.UNAVAILABLE
    await database.close()
    assert await store.get("a") is None


async def test_many_that_begin_at_once_make_the_tables_once(opened: Open) -> None:
    stores = [SharedVerdictStore(opened(), max_bytes=MEBIBYTE, ttl_seconds=100) for _ in range(5)]

    await asyncio.gather(*(store.put(str(number), b"one") for number, store in enumerate(stores)))

    assert [await stores[0].get(str(number)) for number in range(5)] == [b"one"] * 5


async def test_machines_share_what_a_key_has_spent(opened: Open, tmp_path: Path) -> None:
    """Six pods with a budget of 100 tokens each would let a key use 600."""
    limits = Limits(tokens_per_day=100)
    one, other = (Spending(tmp_path / name / "spending.sqlite", shared=opened()) for name in ("one", "other"))
    call = Usage(calls=1, prompt_tokens=40, completion_tokens=10, cost=0.5)

    one.add("a", call)
    await one.save()
    other.add("a", call)
    other.add("b", call)
    await other.save()
    await one.save()

    assert one.today("a") == other.today("a") == Spent(100, 1.0, 0)
    assert one.today("b") == Spent(50, 0.5, 0)
    with pytest.raises(BudgetSpent):
        one.check("a", limits)
    assert not (tmp_path / "one").exists()


async def test_what_was_spent_outlives_the_process_and_old_days_go(opened: Open, tmp_path: Path) -> None:
    database = opened()
    for day in ("2026-01-01", "2026-02-28", "2026-03-01"):
        await exchange_shared(database, day, {"a": Spent(7, 0.25, 1)})

    assert await exchange_shared(opened(), "2026-03-01", {}) == {"a": Spent(7, 0.25, 1)}
    assert await exchange_shared(opened(), "2026-02-28", {}) == {"a": Spent(7, 0.25, 1)}
    assert await exchange_shared(opened(), "2026-01-01", {}) == {}


async def test_without_the_database_spending_is_counted_in_memory(tmp_path: Path) -> None:
    counted = Spending(tmp_path / "spending.sqlite", shared=SharedDatabase(NOWHERE))

    with structlog.testing.capture_logs() as events:
        for _ in range(2):
            counted.add("a", Usage(calls=1, prompt_tokens=40, completion_tokens=10, cost=0.5))
            await counted.save()

    assert counted.today("a") == Spent(100, 1.0, 0)
    assert "spending_not_kept" in {event["event"] for event in events}
