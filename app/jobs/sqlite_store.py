"""The embedded store: one folder with a SQLite file, needing no server; several processes may share it."""

import asyncio
import secrets
import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

import structlog

from app.errors import InvalidInput
from app.jobs.job import MAX_STRIKES, Action, Held, Job, Lease, NewJob, PendingRow, ResultLine, Select, StateChange
from app.jobs.owners import Owners
from app.jobs.row_file import Cut, cut_upload, decoded, read_chunk
from app.jobs.sqlite_chunks import ChunkRows, sweep
from app.jobs.sqlite_database import SqliteDatabase, guarded
from app.jobs.sqlite_jobs import JobFiles, JobRows, KeptUpload, kept_uploads
from app.jobs.sqlite_schema import SCHEMA
from app.jobs.store import Submission, Upload
from app.jobs.uploads import Uploads
from app.readiness import Readiness, State
from app.scored_row import ScoredRow

T = TypeVar("T")

_SWEPT_AT_ONCE: Final = 2_000
# Owners are looked at so often, at most: a look takes a file lock for each.
_LOOK_SECONDS: Final = 1.0
_CRASHED: Final = f"reading the file ended {MAX_STRIKES} processes; it is not tried again"


class SqliteJobStore:
    """`JobStore` in a folder: `jobs.sqlite3`, and files in `uploads`, `rows` and `owners`.

    The folder is made when the first job is. Files have mode 0600, folders 0700: answers and contexts are in them.

    Args:
        lease_seconds: an owner that does not renew for so long has lost its chunk; one that was killed at once.
        clock: seconds since 1970.
    """

    def __init__(self, folder: Path, *, lease_seconds: float = 30.0, clock: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._database = SqliteDatabase(folder / "jobs.sqlite3", schema=SCHEMA)
        self._owners = Owners(folder / "owners")
        self._uploads = Uploads(folder / "uploads", self._owners)
        self._lease_seconds = lease_seconds
        self._clock = clock
        self._looked = 0.0
        self._on_change: Callable[[], None] = lambda: None

    def on_change(self, call: Callable[[], None]) -> None:
        """Have this called, in the event loop, when this process has brought work or changed a state."""
        self._on_change = call

    # --- for those who ask

    def new_upload(self) -> Path:
        """Where an upload may be written; one that no job took is removed once this process has ended."""
        with guarded():
            return self._uploads.new()

    async def submit(self, new: NewJob, upload: Upload) -> Submission:
        """As `JobStore.submit`; the upload stays where it is until its rows have been read."""
        with guarded():
            await asyncio.to_thread(self._uploads.sync, upload.path)
        kept = KeptUpload(upload.path.name, upload.form, upload.columns)
        job_id = f"job_{secrets.token_hex(12)}"
        submission = await self._database.write(
            lambda sql: _submitted(self._jobs(sql), new, kept, job_id), is_durable=True
        )
        if not submission.is_new:
            await asyncio.to_thread(upload.path.unlink, missing_ok=True)
        self._on_change()
        return submission

    async def get(self, tenant: str, job_id: str) -> Job:
        """As `JobStore.get`."""
        return await self._read_job(tenant, job_id, lambda jobs, number: jobs.by_number(number))

    async def jobs(self, tenant: str, *, before: str | None, limit: int) -> list[Job]:
        """As `JobStore.jobs`."""
        return await self._database.read(lambda sql: self._jobs(sql).newest(tenant, before, limit))

    async def act(self, tenant: str, job_id: str, action: Action) -> Job:
        """As `JobStore.act`."""
        return await self._write_job(tenant, job_id, lambda jobs, number: jobs.act(number, action))

    async def retry(self, tenant: str, job_id: str, select: Select) -> Job:
        """As `JobStore.retry`."""
        return await self._write_job(tenant, job_id, lambda jobs, number: jobs.retry(number, select))

    async def delete(self, tenant: str, job_id: str) -> None:
        """As `JobStore.delete`."""
        files = await self._write_job(tenant, job_id, lambda jobs, number: jobs.delete(number))
        await asyncio.to_thread(self._remove, files)

    async def results(self, tenant: str, job_id: str, *, after: int, limit: int) -> list[ResultLine]:
        """As `JobStore.results`."""
        return await self._database.read(
            lambda sql: self._chunks(sql).lines(self._jobs(sql).number(tenant, job_id), after, limit)
        )

    async def changes(self, tenant: str, job_id: str, *, after: int) -> list[StateChange]:
        """As `JobStore.changes`."""
        return await self._read_job(tenant, job_id, lambda jobs, number: jobs.changes(number, after))

    # --- for those who work

    def owner(self) -> str:
        """The name under which this process leases chunks."""
        with guarded():
            return self._owners.name()

    async def lease(self, owner: str) -> Lease | None:
        """As `JobStore.lease`; takes back first what others have left."""
        if not self._database.path.exists():
            return None
        is_look = time.monotonic() - self._looked >= _LOOK_SECONDS
        lease, dead = await self._database.write(lambda sql: self._leased(self._chunks(sql), owner, is_look=is_look))
        if is_look:
            self._looked = time.monotonic()
            await self._clear_after(dead)
        return lease

    async def validate(self, lease: Lease) -> Held:
        """Read the upload and cut it into chunks; the job is queued then, or failed where no row can be read."""
        upload = await self._database.read(lambda sql: _upload(sql, lease))
        if upload is None:
            return Held.LOST
        if lease.deaths >= MAX_STRIKES:
            return await self.fail(lease, _CRASHED)
        # An owner that has lost the lease meanwhile must not write into the file of the one that has it.
        rows = self._folder / "rows" / f"{lease.job_id}.{lease.fence}"
        try:
            with guarded():
                cut = await asyncio.to_thread(self._cut, upload, rows)
        except InvalidInput as error:
            held = await self.fail(lease, error.detail)
        else:
            held = await self._database.write(
                lambda sql: _filled(self._chunks(sql), lease, cut, rows.name), is_durable=True
            )
        is_kept = held is not Held.LOST
        await asyncio.to_thread((self._uploads.path(upload.name) if is_kept else rows).unlink, missing_ok=True)
        return held

    async def rows(self, lease: Lease) -> Sequence[PendingRow]:
        """As `JobStore.rows`; none when the lease is lost."""
        kept = await self._database.read(lambda sql: self._chunks(sql).span(lease))
        if kept is None:
            return []
        file = self._folder / "rows" / kept.file
        with guarded():
            data = await asyncio.to_thread(read_chunk, file, offset=kept.span.offset, length=kept.span.length)
        return [PendingRow(row, kept.strikes.get(row.row, 0)) for row in decoded(data) if row.row not in kept.done]

    async def begin(self, lease: Lease, rows: Sequence[int]) -> Held:
        """As `JobStore.begin`."""
        return await self._while_held(lease, lambda chunks: chunks.begin(lease, rows))

    async def renew(self, lease: Lease) -> Held:
        """As `JobStore.renew`."""
        return await self._database.write(lambda sql: self._chunks(sql).renew(lease, self._lease_seconds))

    async def commit(self, lease: Lease, rows: Sequence[ScoredRow], *, is_done: bool) -> Held:
        """As `JobStore.commit`."""

        def commit(chunks: ChunkRows) -> None:
            chunks.put(lease, rows)
            if is_done:
                chunks.finish(lease)

        return await self._while_held(lease, commit)

    async def fail(self, lease: Lease, problem: str) -> Held:
        """As `JobStore.fail`."""
        return await self._while_held(lease, lambda chunks: chunks.fail(lease, problem))

    async def release(self, lease: Lease) -> None:
        """As `JobStore.release`."""
        await self._database.write(lambda sql: self._chunks(sql).release(lease))

    async def tidy(self) -> bool:
        """Remove some of what forgotten jobs have left; whether there is more."""
        if not self._database.path.exists():
            return False
        return await self._database.write(lambda sql: sweep(sql, _SWEPT_AT_ONCE))

    def readiness(self) -> Readiness:
        """Where jobs are kept."""
        return Readiness(State.READY, f"jobs are kept in {self._folder.name}")

    async def close(self) -> None:
        """As `JobStore.close`."""
        await self._database.close()
        await asyncio.to_thread(self._owners.close)

    # --- inside

    def _jobs(self, sql: sqlite3.Connection) -> JobRows:
        return JobRows(sql, self._clock)

    def _chunks(self, sql: sqlite3.Connection) -> ChunkRows:
        return ChunkRows(sql, self._clock)

    async def _read_job(self, tenant: str, job_id: str, work: Callable[[JobRows, int], T]) -> T:
        def read(sql: sqlite3.Connection) -> T:
            jobs = self._jobs(sql)
            return work(jobs, jobs.number(tenant, job_id))

        return await self._database.read(read)

    async def _write_job(self, tenant: str, job_id: str, work: Callable[[JobRows, int], T]) -> T:
        def write(sql: sqlite3.Connection) -> T:
            jobs = self._jobs(sql)
            return work(jobs, jobs.number(tenant, job_id))

        # What a caller was told stays so, whatever happens to the machine.
        answer = await self._database.write(write, is_durable=True)
        self._on_change()
        return answer

    async def _while_held(self, lease: Lease, work: Callable[[ChunkRows], None]) -> Held:
        def write(sql: sqlite3.Connection) -> Held:
            chunks = self._chunks(sql)
            held = chunks.held(lease)
            if held is not Held.LOST:
                work(chunks)
            return held

        return await self._database.write(write)

    def _leased(self, chunks: ChunkRows, owner: str, *, is_look: bool) -> tuple[Lease | None, list[str]]:
        dead = chunks.take_back(self._owners.is_alive) if is_look else []
        return chunks.lease(owner, self._lease_seconds), dead

    def _cut(self, upload: KeptUpload, rows: Path) -> Cut:
        rows.parent.mkdir(mode=0o700, exist_ok=True)
        return cut_upload(self._uploads.path(upload.name), rows, form=upload.form, columns=upload.columns)

    def _remove(self, files: JobFiles) -> None:
        if files.upload is not None:
            self._uploads.path(files.upload).unlink(missing_ok=True)
        if files.rows is not None:
            (self._folder / "rows" / files.rows).unlink(missing_ok=True)

    async def _clear_after(self, dead: Sequence[str]) -> None:
        """Removes locks of processes that have ended, and uploads of theirs that no job took."""
        try:
            found = await asyncio.to_thread(self._uploads.orphans)
            kept = await self._database.read(kept_uploads) if found else set()
            await asyncio.to_thread(self._uploads.remove, found - kept)
            for owner in dead:
                self._owners.forget(owner)
        except OSError as error:
            structlog.get_logger().warning("jobs_not_tidied", error=error.strerror)


def _submitted(jobs: JobRows, new: NewJob, upload: KeptUpload, job_id: str) -> Submission:
    # In the same transaction: the same request may have come in twice at once.
    known = jobs.repeated(new)
    return Submission(known or jobs.insert(new, upload, job_id), is_new=known is None)


def _upload(sql: sqlite3.Connection, lease: Lease) -> KeptUpload | None:
    found = sql.execute("SELECT upload, form, columns FROM job WHERE id = ?", (lease.job_id,)).fetchone()
    return None if found is None or found[0] is None else KeptUpload(*found)


def _filled(chunks: ChunkRows, lease: Lease, cut: Cut, file: str) -> Held:
    held = chunks.held(lease)
    if held is not Held.LOST:
        chunks.fill(lease, cut.chunks, cut.rows, file=file, damage=cut.damage)
    return held
