"""A data folder that fills up, or that cannot be written: nothing is half done, and work goes on when it can."""

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from plumbline.ground.errors import StoreUnavailable
from plumbline.rows.jobs.job import JobState, Lease, LeaseStatus
from plumbline.rows.jobs.store import JobStore
from plumbline.rows.scored_row import ScoredRow
from tests.making.job_rows import TENANT, Handler, ended, lines_of, rows_of, submitted, until, working

ROWS = 4_000


def system(*command: str) -> bool:
    """Whether the command could be run and succeeded."""
    program = shutil.which(command[0])
    return program is not None and subprocess.run([program, *command[1:]], check=False).returncode == 0


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A folder that is a file system of its own and holds 24 megabytes."""
    # Not in tmp_path: of a killed run it would be in the way of every later one, which clears the folders of earlier
    # runs away and cannot this.
    folder = Path(tempfile.mkdtemp(prefix="plumbline-disk-"))
    try:
        if not system("mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)):
            pytest.skip("a file system of its own takes the rights to mount one")
        try:
            yield folder
        finally:
            system("umount", "--lazy", str(folder))
    finally:
        folder.rmdir()


def fill(ballast: Path) -> None:
    """Takes all the room that there is."""
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(1024))


def remount(disk: Path, how: str) -> None:
    """`ro` or `rw`."""
    assert system("mount", "-o", f"remount,{how}", str(disk))


class Waiting(JobStore):
    """Counts the commits that failed."""

    waits = 0

    async def commit(self, lease: Lease, rows: Sequence[ScoredRow], *, is_done: bool) -> LeaseStatus:
        try:
            return await super().commit(lease, rows, is_done=is_done)
        except StoreUnavailable:
            self.waits += 1
            raise


async def test_a_job_waits_for_room_and_goes_on_by_itself(small_disk: Path) -> None:
    store = Waiting.in_folder(small_disk)
    job = await submitted(store, rows_of(ROWS))
    ballast = small_disk / "ballast"
    handler = Handler()
    # No row before the disk is full: the job could be done before that.
    handler.gate.clear()
    async with working(store, handler, group_rows=16):
        # Nor before its rows are in hand: where they cannot be read, nothing comes to be committed.
        await until(lambda: handler.under_way > 0)
        fill(ballast)
        handler.gate.set()
        # until a commit has failed, and been tried again
        await until(lambda: store.waits > 1)
        stuck = await store.get(TENANT, job.id)
        ballast.unlink()
        done = await ended(store, job.id)
    lines = await lines_of(store, job.id)
    await store.close()

    assert stuck.state is JobState.RUNNING
    assert stuck.counts.done < ROWS
    assert (done.state, done.counts.done, len(lines)) == (JobState.COMPLETED, ROWS, ROWS)
    # results that could not be kept at once were kept later, and not paid for twice
    assert sorted(handler.calls) == list(range(ROWS))


async def test_a_job_that_finds_no_room_is_not_taken_and_leaves_nothing(small_disk: Path) -> None:
    store = JobStore.in_folder(small_disk)
    kept = await submitted(store, rows_of(3))
    fill(small_disk / "ballast")
    with pytest.raises((StoreUnavailable, OSError)):
        await submitted(store, rows_of(1_000))
    listed = await store.jobs(TENANT, before=None, limit=1_000)
    (small_disk / "ballast").unlink()
    async with working(store, Handler()):
        for job in listed:
            assert (await ended(store, job.id)).state is JobState.COMPLETED
    await store.close()

    assert kept.id in {job.id for job in listed}


async def test_a_folder_that_cannot_be_written_is_told_and_used_once_it_can(small_disk: Path) -> None:
    store = JobStore.in_folder(small_disk / "jobs")
    remount(small_disk, "ro")
    with pytest.raises(StoreUnavailable, match="PLUMBLINE_DATA_DIR"):
        store.new_upload()
    with pytest.raises(StoreUnavailable, match="PLUMBLINE_DATA_DIR"):
        await store.get(TENANT, "job_1")

    remount(small_disk, "rw")
    job = await submitted(store, rows_of(3))
    async with working(store, Handler()):
        assert (await ended(store, job.id)).state is JobState.COMPLETED
    await store.close()
