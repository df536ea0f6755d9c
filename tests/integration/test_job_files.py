"""Rows of jobs that are lost, cut short or too large: each costs its own job, and what nobody needs is removed."""

import asyncio
import signal
import sys
import zlib
from pathlib import Path

import pytest
from sqlalchemy import delete, func, select, update

from plumbline.ground.errors import StoreUnavailable
from plumbline.ground.store.tables import CHUNK, CHUNK_ROWS, GARBAGE, SUBMISSION
from plumbline.judging.ports.observation import State
from plumbline.rows.jobs.job import NewJob
from plumbline.rows.jobs.row_chunks import chunked_rows
from plumbline.rows.jobs.store import JobStore
from tests.making.job_rows import TENANT, Handler, ended, rows_of, submitted, upload, working
from tests.running.job_stores import Stores

ROWS = 250


@pytest.mark.parametrize(
    ("harm", "problem"), [("lost", "are gone"), ("cut", "were changed"), ("changed", "were changed")]
)
async def test_rows_that_are_harmed_fail_their_job_alone(tmp_path: Path, harm: str, problem: str) -> None:
    store = JobStore.in_folder(tmp_path)
    hurt = await submitted(store, rows_of(ROWS))
    changed = {"cut": b"", "changed": zlib.compress(b"x")}
    harming = update(CHUNK_ROWS).values(data=changed[harm]) if harm in changed else delete(CHUNK_ROWS)
    await store._database.write(lambda sql: sql.execute(harming).rowcount)

    whole = await submitted(store, rows_of(ROWS))
    async with working(store, Handler()):
        failed = await ended(store, hurt.id, state="failed")
        done = await ended(store, whole.id)
    await store.close()

    assert failed.problem is not None
    assert problem in failed.problem
    assert done.state == "completed"


async def stored_chunks(store: JobStore) -> list[int]:
    """How many rows each of these tables has: chunks, their data, submissions, garbage."""
    tables = (CHUNK, CHUNK_ROWS, SUBMISSION, GARBAGE)
    return await store._database.read(
        lambda sql: [sql.execute(select(func.count()).select_from(table)).scalar_one() for table in tables]
    )


async def test_the_rows_of_a_submission_that_failed_are_removed(stores: Stores) -> None:
    class Failing(JobStore):
        async def _write_rows(self, place: object, upload: object) -> object:  # type: ignore[override]
            await super()._write_rows(place, upload)  # type: ignore[arg-type]
            raise StoreUnavailable("the disk is full")

    store = stores.open()
    failing = Failing(store._database, tmp_folder(store))
    with pytest.raises(StoreUnavailable):
        await failing.submit(NewJob(TENANT, b"{}"), upload(store, rows_of(ROWS)))
    while await store.tidy():
        pass
    left = await stored_chunks(store)
    listed = await store.jobs(TENANT, before=None, limit=10)
    await store.close()

    assert (left, listed) == ([0, 0, 0, 0], [])


def tmp_folder(store: JobStore) -> Path:
    return store._folder


async def test_the_rows_of_a_submission_whose_process_was_killed_are_removed(stores: Stores) -> None:
    dying, store = stores.open(), stores.open()
    begun = asyncio.Event()

    class Dying(JobStore):
        async def _write_rows(self, place: object, upload: object) -> object:  # type: ignore[override]
            await super()._write_rows(place, upload)  # type: ignore[arg-type]
            begun.set()
            return await asyncio.Future()

    submitting = asyncio.create_task(
        Dying(dying._database, tmp_folder(dying)).submit(NewJob(TENANT, b"{}"), upload(dying, rows_of(ROWS)))
    )
    await begun.wait()
    # What a kill does: nothing is given back.
    await dying.close()
    submitting.cancel()
    await asyncio.gather(submitting, return_exceptions=True)
    await stores.aged(store, 61)
    while await store.tidy():
        pass
    left = await stored_chunks(store)
    await store.close()

    assert left == [0, 0, 0, 0]


def test_a_parquet_file_that_expands_without_measure_is_cut(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    # Each distinct value is stored once: 100 MB in some kilobytes.
    contexts = pyarrow.array(["c" * 100_000] * 1_000).dictionary_encode()
    table = pyarrow.table({"contexts": contexts, "answer": pyarrow.array(["a"] * 1_000).dictionary_encode()})
    path = tmp_path / "rows.parquet"
    parquet.write_table(table, path, compression="zstd")

    chunks = list(chunked_rows(path, form="parquet", columns=None))

    size = path.stat().st_size
    assert size < 100_000
    assert 100 < sum(chunk.rows for chunk in chunks) < 1_000
    assert "250 times the file's bytes" in (chunks[-1].damage or "")
    assert sum(len(chunk.data) for chunk in chunks) < 16 * 1024 * 1024 + 250 * size + 200_000


async def test_a_data_folder_that_cannot_be_used_is_not_ready(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    usable, taken = JobStore.in_folder(tmp_path / "new" / "data"), JobStore.in_folder(tmp_path / "file" / "data")

    found = [usable.readiness(), taken.readiness()]
    await asyncio.gather(usable.close(), taken.close())

    assert [each.state for each in found] == [State.READY, State.UNAVAILABLE]
    assert "file is a file" in found[1].detail


async def test_a_label_outlives_a_killed_process(tmp_path: Path) -> None:
    store = JobStore.in_folder(tmp_path)
    job = await submitted(store, rows_of(1))
    script = (
        "import asyncio, os, pathlib, signal, sys\n"
        "from plumbline.rows.jobs.labels import Label\n"
        "from plumbline.rows.jobs.store import JobStore\n"
        "async def put():\n"
        "    store = JobStore.in_folder(pathlib.Path(sys.argv[1]))\n"
        "    await store.put_label(sys.argv[2], sys.argv[3], Label(0, 'ann', 0, (1,)))\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "asyncio.run(put())\n"
    )

    killed = await asyncio.create_subprocess_exec(sys.executable, "-c", script, str(tmp_path), TENANT, job.id)
    code = await killed.wait()
    labels = await store.labels(TENANT, job.id)
    await store.close()

    assert code == -signal.SIGKILL
    assert [(each.row, each.person, each.label, each.sentences) for each in labels] == [(0, "ann", 0, (1,))]
