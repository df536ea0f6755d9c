"""The store of verdicts: what it keeps, what it lets go, and that no trouble with a disk reaches a sample."""

import asyncio
import os
import secrets
import sqlite3
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio
from sqlalchemy import update
from structlog.testing import capture_logs

from plumbline.ground.store.tables import VERDICT
from plumbline.judging.ports.observation import State
from plumbline.judging.tiers.verdict_cache import MemoryVerdictStore
from plumbline.models.chat import verdict_store
from plumbline.models.chat.verdict_store import SqlVerdictStore, open_shared_verdicts, open_verdict_file
from tests.doubles.fakes import Clock
from tests.running.postgres_server import PostgresServer

ROOT = Path(__file__).parents[2]
MEBIBYTE = 1024 * 1024

NOWHERE = "postgresql://nobody:secret-word@127.0.0.1:1/none"

Store = MemoryVerdictStore | SqlVerdictStore
Open = Callable[..., SqlVerdictStore]
OpenAny = Callable[..., Store]


@pytest.fixture
def clock() -> Clock:
    return Clock(1_000_000.0)


@pytest_asyncio.fixture
async def open_store(clock: Clock) -> AsyncIterator[Open]:
    stores: list[SqlVerdictStore] = []

    def open_one(path: Path, *, max_bytes: int = MEBIBYTE, ttl_seconds: float = 100.0) -> SqlVerdictStore:
        stores.append(open_verdict_file(path, max_bytes=max_bytes, ttl_seconds=ttl_seconds, clock=clock))
        return stores[-1]

    yield open_one
    for store in stores:
        await store.close()


@pytest_asyncio.fixture
async def open_shared(postgres_server: PostgresServer) -> AsyncIterator[Open]:
    """Opens the database of this test, each time as another process would."""
    schema = f"verdicts_{secrets.token_hex(6)}"
    stores: list[SqlVerdictStore] = []

    def open_one(*, max_bytes: int = MEBIBYTE, ttl_seconds: float = 100.0) -> SqlVerdictStore:
        # A busy machine is no server that hangs.
        store = open_shared_verdicts(
            postgres_server.url, max_bytes=max_bytes, ttl_seconds=ttl_seconds, schema=schema, seconds=30.0
        )
        stores.append(store)
        return stores[-1]

    yield open_one
    for store in stores:
        await store.close()


@pytest.fixture(params=["memory", "disk", "postgres"])
def open_any(request: pytest.FixtureRequest, open_store: Open, clock: Clock, tmp_path: Path) -> OpenAny:
    """Opens each kind of store in turn."""
    if request.param == "memory":
        return lambda max_bytes=MEBIBYTE, ttl_seconds=100.0: MemoryVerdictStore(
            max_bytes=max_bytes, ttl_seconds=ttl_seconds, clock=clock
        )
    if request.param == "disk":
        return partial(open_store, tmp_path / "cache" / "verdicts.db")
    found: Open = request.getfixturevalue("open_shared")
    return found


async def grow_older(store: Store, clock: Clock, seconds: float) -> None:
    """Lets so much time pass; the clock of a server is not ours, so entries are put back there."""
    clock.now += seconds
    if isinstance(store, SqlVerdictStore) and store._database.backend.is_server:
        earlier = update(VERDICT).values(stored=VERDICT.c.stored - seconds, used=VERDICT.c.used - seconds)
        await store._database.write(lambda sql: sql.execute(earlier).rowcount)


async def test_what_was_put_is_got_and_nothing_else(open_any: OpenAny) -> None:
    store = open_any()
    await store.put("a", b"\x00one")
    await store.put("a", b"\x00two")

    assert await store.get("a") == b"\x00two"
    assert await store.get("b") is None
    assert store.readiness().state is State.READY


async def test_an_entry_ends_with_its_time_whether_it_is_read_or_not(open_any: OpenAny, clock: Clock) -> None:
    store = open_any(ttl_seconds=100.0)
    await store.put("a", b"one")
    await grow_older(store, clock, 90.0)
    assert await store.get("a") == b"one"
    await grow_older(store, clock, 10.0)

    assert await store.get("a") is None


