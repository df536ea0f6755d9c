"""The store of jobs: the source of truth about jobs, their rows, results and leases, on SQLite or PostgreSQL."""

import asyncio
import math
import secrets
import shutil
import time
from collections.abc import Callable, Sequence, Set
from contextlib import closing, suppress
from functools import partial
from itertools import count, takewhile
from pathlib import Path
from typing import Final, Self, TypeVar

import structlog

from plumbline.ground.errors import InvalidInput, JobUnknown, StoreUnavailable
from plumbline.ground.files import find_folder_problem
from plumbline.ground.store.database import Database, Transaction
from plumbline.ground.store.postgres import SCHEMA, PostgresSchema
from plumbline.ground.store.sqlite import SqliteFile, unavailable
from plumbline.ground.telemetry import log_failure
from plumbline.ground.texts import CodedText
from plumbline.judging.ports.observation import Readiness, State
from plumbline.rows.jobs import chunk_table, job_table
from plumbline.rows.jobs.job import (
    NO_JOBS,
    Action,
    Job,
    JobState,
    JobStats,
    Lease,
    LeaseStatus,
    NewJob,
    PendingRow,
    ResultLine,
    RetryChoice,
    RowFilter,
)
from plumbline.rows.jobs.labels import Label
from plumbline.rows.jobs.row_chunks import chunked_rows, unpack
from plumbline.rows.jobs.submission import (
    Submission,
    Upload,
    Written,
    add_rows,
    begin_submission,
    finish_submission,
    group_chunks,
)
from plumbline.rows.jobs.uploads import Uploads
from plumbline.rows.records.record import Record, RecordProblem
from plumbline.rows.scored_row import ScoredRow

T = TypeVar("T")

_LEASE_SECONDS: Final = 10.0
_RESCUE_SECONDS: Final = 1.0
# After an outage of the store, in which no owner could renew its leases, they last so much longer.
_GRACE_SECONDS: Final = 5.0


