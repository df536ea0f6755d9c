"""Databases of 0.2 are taken over with all that is in them; those of a newer version or of others are told and left."""

import asyncio
import os
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy
from structlog.testing import capture_logs

from plumbline.ground.errors import StoreUnavailable
from plumbline.ground.store.database import Transaction
from plumbline.ground.store.tables import METADATA
from plumbline.judging.ports.observation import State
from plumbline.rows.jobs.job import JobState
from plumbline.rows.jobs.store import JobStore
from tests.making.cases import load_cases
from tests.making.job_rows import TENANT, Handler, ended, lines_of, rows_of, submitted, working
from tests.running.job_stores import PostgresStores
from tests.running.postgres_server import PostgresServer

DATA = Path(__file__).parents[1] / "data"
Opened = Callable[[], JobStore]


def folder_of_0_2(folder: Path) -> Path:
    """Writes a data folder as 0.2 left it, its last process killed."""
    (folder / "rows").mkdir(parents=True)
    (folder / "uploads").mkdir()
    with sqlite3.connect(folder / "jobs.sqlite3") as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript((DATA / "jobs_0_2_sqlite.sql").read_text(encoding="utf-8"))
    connection.close()
    for name, rows in (("done", 2), ("half", 3), ("paused", 1)):
        lines = [f'[{row},"q{row}","",["c"],"ok",null,[]]\n' for row in range(rows)]
        (folder / "rows" / f"job_{name}.1").write_text("".join(lines), encoding="utf-8")
    unread = [f'{{"custom_id": "q{row}", "contexts": ["c"], "answer": "ok"}}\n' for row in range(2)]
    (folder / "uploads" / "gone.unread").write_text("".join(unread), encoding="utf-8")
    (folder / "uploads" / "gone.unreadable").write_text("{no\n", encoding="utf-8")
    return folder


def backup_and_restore(kind: str, page: str) -> list[str]:
    """The commands of the deployment page, for a data folder or PostgreSQL."""
    text = (DATA.parents[1] / "docs/how-to" / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    words = ("backup/", "backup/") if kind == "sqlite" else ("pg_dump", "pg_restore")
    found = [block for block in blocks if any(word in block for word in words)]
    assert len(found) == 2
    return found


def run_shell(code: str, folder: Path, **variables: str) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, **variables}
    subprocess.run(["/bin/bash", "-euc", code], cwd=folder, env=environment, check=True, capture_output=True)


@pytest.mark.parametrize("page", ["deployment.md", "deployment.zh.md"])
async def test_the_documented_backup_of_a_folder_undoes_an_upgrade(page: str, tmp_path: Path) -> None:
    data = folder_of_0_2(tmp_path / "data")
    (data / "keys.json").write_text("{}", encoding="utf-8")
    backup, restore = backup_and_restore("sqlite", page)
    variables = {"PLUMBLINE_DATA_DIR": str(data)}

    def dump() -> list[str]:
        with closing(sqlite3.connect(data / "jobs.sqlite3")) as connection:
            return list(connection.iterdump())

    before = dump()
    run_shell(backup, tmp_path, **variables)
    store = JobStore.in_folder(data)
    await submitted(store, rows_of(1))
    await store.close()
    upgraded = dump()
    run_shell(restore, tmp_path, **variables)

    assert upgraded != before
    assert dump() == before


