"""The store of verdicts: what it keeps, what it lets go, and that no trouble with a disk reaches a sample."""

import asyncio
import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from threading import Event

import pytest
import pytest_asyncio
from structlog.testing import capture_logs

from plumbline.judging.text.verdicts import JudgeAccount, Judgement
from plumbline.models.chat import verdict_store
from plumbline.models.chat.verdict_store import SqliteVerdictStore
from tests.doubles.fakes import Clock

ROOT = Path(__file__).parents[2]
MEBIBYTE = 1024 * 1024

Open = Callable[..., SqliteVerdictStore]


def judgement(text: str = "one", *, noise: int = 0) -> Judgement:
    """Makes a judgement of this text; `noise`: bytes that no compression makes fewer."""
    return Judgement((), JudgeAccount(text + os.urandom(noise).hex()), has_verdict_kinds=True)


@pytest.fixture
def clock() -> Clock:
    return Clock(1_000_000.0)


@pytest_asyncio.fixture
async def open_store(clock: Clock) -> AsyncIterator[Open]:
    stores: list[SqliteVerdictStore] = []

    def open_one(path: Path | None, *, max_bytes: int = MEBIBYTE, ttl_seconds: float = 100.0) -> SqliteVerdictStore:
        stores.append(SqliteVerdictStore(path, max_bytes=max_bytes, ttl_seconds=ttl_seconds, clock=clock))
        return stores[-1]

    yield open_one
    for store in stores:
        await store.close()


@pytest.fixture(params=["memory", "disk"])
def open_any(request: pytest.FixtureRequest, open_store: Open, tmp_path: Path) -> Open:
    """Opens a store in memory, and one in a file."""
    return partial(open_store, None if request.param == "memory" else tmp_path / "cache" / "verdicts.db")


async def test_what_was_put_is_got_and_nothing_else(open_any: Open) -> None:
    store = open_any()
    await store.put("a", judgement("one"))
    await store.put("a", judgement("two"))

    assert await store.get("a") == judgement("two")
    assert await store.get("b") is None


async def test_an_entry_ends_with_its_time_whether_it_is_read_or_not(open_any: Open, clock: Clock) -> None:
    store = open_any(ttl_seconds=100.0)
    await store.put("a", judgement("one"))
    clock.now += 90.0
    assert await store.get("a") == judgement("one")
    clock.now += 10.0

    assert await store.get("a") is None


async def test_expired_entries_leave_the_file_with_the_next_write(
    open_store: Open, tmp_path: Path, clock: Clock
) -> None:
    store = open_store(tmp_path / "verdicts.db")
    for number in range(10):
        await store.put(str(number), judgement("old"))
    clock.now += 200.0
    await store.put("new", judgement("new"))

    with sqlite3.connect(tmp_path / "verdicts.db") as connection:
        assert connection.execute("SELECT substr(key, 9) FROM verdict").fetchall() == [("new",)]
    connection.close()


async def test_the_oldest_entries_go_first(open_any: Open, clock: Clock) -> None:
    store = open_any(ttl_seconds=1e9)
    size = 20_000
    for number in range(60):
        await store.put(str(number), judgement(noise=size))
        clock.now += 1.0

    kept = [number for number in range(60) if await store.get(str(number)) is not None]
    assert kept == list(range(kept[0], 60))
    assert 30 <= len(kept) <= MEBIBYTE // size


async def test_the_file_stays_within_its_bytes(open_store: Open, tmp_path: Path, clock: Clock) -> None:
    store = open_store(tmp_path / "verdicts.db", max_bytes=MEBIBYTE)
    for number in range(300):
        clock.now += 0.01
        await store.put(str(number), judgement(noise=200 + 97 * number))
    await store.close()

    assert (tmp_path / "verdicts.db").stat().st_size <= MEBIBYTE
    assert await open_store(tmp_path / "verdicts.db").get("299") is not None