async def test_expired_entries_leave_the_file_with_the_next_write(
    open_store: Open, tmp_path: Path, clock: Clock
) -> None:
    store = open_store(tmp_path / "verdicts.db")
    for number in range(10):
        await store.put(str(number), b"old")
    clock.now += 200.0
    await store.put("new", b"new")

    with sqlite3.connect(tmp_path / "verdicts.db") as connection:
        assert connection.execute("SELECT key FROM verdict").fetchall() == [("new",)]
    connection.close()


async def test_the_oldest_entries_go_first(open_any: OpenAny, clock: Clock) -> None:
    store = open_any(ttl_seconds=1e9)
    value = bytes(20_000)
    for number in range(60):
        await store.put(str(number), value)
        await grow_older(store, clock, 1.0)

    kept = [number for number in range(60) if await store.get(str(number)) is not None]
    assert kept == list(range(kept[0], 60))
    assert 40 <= len(kept) <= MEBIBYTE // len(value)


async def test_the_file_stays_within_its_bytes(open_store: Open, tmp_path: Path, clock: Clock) -> None:
    store = open_store(tmp_path / "verdicts.db", max_bytes=MEBIBYTE)
    for number in range(300):
        clock.now += 0.01
        await store.put(str(number), os.urandom(200 + 97 * number))
    await store.close()

    assert (tmp_path / "verdicts.db").stat().st_size <= MEBIBYTE
    assert await open_store(tmp_path / "verdicts.db").get("299") is not None