async def test_the_documented_backup_of_postgresql_undoes_an_upgrade(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    import psycopg

    url = postgres_server.new_database()
    backup, restore = backup_and_restore("postgres", "deployment.md")
    variables = {"PLUMBLINE_DATABASE_URL": url}

    def tables() -> list[tuple[str, ...]]:
        query = b"SELECT table_name FROM information_schema.tables WHERE table_schema = 'plumbline' ORDER BY 1"
        with psycopg.connect(url) as connection:
            return connection.execute(query).fetchall()

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(b"CREATE SCHEMA plumbline; SET search_path = plumbline")
        connection.execute((DATA / "jobs_0_2_postgres.sql").read_bytes())
    before = tables()
    run_shell(backup, tmp_path, **variables)
    store = JobStore.on_postgres(url, tmp_path / "jobs")
    await submitted(store, rows_of(1))
    await store.close()
    upgraded = tables()
    run_shell(restore, tmp_path, **variables)

    assert upgraded != before
    assert tables() == before


@pytest.fixture(params=["sqlite", "postgres"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Opened:
    """Opens a database that 0.2 left, each time as another process would."""
    if request.param == "sqlite":
        folder = folder_of_0_2(tmp_path / "data")
        return lambda: JobStore.in_folder(folder)
    import psycopg

    stores: PostgresStores = request.getfixturevalue("postgres_stores")
    with psycopg.connect(stores.url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {stores.schema}; SET search_path = {stores.schema}".encode())
        connection.execute((DATA / "jobs_0_2_postgres.sql").read_bytes())
    return stores.open


async def test_jobs_results_and_labels_of_0_2_are_there_and_half_done_jobs_go_on(opened: Opened) -> None:
    store, handler = opened(), Handler()
    with capture_logs() as logs:
        done = await store.get(TENANT, "job_done")
    half = await store.get(TENANT, "job_half")
    lines = await lines_of(store, "job_done")
    labels = await store.labels(TENANT, "job_done")
    record = await store.record(TENANT, "job_done", 1)
    async with working(store, handler):
        finished = await ended(store, "job_half")
        await store.act(TENANT, "job_paused", "resume")
        await ended(store, "job_paused")
        new = await submitted(store, rows_of(1))
        await ended(store, new.id)
        while await store.tidy():
            pass
    listed = await store.jobs(TENANT, before=None, limit=10)
    counts = (await store.job_stats()).jobs
    await store.close()

    assert [line["event"] for line in logs] == ["store_upgraded"]
    assert (done.state, done.versions, done.counts.passed) == (JobState.COMPLETED_WITH_ERRORS, '{"judge": "a"}', 1)
    assert [line["status"] for line in lines] == ["judged", "failed"]
    assert [(label.row, label.person, label.label, label.sentences, label.note) for label in labels] == [
        (0, "ann", 0, (1,), "")
    ]
    assert record is not None
    assert record.custom_id == "q1"
    assert (half.state, half.counts.done) == (JobState.RUNNING, 1)
    assert (finished.state, finished.counts.done) == (JobState.COMPLETED, 3)
    # Row 1 had its result, and the deleted job's results are not the new one's.
    assert sorted(handler.calls)[:3] != [0, 1, 2]
    assert new.id in [job.id for job in listed]
    assert counts[JobState.FAILED] == (2 if "job_unread" in {job.id for job in listed} else 0)


async def test_uploads_that_0_2_had_not_read_fail_with_what_to_do_and_its_files_go(tmp_path: Path) -> None:
    folder = folder_of_0_2(tmp_path / "data")
    for upload in (folder / "uploads").iterdir():
        os.utime(upload, (0, 0))
    store = JobStore.in_folder(folder)
    async with working(store, Handler()):
        jobs = [await ended(store, name) for name in ("job_unread", "job_unreadable")]
        await store.rescue()
    await store.close()

    assert [(job.state, job.total) for job in jobs] == [(JobState.FAILED, None)] * 2
    assert all("submit it again" in (job.problem or "") for job in jobs)
    assert not (folder / "rows").exists()
    assert not list((folder / "uploads").iterdir())


def _described(found: sqlalchemy.Inspector, table: sqlalchemy.Table) -> object:
    # Whether a key may be NULL SQLite tells as it was written, not as it holds.
    columns = {
        each["name"]: each["nullable"] and each["name"] not in table.primary_key.columns
        for each in found.get_columns(table.name)
    }
    indexes = [(str(each["name"]), tuple(each["column_names"])) for each in found.get_indexes(table.name)]
    return table.name, columns, found.get_pk_constraint(table.name)["constrained_columns"], sorted(indexes)


async def test_a_database_of_0_2_becomes_what_a_new_one_is(opened: Opened, tmp_path: Path) -> None:
    old = opened()
    await old.jobs(TENANT, before=None, limit=1)
    is_server = old._database.backend.is_server

    def described(sql: Transaction) -> list[object]:
        found = sqlalchemy.inspect(sql._connection)
        return [sorted(found.get_table_names()), *(_described(found, table) for table in METADATA.sorted_tables)]

    migrated = await old._database.read(described)
    if is_server:
        await old._database.write(lambda sql: METADATA.drop_all(sql._connection))
    await old.close()
    new = opened() if is_server else JobStore.in_folder(tmp_path / "new")
    await new.jobs(TENANT, before=None, limit=1)
    made = await new._database.read(described)
    await new.close()

    assert migrated == made


_KILLED_IN_THE_MIDDLE = """
import asyncio, os, signal, sys
from pathlib import Path
from plumbline.rows.jobs.store import JobStore

async def main():
    store = JobStore.in_folder(Path(sys.argv[1]))
    store._database.backend.set_format_version = lambda connection: os.kill(os.getpid(), signal.SIGKILL)
    await store.jobs("tenant-1", before=None, limit=1)

asyncio.run(main())
"""


async def test_an_upgrade_that_is_killed_has_changed_nothing_and_is_done_by_the_next(tmp_path: Path) -> None:
    folder = folder_of_0_2(tmp_path / "data")
    command = (sys.executable, "-c", _KILLED_IN_THE_MIDDLE, str(folder))
    killed = await asyncio.create_subprocess_exec(*command)
    code = await killed.wait()
    with sqlite3.connect(folder / "jobs.sqlite3") as connection:
        versions = connection.execute("PRAGMA user_version").fetchone()
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    connection.close()
    store = JobStore.in_folder(folder)
    listed = await store.jobs(TENANT, before=None, limit=10)
    await store.close()

    assert code == -signal.SIGKILL
    assert versions == (1,)
    assert "chunk_rows" not in tables
    assert len(listed) == 5


@pytest.mark.parametrize(("change", "problem"), load_cases("store_versions", "strange_files"))
async def test_a_file_that_is_not_ours_is_told_and_left_as_it_is(tmp_path: Path, change: str, problem: str) -> None:
    first = JobStore.in_folder(tmp_path)
    await submitted(first, rows_of(1))
    await first.close()
    with sqlite3.connect(tmp_path / "jobs.sqlite3") as connection:
        connection.execute(change)
    connection.close()
    store = JobStore.in_folder(tmp_path)

    for ask in (store.rescue, lambda: store.jobs(TENANT, before=None, limit=1)):
        with pytest.raises(StoreUnavailable, match=problem) as caught:
            await ask()
        assert "try again" not in str(caught.value)
    readiness = store.readiness()
    await store.close()

    assert readiness.state is State.UNAVAILABLE
    assert problem in readiness.detail


async def test_a_job_in_a_state_that_nobody_knows_is_passed_over_and_told(tmp_path: Path) -> None:
    store = JobStore.in_folder(tmp_path)
    jobs = [await submitted(store, rows_of(1)) for _ in range(3)]
    with sqlite3.connect(tmp_path / "jobs.sqlite3") as connection:
        connection.execute("UPDATE job SET state = 'levitating' WHERE id = ?", (jobs[1].id,))
    connection.close()

    with capture_logs() as logs:
        listed = await store.jobs(TENANT, before=None, limit=2)
    with pytest.raises(StoreUnavailable, match="levitating"):
        await store.get(TENANT, jobs[1].id)
    await store.close()

    assert [job.id for job in listed] == [jobs[2].id, jobs[0].id]
    assert [line["jobs"] for line in logs] == [[f"{jobs[1].id} levitating"]]


_READ_AS_ANOTHER_USER = """
import asyncio, os, sys
from pathlib import Path
from plumbline.rows.jobs.store import JobStore

async def main():
    store = JobStore.in_folder(Path(sys.argv[1]))
    print(len(await store.jobs("tenant-1", before=None, limit=5)))
    try:
        await store.act("tenant-1", sys.argv[2], "cancel")
    except Exception as error:
        print(error)
    await store.close()

os.setuid(65534)
asyncio.run(main())
"""


async def test_results_in_a_folder_that_cannot_be_written_are_read() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may become another user")
    # Not in tmp_path, whose folders only their owner may enter.
    with tempfile.TemporaryDirectory(prefix="plumbline-jobs-") as folder:
        store = JobStore.in_folder(Path(folder))
        job = await submitted(store, rows_of(1))
        await store.close()
        os.chmod(folder, 0o755)  # noqa: S103
        os.chmod(f"{folder}/jobs.sqlite3", 0o644)
        command = (sys.executable, "-c", _READ_AS_ANOTHER_USER, folder, job.id)
        reading = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        output, _ = await reading.communicate()

    assert output.decode().splitlines() == [
        "1",
        "the data folder cannot be written; let PLUMBLINE_DATA_DIR name one that can",
    ]


async def test_a_store_of_an_earlier_0_3_loses_the_tables_that_went_and_keeps_its_jobs(tmp_path: Path) -> None:
    first = JobStore.in_folder(tmp_path)
    job = await submitted(first, rows_of(2))
    await first.close()
    with sqlite3.connect(tmp_path / "jobs.sqlite3") as connection:
        connection.execute("CREATE TABLE change (job INTEGER, seq INTEGER, PRIMARY KEY (job, seq))")
        connection.execute("CREATE TABLE verdict (key TEXT PRIMARY KEY, value BLOB)")
        connection.execute("ALTER TABLE job ADD COLUMN seq INTEGER NOT NULL DEFAULT 3")
        connection.execute("ALTER TABLE chunk ADD COLUMN owner TEXT")
        connection.execute("ALTER TABLE submission RENAME COLUMN until TO owner")
        connection.execute("ALTER TABLE label DROP COLUMN note")
        connection.execute("UPDATE alembic_version SET version_num = 'plumbline_0001'")
    connection.close()

    store = JobStore.in_folder(tmp_path)
    async with working(store, Handler()):
        done = await ended(store, job.id)
    await store.close()
    with sqlite3.connect(tmp_path / "jobs.sqlite3") as connection:
        names = "SELECT count(*) FROM sqlite_master WHERE name IN ('change', 'verdict')"
        found = connection.execute(names).fetchone()
    connection.close()

    assert (done.state, done.counts.done) == (JobState.COMPLETED, 2)
    assert found == (0,)
