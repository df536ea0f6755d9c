"""What judges of several processes share: verdicts, on a real PostgreSQL, and without it."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable

import pytest

from plumbline.judging.ports.observation import State
from plumbline.models.chat.shared_database import SharedDatabase, SharedVerdictStore
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