class JobStore:
    """Jobs, their rows, results and leases. Every method may raise StoreUnavailable, and then has changed nothing.

    A job of another tenant is treated as one that does not exist.

    Args:
        folder: for uploads in progress.
        lease_seconds: a worker that does not renew for this long, killed or not, loses its chunk.
    """

    def __init__(self, database: Database, folder: Path, *, lease_seconds: float = _LEASE_SECONDS) -> None:
        self._database = database
        self._folder = folder
        self._uploads = Uploads(folder / "uploads")
        self._lease_seconds = lease_seconds
        self._on_change: Callable[[], None] = lambda: None
        self._problem: str | None = (
            "the PostgreSQL database of jobs cannot be reached" if database.backend.is_server else None
        )
        # When the store was away last, in monotonic seconds.
        self._away = -math.inf

    @classmethod
    def in_folder(
        cls, folder: Path, *, lease_seconds: float = _LEASE_SECONDS, clock: Callable[[], float] = time.time
    ) -> Self:
        """Return the store in `jobs.sqlite3` of a folder, created with the first job; processes may share it."""
        file = SqliteFile(folder / "jobs.sqlite3", clock=clock)
        return cls(Database(file), folder, lease_seconds=lease_seconds)

    @classmethod
    def on_postgres(
        cls, url: str, folder: Path, *, schema: str = SCHEMA, lease_seconds: float = _LEASE_SECONDS
    ) -> Self:
        """Return the store in PostgreSQL, with a folder for uploads on this machine; raise ConfigurationError."""
        return cls(Database(PostgresSchema(url, schema=schema)), folder, lease_seconds=lease_seconds)

    def on_change(self, call: Callable[[], None]) -> None:
        """Register a callback, called in the event loop when this process has added work or changed a state."""
        self._on_change = call

    def readiness(self) -> Readiness:
        """Return the state that the last `rescue` found, at no cost."""
        problem = find_folder_problem(self._folder)
        if problem is not None:
            return Readiness(State.UNAVAILABLE, f"the data folder {self._folder.name} {problem}")
        if self._problem is not None:
            return Readiness(State.UNAVAILABLE, self._problem)
        where = "a PostgreSQL database" if self._database.backend.is_server else self._folder.name
        return Readiness(State.READY, f"jobs are kept in {where}")

    # --- for callers of the API

    def new_upload(self) -> Path:
        """Return a path for an upload; one that no job takes is removed after an hour."""
        try:
            return self._uploads.new()
        except OSError as error:
            raise unavailable(error) from error

    def keep_upload(self, tenant: str, path: Path) -> str:
        """Keep the upload of a tenant who chooses its columns first, for an hour; return its name for `find_upload`."""
        try:
            return self._uploads.keep(path, tenant)
        except OSError as error:
            raise unavailable(error) from error

    def find_upload(self, tenant: str, name: str) -> Path:
        """Return the path of a kept upload. Raises JobUnknown: it is not there, or another tenant's."""
        path = self._uploads.find(name, tenant)
        if path is None:
            raise JobUnknown(CodedText("no_such_upload"))
        return path

    async def submit(self, new: NewJob, upload: Upload) -> Submission:
        """Store a job and its rows durably, in groups that belong to no job until the last; IdempotencyConflict."""
        try:
            begun = await self._database.write(lambda sql: begin_submission(sql, new))
            if isinstance(begun, Job):
                submission = Submission(begun, is_new=False)
            else:
                submission = await self._finish(begun, new, upload)
        finally:
            await asyncio.to_thread(upload.path.unlink, missing_ok=True)
        self._on_change()
        return submission

    async def _finish(self, begun: Written, new: NewJob, upload: Upload) -> Submission:
        job_id = f"job_{secrets.token_hex(12)}"
        try:
            rows = await self._write_rows(begun, upload)
            return await self._database.write(lambda sql: finish_submission(sql, job_id, new, rows), is_durable=True)
        except BaseException:
            # Else it is done once nothing has been added to it for a while.
            abandon = partial(chunk_table.abandon_submission, number=begun.number)
            with suppress(StoreUnavailable):
                await asyncio.shield(self._database.write(abandon))
            raise

    async def get(self, tenant: str, job_id: str) -> Job:
        """Return one job. Raises JobUnknown."""
        return await self._read_job(tenant, job_id, job_table.read_job)

    async def jobs(self, tenant: str, *, before: str | None, limit: int, name: str | None = None) -> list[Job]:
        """Return the jobs older than `before`, newest first, or those of a `name`; raise JobUnknown."""
        return await self._database.read(lambda sql: job_table.newest_jobs(sql, tenant, before, limit, name))

    async def act(self, tenant: str, job_id: str, action: Action) -> Job:
        """Change the state; idempotent. Raises JobUnknown, JobStateConflict."""
        return await self._write_job(tenant, job_id, lambda sql, number: job_table.act_on(sql, number, action))

    async def retry(self, tenant: str, job_id: str, choice: RetryChoice) -> Job:
        """Queue failed or degraded rows again, which keep their results; raise JobUnknown, JobStateConflict."""
        return await self._write_job(tenant, job_id, lambda sql, number: job_table.retry_rows(sql, number, choice))

    async def delete(self, tenant: str, job_id: str) -> None:
        """Delete the job, its rows and results, in any state. Raises JobUnknown."""
        await self._write_job(tenant, job_id, job_table.delete_job)

    async def results(self, tenant: str, job_id: str, *, after: int, limit: int) -> list[ResultLine]:
        """Return lines of the rows behind row `after` (-1: from the first), in order, up to the first pending row."""
        found = await self.find_rows(tenant, job_id, after=after, limit=limit, where=RowFilter())
        return [line for line, row in takewhile(lambda pair: pair[0].row == pair[1], zip(found, count(after + 1)))]

    async def find_rows(
        self, tenant: str, job_id: str, *, after: int, limit: int, where: RowFilter
    ) -> list[ResultLine]:
        """Return lines of the finished rows behind row `after` that the filter wants, in order, pending ones passed."""
        return await self._read_job(
            tenant, job_id, lambda sql, number: chunk_table.find_lines(sql, number, after, limit, where)
        )

    async def read_rows(self, tenant: str, job_id: str, rows: Sequence[int]) -> list[ResultLine]:
        """Return the lines of these rows in order, without those that are not finished."""
        return await self._read_job(tenant, job_id, lambda sql, number: chunk_table.read_lines(sql, number, rows))

    async def record(self, tenant: str, job_id: str, row: int) -> Record | RecordProblem | None:
        """Return a row as it was submitted; None if the job has no such row. Raises InvalidInput: the rows are lost."""
        return next(iter(await self.records(tenant, job_id, {row})), None)

    async def records(self, tenant: str, job_id: str, rows: Set[int]) -> list[Record | RecordProblem]:
        """Return some rows as they were submitted, in order, reading all between them; InvalidInput: they are lost."""

        def find(sql: Transaction, number: int) -> list[bytes | None]:
            chunks = chunk_table.chunks_between(sql, number, min(rows), max(rows))
            return [chunk_table.read_chunk(sql, number, n) for n in chunks]

        found = await self._read_job(tenant, job_id, find)
        return [each for data in found for each in unpack(data) if each.row in rows]

    async def put_label(self, tenant: str, job_id: str, label: Label) -> None:
        """Store a label durably, in place of the person's label of this row. Raises JobUnknown."""
        await self._write_job(tenant, job_id, lambda sql, number: job_table.put_label(sql, number, label))

    async def drop_label(self, tenant: str, job_id: str, row: int, person: str) -> None:
        """Remove a person's label of a row, if there is one. Raises JobUnknown."""
        await self._write_job(tenant, job_id, lambda sql, number: job_table.drop_label(sql, number, row, person))

    async def labels(self, tenant: str, job_id: str, *, person: str | None = None) -> list[Label]:
        """Return the labels of a job in the order in which they were given; of one person, if named."""
        return await self._read_job(tenant, job_id, lambda sql, number: job_table.labels_of(sql, number, person))

    async def count_labels(self, tenant: str) -> dict[str, int]:
        """Return the number of labels of each labelled job of a tenant."""
        return await self._database.read(lambda sql: job_table.count_labels(sql, tenant))

    async def job_stats(self) -> JobStats:
        return await self._database.read(job_table.count_jobs) if self._database.backend.exists else NO_JOBS

    # --- for workers

    async def lease(self) -> Lease | None:
        """Lease a free chunk of the oldest job that has one, and set the job `running`; None if there is none."""
        if not self._database.backend.exists:
            return None
        return await self._database.write(lambda sql: chunk_table.lease_chunk(sql, self._lease_seconds))

    async def rows(self, lease: Lease) -> Sequence[PendingRow]:
        """Return the rows of the chunk that are to be scored, in order. Raises InvalidInput: they are lost."""
        found = await self._database.read(lambda sql: chunk_table.rows_left(sql, lease))
        if found is None:
            return []
        done, crashes, data = found
        return [PendingRow(row, crashes.get(row.row, 0)) for row in unpack(data) if row.row not in done]

    async def renew(self, lease: Lease) -> LeaseStatus:
        return await self._database.write(lambda sql: chunk_table.renew_lease(sql, lease, self._lease_seconds))

    async def begin(self, lease: Lease, rows: Sequence[int]) -> LeaseStatus:
        """Record that these rows are in flight; if the process ends before they are committed, each has one crash."""
        return await self._while_leased(
            lease, lambda sql, chunk: chunk_table.set_in_flight(sql, lease, chunk, chunk.under_way | set(rows))
        )

    async def commit(self, lease: Lease, rows: Sequence[ScoredRow], *, is_done: bool) -> LeaseStatus:
        """Store results atomically, the first of a row; `is_done`: the chunk has no other rows."""

        def commit(sql: Transaction, chunk: chunk_table.LeasedChunk) -> None:
            chunk_table.put_results(sql, lease, chunk, rows)
            if is_done:
                chunk_table.finish_chunk(sql, lease, chunk)

        return await self._while_leased(lease, commit, may_end_job=is_done)

    async def fail(self, lease: Lease, problem: str) -> LeaseStatus:
        """Fail the whole job; `problem`: one line with the reason."""
        return await self._while_leased(
            lease,
            lambda sql, chunk: job_table.enter_state(sql, chunk.number, JobState.FAILED, problem),
            may_end_job=True,
        )

    async def pause(self, lease: Lease, problem: str) -> LeaseStatus:
        """Pause the job; `problem`: one line with the reason. Idempotent for the chunks of a job."""

        def pause(sql: Transaction, chunk: chunk_table.LeasedChunk) -> None:
            if chunk.status is LeaseStatus.VALID:
                job_table.enter_state(sql, chunk.number, JobState.PAUSED, problem)

        status = await self._while_leased(lease, pause, may_end_job=True)
        return LeaseStatus.PAUSED if status is LeaseStatus.VALID else status

    async def release(self, lease: Lease) -> None:
        """Return the chunk unfinished, without counting a crash."""
        await self._database.write(lambda sql: chunk_table.release_chunk(sql, lease))

    async def tidy(self) -> bool:
        """Delete some of the rows of deleted jobs; return True if there are more."""
        return self._database.backend.exists and await self._database.write(chunk_table.sweep)

    # --- for every process

    async def rescue(self) -> None:
        """Free the chunks whose lease has ended, and remove old uploads; called about once a second."""
        try:
            if self._database.backend.exists:
                grace = _GRACE_SECONDS if time.monotonic() - self._away < _GRACE_SECONDS else 0.0
                await self._database.write(partial(chunk_table.take_back, grace_seconds=grace))
            # Behind the database, whose migration reads the uploads and files of rows of 0.2.
            await asyncio.to_thread(self._uploads.remove_orphans)
            if not self._database.backend.is_server:
                await asyncio.to_thread(shutil.rmtree, self._folder / "rows", ignore_errors=True)
        except StoreUnavailable as error:
            self._problem, self._away = str(error), time.monotonic()
            raise
        except OSError as error:
            self._problem = str(unavailable(error))
            raise unavailable(error) from error
        self._problem = None

    async def keep_rescuing(self) -> None:
        """Call `rescue` about once a second until cancelled."""
        while True:
            try:
                await self.rescue()
            except StoreUnavailable as error:
                structlog.get_logger().debug("rescue_waits_for_store", detail=str(error))
            except Exception as error:
                log_failure(error, "rescue_failed")
            await asyncio.sleep(_RESCUE_SECONDS)

    async def close(self) -> None:
        await self._database.close()

    async def _write_rows(self, begun: Written, upload: Upload) -> Written:
        written = begun
        path, form, columns, named = upload
        with closing(group_chunks(chunked_rows(path, form=form, columns=columns, named=named))) as groups:
            try:
                while group := await asyncio.to_thread(next, groups, None):
                    written = await self._database.write(partial(add_rows, before=written, group=group))
            except InvalidInput as error:
                return begun._replace(damage=error.detail)
        return written

    async def _read_job(self, tenant: str, job_id: str, work: Callable[[Transaction, int], T]) -> T:
        return await self._database.read(lambda sql: work(sql, job_table.number_of(sql, tenant, job_id)))

    async def _write_job(self, tenant: str, job_id: str, work: Callable[[Transaction, int], T]) -> T:
        def write(sql: Transaction) -> T:
            return work(sql, job_table.number_of(sql, tenant, job_id, is_locked=True))

        # An acknowledged change survives a power failure.
        answer = await self._database.write(write, is_durable=True)
        self._on_change()
        return answer

    async def _while_leased(
        self, lease: Lease, work: Callable[[Transaction, chunk_table.LeasedChunk], None], *, may_end_job: bool = False
    ) -> LeaseStatus:
        def write(sql: Transaction) -> LeaseStatus:
            chunk = chunk_table.check_lease(sql, lease, may_end_job=may_end_job)
            if chunk.status is not LeaseStatus.LOST:
                work(sql, chunk)
            return chunk.status

        return await self._database.write(write)