async def test_a_value_that_would_push_all_others_out_is_not_kept(open_any: OpenAny) -> None:
    store = open_any()
    await store.put("small", b"one")
    await store.put("large", bytes(MEBIBYTE // 4 + 1))

    assert await store.get("large") is None
    assert await store.get("small") == b"one"


async def test_a_closed_store_holds_nothing_and_raises_nothing(open_any: OpenAny) -> None:
    store = open_any()
    await store.put("a", b"one")
    await store.close()
    await store.close()
    await store.put("b", b"two")

    assert await store.get("a") is None


async def test_only_the_owner_can_read_the_files(open_store: Open, tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "verdicts.db").touch(mode=0o644)
    store = open_store(tmp_path / "cache" / "verdicts.db")
    await store.put("a", b"one")

    files = sorted((tmp_path / "cache").iterdir())
    assert [file.name for file in files] == ["verdicts.db", "verdicts.db-shm", "verdicts.db-wal"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


@pytest.mark.parametrize("damage", ["noise", "header", "pages"])
async def test_a_damaged_file_is_put_aside_and_a_new_one_begun(open_store: Open, tmp_path: Path, damage: str) -> None:
    path = tmp_path / "verdicts.db"
    before = open_store(path)
    for number in range(20):
        await before.put(str(number), bytes(5_000))
    await before.close()
    data = path.read_bytes()
    noise = b"\xa5" * len(data)
    path.write_bytes(
        {"noise": noise, "header": b"\xff" * 100 + data[100:], "pages": data[:4096] + noise[4096:]}[damage]
    )
    store = open_store(path)

    with capture_logs() as logs:
        assert await store.get("3") is None
        # At once: there is nothing to wait for in a new file.
        await store.put("a", b"one")
    assert await store.get("a") == b"one"
    assert [line["event"] for line in logs] == ["verdict_store_failed"]
    assert (tmp_path / "verdicts.db.corrupt").exists()
    assert store.readiness().state is State.READY


async def test_a_database_of_somebody_else_is_left_alone(open_store: Open, tmp_path: Path) -> None:
    path = tmp_path / "theirs.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    path.chmod(0o640)
    before = path.read_bytes()
    store = open_store(path)
    await store.put("a", b"one")

    assert await store.get("a") is None
    assert store.readiness().state is State.UNAVAILABLE
    assert path.read_bytes() == before
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def _file_for_folder(folder: Path) -> Path:
    (folder / "file").touch()
    return folder / "file" / "verdicts.db"


def _folder_for_file(folder: Path) -> Path:
    (folder / "verdicts.db").mkdir()
    return folder / "verdicts.db"


def _read_only_folder(folder: Path) -> Path:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    (folder / "closed").mkdir(mode=0o500)
    return folder / "closed" / "verdicts.db"


@pytest.mark.parametrize("broken", [_file_for_folder, _folder_for_file, _read_only_folder])
async def test_a_path_that_cannot_be_written_is_a_miss_and_one_line(
    open_store: Open, tmp_path: Path, broken: Callable[[Path], Path]
) -> None:
    store = open_store(broken(tmp_path))

    with capture_logs() as logs:
        for _ in range(5):
            await store.put("a", b"one")
            assert await store.get("a") is None
    assert [line["event"] for line in logs] == ["verdict_store_failed"]
    assert store.readiness().state is State.UNAVAILABLE


async def test_a_locked_file_can_be_read_and_is_not_waited_for_twice(
    open_store: Open, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdict_store, "_BUSY_SECONDS", 0.1)
    store = open_store(tmp_path / "verdicts.db", ttl_seconds=1e9)
    await store.put("a", b"one")
    other = sqlite3.connect(tmp_path / "verdicts.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    clock.now += 1_000.0

    assert await store.get("a") == b"one"
    store._writing.end()
    async with asyncio.timeout(2.0):
        for number in range(100):
            await store.put(str(number), b"two")
    assert await store.get("a") == b"one"
    assert store.readiness().state is State.UNAVAILABLE

    other.execute("ROLLBACK")
    other.close()
    store._writing.end()
    await store.put("b", b"two")
    assert await store.get("b") == b"two"
    assert store.readiness().state is State.READY


_ON_A_FULL_DISK = """
import asyncio, resource, sys
from pathlib import Path
from plumbline.models.chat.verdict_store import open_verdict_file

async def main(path):
    store = open_verdict_file(Path(path), max_bytes=1 << 24, ttl_seconds=1e9)
    await store.put("before", b"one")
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    for number in range(50):
        store._writing.end()
        await store.put(str(number), bytes(50_000))
    print(await store.get("before"), await store.get("49"), store.readiness().state)
    await store.close()

asyncio.run(main(sys.argv[1]))
"""


async def test_a_full_disk_can_still_be_read(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _ON_A_FULL_DISK, str(tmp_path / "verdicts.db"), cwd=ROOT,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    output, _ = await process.communicate()

    assert output.decode().count("verdict_store_failed") >= 1
    assert output.decode().endswith("b'one' None unavailable\n")


async def test_writes_beyond_what_may_wait_are_dropped(
    open_store: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdict_store, "_MAX_WAITING", 5)
    store = open_store(tmp_path / "verdicts.db")
    await asyncio.gather(*(store.put(str(number), b"one") for number in range(20)))

    kept = [number for number in range(20) if await store.get(str(number))]
    assert kept == [0, 1, 2, 3, 4]


_OF_0_2 = """
CREATE TABLE verdicts (key TEXT PRIMARY KEY, stored REAL NOT NULL, used REAL NOT NULL, value BLOB NOT NULL);
INSERT INTO verdicts VALUES ('a', 1000000, 1000000, 'old');
PRAGMA application_id = 1347180099;
"""


async def test_without_the_database_verdicts_are_misses_and_one_line() -> None:
    store = open_shared_verdicts(NOWHERE, max_bytes=MEBIBYTE, ttl_seconds=100)
    with capture_logs() as logs:
        for _ in range(5):
            await store.put("a", b"one")
            assert await store.get("a") is None
    await store.close()

    assert [line["event"] for line in logs].count("verdict_store_failed") == 1
    assert "secret-word" not in str(logs)
    assert store.readiness().state is State.UNAVAILABLE


async def test_a_database_that_hangs_is_waited_for_once(postgres_own_server: PostgresServer) -> None:
    store = open_shared_verdicts(postgres_own_server.url, max_bytes=MEBIBYTE, ttl_seconds=100)
    await store.put("a", b"one")
    # On a busy machine opening may take longer than any sample waits.
    while await store.get("a") is None:
        await asyncio.sleep(0.1)
        store._reading.end()
        store._writing.end()
        store._database._rest.end()
        await store.put("a", b"one")
    with postgres_own_server.stopped(), capture_logs() as logs:
        async with asyncio.timeout(20):
            found = [await store.get("a") for _ in range(1_000)]
    await store.close()

    assert found == [None] * 1_000
    assert [line["event"] for line in logs].count("database_hung") <= 1
