"""Stores of jobs, as far as they are the same SQL: the source of truth, whatever delivers the work."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from plumbline.judging.ports.observation import Readiness
from plumbline.rows.jobs.chunk_table import ChunkTable, LeftRows, sweep
from plumbline.rows.jobs.job import (
    Action,
    Held,
    Job,
    JobState,
    JobStats,
    Lease,
    NewJob,
    PendingRow,
    ResultLine,
    RowFilter,
    Select,
    StateChange,
)
from plumbline.rows.jobs.job_table import JobTable, count_jobs
from plumbline.rows.jobs.labels import Label, LabelTable
from plumbline.rows.jobs.row_file import decode_rows
from plumbline.rows.jobs.sql import Database, Sql
from plumbline.rows.records.record import Record, RecordProblem
from plumbline.rows.scored_row import ScoredRow

T = TypeVar("T")

SWEPT_AT_ONCE: Final = 2_000


class Upload(NamedTuple):
    """Uploaded rows in a file that the store takes over; `form` and `columns` as of `RecordReader`."""

    path: Path
    form: str
    columns: str | None = None


class Submission(NamedTuple):
    """An accepted job; `is_new` is False if it was submitted before under the same idempotency key."""

    job: Job
    is_new: bool


class JobStore(ABC):
    """Jobs, their rows, results and leases. Every method may raise StoreUnavailable, and then has changed nothing.

    A job of another tenant is treated as one that does not exist.
    """

    def __init__(self, database: Database, *, lease_seconds: float) -> None:
        self._database = database
        self._lease_seconds = lease_seconds
        self._on_change: Callable[[], None] = lambda: None

    def on_change(self, call: Callable[[], None]) -> None:
        """Register a callback, called in the event loop when this process has added work or changed a state."""
        self._on_change = call

    @abstractmethod
    def readiness(self) -> Readiness:
        """Return the current state, at no cost."""

    # --- for callers of the API

    @abstractmethod
    def new_upload(self) -> Path:
        """Return a path for an upload; one that no job takes is removed once this process has ended."""

    @abstractmethod
    async def submit(self, new: NewJob, upload: Upload) -> Submission:
        """Store a job durably. Raises IdempotencyConflict: the key was used for another request."""

    async def get(self, tenant: str, job_id: str) -> Job:
        """Return one job. Raises JobUnknown."""
        return await self._read_job(tenant, job_id, lambda jobs, number: jobs.by_number(number))

    async def jobs(self, tenant: str, *, before: str | None, limit: int, name: str | None = None) -> list[Job]:
        """Return the jobs older than job `before`, newest first; only those of a `name`, if given.

        Raises JobUnknown for an unknown `before`.
        """
        return await self._database.read(lambda sql: JobTable(sql).newest(tenant, before, limit, name))

    async def act(self, tenant: str, job_id: str, action: Action) -> Job:
        """Change the state; idempotent. Raises JobUnknown, JobStateConflict."""
        return await self._write_job(tenant, job_id, lambda sql, number: JobTable(sql).act(number, action))

    async def retry(self, tenant: str, job_id: str, select: Select) -> Job:
        """Queue the rows again that failed (internal errors, not judged) or were degraded.

        A row keeps its result until it has a new one. Raises JobUnknown, JobStateConflict.
        """
        return await self._write_job(tenant, job_id, lambda sql, number: JobTable(sql).retry(number, select))

    @abstractmethod
    async def delete(self, tenant: str, job_id: str) -> None:
        """Delete the job, its rows and results, in any state. Raises JobUnknown."""

    async def results(self, tenant: str, job_id: str, *, after: int, limit: int) -> list[ResultLine]:
        """Return lines of the rows behind row `after` (-1: from the first), in order, up to the first pending row."""
        return await self._database.read(
            lambda sql: ChunkTable(sql).lines(JobTable(sql).number(tenant, job_id), after, limit)
        )

    async def find_rows(
        self, tenant: str, job_id: str, *, after: int, limit: int, where: RowFilter
    ) -> list[ResultLine]:
        """Return lines of the finished rows behind row `after` that the filter wants, in order, pending ones passed."""
        return await self._database.read(
            lambda sql: ChunkTable(sql).find(JobTable(sql).number(tenant, job_id), after, limit, where)
        )

    async def read_rows(self, tenant: str, job_id: str, rows: Sequence[int]) -> list[ResultLine]:
        """Return the lines of these rows in order, without those that are not finished."""
        return await self._database.read(lambda sql: ChunkTable(sql).read(JobTable(sql).number(tenant, job_id), rows))

    async def record(self, tenant: str, job_id: str, row: int) -> Record | RecordProblem | None:
        """Return a row as it was submitted; None if the job has no such row. Raises InvalidInput: the rows are lost."""

        def find(sql: Sql) -> Any:
            number = JobTable(sql).number(tenant, job_id)
            n = ChunkTable(sql).holding(number, row)
            return None if n is None else self._chunk_place(sql, number, n)

        place = await self._database.read(find)
        rows = () if place is None else decode_rows(await self._chunk_data(place))
        return next((each for each in rows if each.row == row), None)

    async def put_label(self, tenant: str, job_id: str, label: Label) -> None:
        """Store a label durably, in place of the person's label of this row. Raises JobUnknown."""
        await self._write_job(tenant, job_id, lambda sql, number: LabelTable(sql).put(number, label))

    async def drop_label(self, tenant: str, job_id: str, row: int, person: str) -> None:
        """Remove a person's label of a row, if there is one. Raises JobUnknown."""
        await self._write_job(tenant, job_id, lambda sql, number: LabelTable(sql).drop(number, row, person))

    async def labels(self, tenant: str, job_id: str, *, person: str | None = None) -> list[Label]:
        """Return the labels of a job in the order in which they were given; of one person, if named."""
        return await self._database.read(lambda sql: LabelTable(sql).all(JobTable(sql).number(tenant, job_id), person))

    async def changes(self, tenant: str, job_id: str, *, after: int) -> list[StateChange]:
        """Return the changes of state behind the one with this `seq`."""
        return await self._read_job(tenant, job_id, lambda jobs, number: jobs.changes(number, after))

    async def job_stats(self) -> JobStats:
        """Return the counts of all tenants' jobs and chunks now."""
        return await self._database.read(count_jobs)

    # --- for workers

    @abstractmethod
    def owner(self) -> str:
        """Return the name under which this process leases chunks; its leases end with the process at the latest."""

    @abstractmethod
    async def lease(self, owner: str) -> Lease | None:
        """Lease a free chunk of the oldest job that has one, and set the job `running`; None if there is none."""

    @abstractmethod
    async def validate(self, lease: Lease) -> Held:
        """Read the upload and split it into chunks, for a lease of chunk -1; queue the job, or fail it."""

    async def rows(self, lease: Lease) -> Sequence[PendingRow]:
        """Return the rows of the chunk that are to be scored, in order. Raises InvalidInput: they are lost."""

        def find(sql: Sql) -> tuple[LeftRows, Any] | None:
            left = ChunkTable(sql).left(lease)
            return None if left is None else (left, self._chunk_place(sql, left.number, lease.chunk))

        found = await self._database.read(find)
        if found is None:
            return []
        left, place = found
        return left.pending(decode_rows(await self._chunk_data(place)))

    @abstractmethod
    def _chunk_place(self, sql: Sql, number: int, n: int) -> Any:
        """Return where the rows of a chunk are, as `_chunk_data` takes it."""

    @abstractmethod
    async def _chunk_data(self, place: Any) -> bytes:
        """Return the encoded rows of a chunk. Raises InvalidInput: they are lost."""

    async def renew(self, lease: Lease) -> Held:
        """Extend the lease."""
        return await self._database.write(lambda sql: ChunkTable(sql).renew(lease, self._lease_seconds))

    async def begin(self, lease: Lease, rows: Sequence[int]) -> Held:
        """Record that these rows are in flight; if the process ends before they are committed, each has one crash."""
        return await self._while_held(lease, lambda chunks: chunks.begin(lease, rows))

    async def commit(self, lease: Lease, rows: Sequence[ScoredRow], *, is_done: bool) -> Held:
        """Store results atomically; a row that has one already keeps it. `is_done`: the chunk has no other rows.

        The last chunk of a job completes it.
        """

        def commit(chunks: ChunkTable) -> None:
            chunks.put(lease, rows)
            if is_done:
                chunks.finish(lease)

        return await self._while_held(lease, commit, is_last=is_done)

    async def fail(self, lease: Lease, problem: str) -> Held:
        """Fail the whole job; `problem`: one line with the reason."""
        return await self._while_held(lease, lambda chunks: chunks.enter(lease, JobState.FAILED, problem), is_last=True)

    async def pause(self, lease: Lease, problem: str) -> Held:
        """Pause the job; `problem`: one line with the reason. Idempotent for the chunks of a job."""

        def write(sql: Sql) -> Held:
            chunks = ChunkTable(sql)
            held = chunks.hold(lease, is_last=True)
            if held is Held.YES:
                chunks.enter(lease, JobState.PAUSED, problem)
                return Held.PAUSED
            return held

        return await self._database.write(write)

    async def release(self, lease: Lease) -> None:
        """Return the chunk unfinished, without counting a crash."""
        await self._database.write(lambda sql: ChunkTable(sql).release(lease))

    async def tidy(self) -> bool:
        """Delete some of the rows of deleted jobs; return True if there are more."""
        return await self._database.write(lambda sql: sweep(sql, SWEPT_AT_ONCE))

    @abstractmethod
    async def close(self) -> None:
        """Close files and connections."""

    async def _read_job(self, tenant: str, job_id: str, work: Callable[[JobTable, int], T]) -> T:
        def read(sql: Sql) -> T:
            jobs = JobTable(sql)
            return work(jobs, jobs.number(tenant, job_id))

        return await self._database.read(read)

    async def _write_job(self, tenant: str, job_id: str, work: Callable[[Sql, int], T]) -> T:
        # An acknowledged change survives a power failure.
        answer = await self._database.write(
            lambda sql: work(sql, JobTable(sql).number(tenant, job_id, lock=sql.for_update)), is_durable=True
        )
        self._on_change()
        return answer

    async def _while_held(self, lease: Lease, work: Callable[[ChunkTable], None], *, is_last: bool = False) -> Held:
        def write(sql: Sql) -> Held:
            chunks = ChunkTable(sql)
            held = chunks.hold(lease, is_last=is_last)
            if held is not Held.LOST:
                work(chunks)
            return held

        return await self._database.write(write)
