"""Files of jobs that are lost, cut, left behind or too large: each costs its own job, and the disk is given back."""

import asyncio
import signal
import stat
import sys
from pathlib import Path

import pytest

from plumbline.ground.errors import InvalidInput
from plumbline.judging.ports.observation import State
from plumbline.rows.jobs.job import Held
from plumbline.rows.jobs.row_file import cut_upload
from plumbline.rows.jobs.sqlite_store import SqliteJobStore
from tests.making.job_rows import TENANT, Handler, ended, rows_of, submitted, until, working

ROWS = 250


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.mark.parametrize(("harm", "problem"), [("lost", "is gone"), ("cut", "was cut"), ("changed", "was changed")])
async def test_a_file_of_rows_that_is_harmed_fails_its_job_alone(folder: Path, harm: str, problem: str) -> None:
    store, handler = SqliteJobStore(folder), Handler()
    handler.gate.clear()
    async with working(store, handler):
        hurt = await submitted(store, rows_of(ROWS))
        await ended(store, hurt.id, state="running")
    (file,) = (folder / "rows").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    if harm == "lost":
        file.unlink()
    elif harm == "cut":
        file.write_bytes(file.read_bytes()[:-100])
    else:
        file.write_bytes(b"x" * file.stat().st_size)
    handler.gate.set()

    whole = await submitted(store, rows_of(ROWS))
    async with working(store, handler):
        failed = await ended(store, hurt.id, state="failed")
        done = await ended(store, whole.id)
    await store.close()

    assert failed.problem is not None
    assert problem in failed.problem
    assert done.state == "completed"


async def test_rows_that_no_job_has_are_removed_and_those_of_jobs_stay(folder: Path) -> None:
    store = SqliteJobStore(folder)
    job = await submitted(store, rows_of(3))
    reading = await store.lease(store.owner())
    assert reading is not None
    assert await store.validate(reading) is Held.YES
    (wanted,) = (folder / "rows").iterdir()
    for name in ("job_gone.1", ".job_gone.1.0a1b2c3d.partial", f".{job.id}.0.0a1b2c3d.partial"):
        (folder / "rows" / name).write_bytes(b"rows")
    await store.close()

    later = SqliteJobStore(folder)
    await later.lease(later.owner())
    await later.close()

    assert list((folder / "rows").iterdir()) == [wanted]


async def test_a_job_that_is_deleted_while_its_file_is_read_ends_the_reading(folder: Path) -> None:
    store = SqliteJobStore(folder)
    job = await submitted(store, rows_of(200_000))
    async with working(store, Handler()):
        await until(lambda: (folder / "rows").exists() and any((folder / "rows").iterdir()))
        await store.delete(TENANT, job.id)
        await until(lambda: not any((folder / "rows").iterdir()))
    await store.close()

    assert list((folder / "rows").iterdir()) == []


def test_a_reading_that_is_not_wanted_leaves_nothing(tmp_path: Path) -> None:
    upload, target = tmp_path / "rows.jsonl", tmp_path / "target"
    upload.write_text('{"contexts": ["c"], "answer": "a"}\n' * 500, encoding="utf-8")
    answers = iter([True, True, False])

    with pytest.raises(InvalidInput, match="given up"):
        cut_upload(upload, target, form="jsonl", columns=None, is_wanted=lambda: next(answers))

    assert [path.name for path in tmp_path.iterdir()] == [upload.name]


def test_a_parquet_file_that_expands_without_measure_is_cut(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    # Each distinct value is stored once: 100 MB in some kilobytes.
    contexts = pyarrow.array(["c" * 100_000] * 1_000).dictionary_encode()
    table = pyarrow.table({"contexts": contexts, "answer": pyarrow.array(["a"] * 1_000).dictionary_encode()})
    upload, target = tmp_path / "rows.parquet", tmp_path / "target"
    parquet.write_table(table, upload, compression="zstd")

    cut = cut_upload(upload, target, form="parquet", columns=None)

    size = upload.stat().st_size
    assert size < 100_000
    assert 100 < cut.rows < 1_000
    assert cut.damage is not None
    assert "250 times the file's bytes" in cut.damage
    assert target.stat().st_size < 16 * 1024 * 1024 + 250 * size + 200_000


async def test_a_data_folder_that_cannot_be_used_is_not_ready(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    usable, taken = SqliteJobStore(tmp_path / "new" / "data"), SqliteJobStore(tmp_path / "file" / "data")

    found = [usable.readiness(), taken.readiness()]
    await asyncio.gather(usable.close(), taken.close())

    assert [each.state for each in found] == [State.READY, State.UNAVAILABLE]
    assert "file is a file" in found[1].detail


async def test_a_label_outlives_a_killed_process(tmp_path: Path) -> None:
    store = SqliteJobStore(tmp_path)
    job = await submitted(store, rows_of(1))
    script = (
        "import asyncio, os, pathlib, signal, sys\n"
        "from plumbline.rows.jobs.labels import Label\n"
        "from plumbline.rows.jobs.sqlite_store import SqliteJobStore\n"
        "async def put():\n"
        "    store = SqliteJobStore(pathlib.Path(sys.argv[1]))\n"
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
