"""Embedded job store: one folder with a SQLite file, without a server; several processes may share it."""

import asyncio
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import structlog

from plumbline.ground.errors import InvalidInput
from plumbline.ground.files import find_folder_problem, sync_file
from plumbline.judging.ports.observation import Readiness, State
from plumbline.rows.jobs.chunk_table import ChunkTable
from plumbline.rows.jobs.job import (
    MAX_CRASHES,
    NO_JOBS,
    VALIDATION,
    Held,
    JobState,
    JobStats,
    Lease,
    NewJob,
)
from plumbline.rows.jobs.job_table import JobTable
from plumbline.rows.jobs.owner_files import Owners, Uploads
from plumbline.rows.jobs.row_file import Cut, cut_upload, read_chunk
from plumbline.rows.jobs.sql import Sql
from plumbline.rows.jobs.sqlite_database import SqliteDatabase, guarded
from plumbline.rows.jobs.store import JobStore, Submission, Upload

# Interval of checks for dead owners: a check takes a file lock for each owner.
_CHECK_SECONDS: Final = 1.0
# Interval of searches for files that no job has; the first one is at the start.
_SWEEP_SECONDS: Final = 60.0
_CRASHED: Final = f"reading the file ended {MAX_CRASHES} processes; it is not tried again"


class SqliteJobStore(JobStore):
    """`JobStore` in a folder: `jobs.sqlite3`, and files in `uploads`, `rows` and `owners`.

    Created with the first job. Files have mode 0600, folders 0700: they hold answers and contexts.

    Args:
        lease_seconds: an owner that does not renew for this long loses its chunk; a killed one loses it at once.
        clock: seconds since 1970.
    """

    def __init__(self, folder: Path, *, lease_seconds: float = 30.0, clock: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._file = folder / "jobs.sqlite3"
        super().__init__(SqliteDatabase(self._file, clock=clock), lease_seconds=lease_seconds)
        self._owners = Owners(folder / "owners")
        self._upload_folder = folder / "uploads"
        self._uploads = Uploads(self._upload_folder, self._owners)
        self._checked_at = 0.0
        self._swept_at = -_SWEEP_SECONDS

    # --- for callers of the API

    def new_upload(self) -> Path:
        with guarded():
            return self._uploads.new()

    async def submit(self, new: NewJob, upload: Upload) -> Submission:
        """Store a job durably; the upload stays where it is until its rows have been read."""
        with guarded():
            await asyncio.to_thread(sync_file, upload.path)
        job_id = f"job_{secrets.token_hex(12)}"
        submission = await self._database.write(lambda sql: _submitted(sql, new, upload, job_id), is_durable=True)
        if not submission.is_new:
            await asyncio.to_thread(upload.path.unlink, missing_ok=True)
        self._on_change()
        return submission

    async def delete(self, tenant: str, job_id: str) -> None:
        upload, rows = await self._write_job(tenant, job_id, _deleted)
        if upload is not None:
            await asyncio.to_thread((self._upload_folder / upload).unlink, missing_ok=True)
        if rows is not None:
            await asyncio.to_thread((self._folder / "rows" / rows).unlink, missing_ok=True)

    # --- for workers

    def owner(self) -> str:
        with guarded():
            return self._owners.name()

    async def lease(self, owner: str) -> Lease | None:
        """Lease a free chunk; about once a second free those of dead owners first."""
        if not self._file.exists():
            return None
        is_check = time.monotonic() - self._checked_at >= _CHECK_SECONDS

        def take(sql: Sql) -> tuple[Lease | None, list[str]]:
            chunks, dead = ChunkTable(sql), list[str]()
            if is_check:
                dead = [each for each in chunks.owners() if not self._owners.is_alive(each)]
                chunks.take_back(dead, quiet_since=float("inf"))
            return chunks.lease(owner, self._lease_seconds), dead

        lease, dead = await self._database.write(take)
        if is_check:
            self._checked_at = time.monotonic()
            await self._clear_after(dead)
        return lease

    async def validate(self, lease: Lease) -> Held:
        """Read the upload and split it into chunks, then queue the job; fail it if no row can be read."""
        upload = await self._database.read(lambda sql: _upload(sql, lease, self._upload_folder))
        if upload is None:
            return Held.LOST
        if lease.owner_crashes >= MAX_CRASHES:
            return await self.fail(lease, _CRASHED)
        # An owner that has lost the lease meanwhile must not write into the file of the one that has it.
        rows = self._folder / "rows" / f"{lease.job_id}.{lease.fence}"
        given_up = threading.Event()
        read = partial(cut_upload, form=upload.form, columns=upload.columns, is_wanted=lambda: not given_up.is_set())
        try:
            with guarded():
                rows.parent.mkdir(mode=0o700, exist_ok=True)
                reading = asyncio.create_task(asyncio.to_thread(read, upload.path, rows))
                cut = await asyncio.shield(reading)
        except asyncio.CancelledError:
            # A thread cannot be cancelled: its file is removed when it has ended.
            given_up.set()
            await asyncio.gather(reading, return_exceptions=True)
            await asyncio.to_thread(rows.unlink, missing_ok=True)
            raise
        except InvalidInput as error:
            ended = self._end_reading(lease, upload.path, rows, error.detail)
        else:
            ended = self._end_reading(lease, upload.path, rows, cut)
        # Not to be cancelled half-way: the file is the job's, or it is removed.
        return await asyncio.shield(ended)

    def _chunk_place(self, sql: Sql, number: int, n: int) -> tuple[str, int, int]:
        file, offset, length = sql.execute(
            "SELECT rows_file, offset, length FROM chunk JOIN job ON number = job WHERE job = ? AND n = ?", (number, n)
        ).fetchone()
        return file, offset, length

    async def _chunk_data(self, place: tuple[str, int, int]) -> bytes:
        file, offset, length = place
        with guarded():
            return await asyncio.to_thread(read_chunk, self._folder / "rows" / file, offset=offset, length=length)

    async def tidy(self) -> bool:
        return self._file.exists() and await super().tidy()

    async def job_stats(self) -> JobStats:
        """Return the number of jobs and chunks in each state, without creating the folder."""
        return await super().job_stats() if self._file.exists() else NO_JOBS

    def readiness(self) -> Readiness:
        problem = find_folder_problem(self._folder)
        if problem is not None:
            return Readiness(State.UNAVAILABLE, f"the data folder {self._folder.name} {problem}")
        return Readiness(State.READY, f"jobs are kept in {self._folder.name}")

    async def close(self) -> None:
        await self._database.close()
        await asyncio.to_thread(self._owners.close)

    async def _end_reading(self, lease: Lease, upload: Path, rows: Path, cut: Cut | str) -> Held:
        """Queue the job with its rows, or fail it with the reason; remove the file that is not needed."""
        if isinstance(cut, str):
            held = await self.fail(lease, cut)
        else:
            held = await self._database.write(lambda sql: _filled(sql, lease, cut, rows.name), is_durable=True)
        await asyncio.to_thread((rows if held is Held.LOST else upload).unlink, missing_ok=True)
        return held

    async def _clear_after(self, dead: Sequence[str]) -> None:
        """Remove the locks of dead processes, uploads of theirs that no job took, and rows that no job has."""
        try:
            if found := await asyncio.to_thread(self._uploads.orphans):
                kept = await self._database.read(
                    lambda sql: sql.execute("SELECT upload FROM job WHERE upload IS NOT NULL").fetchall()
                )
                await asyncio.to_thread(self._uploads.remove, found - {name for (name,) in kept})
            if time.monotonic() - self._swept_at >= _SWEEP_SECONDS:
                self._swept_at = time.monotonic()
                await self._sweep_rows()
            for owner in dead:
                self._owners.forget(owner)
        except OSError as error:
            structlog.get_logger().warning("jobs_not_tidied", error=error.strerror)

    async def _sweep_rows(self) -> None:
        """Remove the files of deleted jobs, and what killed processes had written of others'."""
        files = await asyncio.to_thread(lambda: list((self._folder / "rows").glob("*")))
        # Read after the files are listed: a job may come meanwhile.
        jobs = await self._database.read(lambda sql: sql.execute("SELECT id, rows_file FROM job").fetchall())
        rows_by_job: dict[str, str | None] = dict(jobs)
        for path in files:
            job_id = path.name.lstrip(".").partition(".")[0]
            # A job that is still read may have a file of each attempt.
            if job_id not in rows_by_job or rows_by_job[job_id] not in (None, path.name):
                await asyncio.to_thread(path.unlink, missing_ok=True)


def _submitted(sql: Sql, new: NewJob, upload: Upload, job_id: str) -> Submission:
    jobs = JobTable(sql)
    # In the same transaction: concurrent requests may have the same key.
    known = jobs.repeated(new)
    if known is not None:
        return Submission(known, is_new=False)
    file, form, columns = upload.path.name, upload.form, upload.columns
    number = jobs.insert(new, job_id, JobState.VALIDATING, upload=file, form=form, columns=columns)
    # A chunk that stands for reading the upload.
    ChunkTable(sql).add(number, [(VALIDATION, 0, 0)])
    return Submission(jobs.by_number(number), is_new=True)


def _deleted(sql: Sql, number: int) -> tuple[str | None, str | None]:
    """Delete the job; return the names of its upload and its file of rows."""
    upload, rows = sql.execute("SELECT upload, rows_file FROM job WHERE number = ?", (number,)).fetchone()
    JobTable(sql).delete(number)
    return upload, rows


def _upload(sql: Sql, lease: Lease, folder: Path) -> Upload | None:
    found = sql.execute("SELECT upload, form, columns FROM job WHERE id = ?", (lease.job_id,)).fetchone()
    return None if found is None or found[0] is None else Upload(folder / found[0], *found[1:])


def _filled(sql: Sql, lease: Lease, cut: Cut, file: str) -> Held:
    """Replace the chunk for reading the upload by the chunks that were read."""
    held = ChunkTable(sql).hold(lease)
    if held is Held.LOST:
        return held
    (number,) = sql.execute("SELECT number FROM job WHERE id = ?", (lease.job_id,)).fetchone()
    sql.execute("DELETE FROM chunk WHERE job = ? AND n = ?", (number, VALIDATION))
    sql.execute_many(
        "INSERT INTO chunk (job, n, first_row, rows, offset, length) VALUES (?, ?, ?, ?, ?, ?)",
        ((number, n, *span) for n, span in enumerate(cut.chunks)),
    )
    sql.execute(
        "UPDATE job SET total = ?, damage = ?, rows_file = ?, upload = NULL WHERE number = ?",
        (cut.rows, cut.damage, file, number),
    )
    JobTable(sql).enter(number, JobState.QUEUED)
    return held