async def test_a_value_that_would_push_all_others_out_is_not_kept(open_any: Open) -> None:
    store = open_any()
    await store.put("small", judgement("one"))
    await store.put("large", judgement(noise=MEBIBYTE // 4 + 1))

    assert await store.get("large") is None
    assert await store.get("small") == judgement("one")


async def test_a_closed_store_holds_nothing_and_raises_nothing(open_any: Open) -> None:
    store = open_any()
    await store.put("a", judgement("one"))
    await store.close()
    await store.close()
    await store.put("b", judgement("two"))

    assert await store.get("a") is None


async def test_a_judgement_that_is_no_unicode_is_not_kept(open_any: Open) -> None:
    store = open_any()
    await store.put("a", judgement("\ud83d"))

    assert await store.get("a") is None


@pytest.mark.parametrize("record", [b"", b"noise", b"x\x9c\x03\x00\x00\x00\x00\x01"])
async def test_a_damaged_record_is_a_miss(open_store: Open, tmp_path: Path, record: bytes) -> None:
    store = open_store(tmp_path / "verdicts.db")
    await store.put("a", judgement())
    with sqlite3.connect(tmp_path / "verdicts.db") as connection:
        connection.execute("UPDATE verdict SET value = ?", (record,))
    connection.close()

    assert await store.get("a") is None


async def test_only_the_owner_can_read_the_files(open_store: Open, tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "verdicts.db").touch(mode=0o644)
    store = open_store(tmp_path / "cache" / "verdicts.db")
    await store.put("a", judgement("one"))

    files = sorted((tmp_path / "cache").iterdir())
    assert [file.name for file in files] == ["verdicts.db", "verdicts.db-shm", "verdicts.db-wal"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


@pytest.mark.parametrize("damage", ["noise", "header", "pages"])
async def test_a_damaged_file_is_a_miss_and_one_line(open_store: Open, tmp_path: Path, damage: str) -> None:
    path = tmp_path / "verdicts.db"
    before = open_store(path)
    for number in range(20):
        await before.put(str(number), judgement(noise=5_000))
    await before.close()
    data = path.read_bytes()
    noise = b"\xa5" * len(data)
    path.write_bytes(
        {"noise": noise, "header": b"\xff" * 100 + data[100:], "pages": data[:4096] + noise[4096:]}[damage]
    )
    store = open_store(path)

    with capture_logs() as logs:
        for _ in range(5):
            assert await store.get("3") is None
            await store.put("a", judgement("one"))
    assert [line["event"] for line in logs] == ["verdict_store_failed"]
    assert "delete the file" in logs[0]["advice"]


@pytest.mark.parametrize("mark", [0, 0x504C5643])
async def test_a_database_of_another_program_or_of_0_2_is_left_alone(
    open_store: Open, tmp_path: Path, mark: int
) -> None:
    path = tmp_path / "theirs.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (x)")
        connection.execute(f"PRAGMA application_id = {mark}")
    connection.close()
    path.chmod(0o640)
    before = path.read_bytes()
    store = open_store(path)
    await store.put("a", judgement("one"))

    assert await store.get("a") is None
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
            await store.put("a", judgement("one"))
            assert await store.get("a") is None
    assert [line["event"] for line in logs] == ["verdict_store_failed"]


async def test_a_locked_file_can_be_read_and_is_not_waited_for_twice(
    open_store: Open, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdict_store, "_BUSY_SECONDS", 0.1)
    store = open_store(tmp_path / "verdicts.db", ttl_seconds=1e9)
    await store.put("a", judgement("one"))
    other = sqlite3.connect(tmp_path / "verdicts.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    clock.now += 1_000.0

    assert await store.get("a") == judgement("one")
    store._writing.end()
    async with asyncio.timeout(2.0):
        for number in range(100):
            await store.put(str(number), judgement("two"))
    assert await store.get("a") == judgement("one")

    other.execute("ROLLBACK")
    other.close()
    store._writing.end()
    await store.put("b", judgement("two"))
    assert await store.get("b") == judgement("two")


_ON_A_FULL_DISK = """
import asyncio, os, resource, sys
from pathlib import Path
from plumbline.judging.text.verdicts import JudgeAccount, Judgement
from plumbline.models.chat.verdict_store import SqliteVerdictStore

def judgement(text):
    return Judgement((), JudgeAccount(text), has_verdict_kinds=True)

async def main(path):
    store = SqliteVerdictStore(Path(path), max_bytes=1 << 24, ttl_seconds=1e9)
    await store.put("before", judgement("one"))
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    for number in range(50):
        store._writing.end()
        await store.put(str(number), judgement(os.urandom(50_000).hex()))
    print((await store.get("before")).account.model, await store.get("49"))
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
    assert output.decode().endswith("one None\n")


async def test_a_disk_that_hangs_is_waited_for_once(
    open_store: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdict_store, "_SECONDS", 0.05)
    store = open_store(tmp_path / "verdicts.db")
    await store.put("a", judgement("one"))
    hangs = Event()
    store._thread.submit(hangs.wait)

    async with asyncio.timeout(2.0):
        found = [await store.get("a") for _ in range(1_000)]
    hangs.set()

    assert found == [None] * 1_000
