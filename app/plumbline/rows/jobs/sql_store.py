"""Part of the job stores that is the same SQL on every database."""

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from plumbline.rows.jobs.chunk_table import ChunkTable, sweep
from plumbline.rows.jobs.job import Action, Held, Job, JobState, Lease, ResultLine, Select, StateChange
from plumbline.rows.jobs.job_table import JobTable, count_jobs
from plumbline.rows.jobs.sql import Database, Sql
from plumbline.rows.jobs.store import JobStats
from plumbline.rows.scored_row import ScoredRow

T = TypeVar("T")

SWEPT_AT_ONCE: Final = 2_000


class SqlJobStore:
    """Part of `JobStore` that SQLite and PostgreSQL share; methods without a docstring are documented there."""

    def __init__(self, database: Database, *, lease_seconds: float) -> None:
        self._database = database
        self._lease_seconds = lease_seconds
        self._on_change: Callable[[], None] = lambda: None

    def on_change(self, call: Callable[[], None]) -> None:
        """Register a callback, called in the event loop when this process has added work or changed a state."""
        self._on_change = call

    async def get(self, tenant: str, job_id: str) -> Job:
        return await self._read_job(tenant, job_id, lambda jobs, number: jobs.by_number(number))

    async def jobs(self, tenant: str, *, before: str | None, limit: int) -> list[Job]:
        return await self._database.read(lambda sql: JobTable(sql).newest(tenant, before, limit))

    async def act(self, tenant: str, job_id: str, action: Action) -> Job:
        return await self._write_job(tenant, job_id, lambda sql, number: JobTable(sql).act(number, action))

    async def retry(self, tenant: str, job_id: str, select: Select) -> Job:
        return await self._write_job(tenant, job_id, lambda sql, number: JobTable(sql).retry(number, select))

    async def results(self, tenant: str, job_id: str, *, after: int, limit: int) -> list[ResultLine]:
        return await self._database.read(
            lambda sql: ChunkTable(sql).lines(JobTable(sql).number(tenant, job_id), after, limit)
        )

    async def changes(self, tenant: str, job_id: str, *, after: int) -> list[StateChange]:
        return await self._read_job(tenant, job_id, lambda jobs, number: jobs.changes(number, after))

    async def job_stats(self) -> JobStats:
        return await self._database.read(count_jobs)

    async def renew(self, lease: Lease) -> Held:
        return await self._database.write(lambda sql: ChunkTable(sql).renew(lease, self._lease_seconds))

    async def begin(self, lease: Lease, rows: Sequence[int]) -> Held:
        return await self._while_held(lease, lambda chunks: chunks.begin(lease, rows))

    async def commit(self, lease: Lease, rows: Sequence[ScoredRow], *, is_done: bool) -> Held:
        def commit(chunks: ChunkTable) -> None:
            chunks.put(lease, rows)
            if is_done:
                chunks.finish(lease)

        return await self._while_held(lease, commit, is_last=is_done)

    async def fail(self, lease: Lease, problem: str) -> Held:
        return await self._while_held(lease, lambda chunks: chunks.enter(lease, JobState.FAILED, problem), is_last=True)

    async def pause(self, lease: Lease, problem: str) -> Held:
        def write(sql: Sql) -> Held:
            chunks = ChunkTable(sql)
            held = chunks.hold(lease, is_last=True)
            if held is Held.YES:
                chunks.enter(lease, JobState.PAUSED, problem)
                return Held.PAUSED
            return held

        return await self._database.write(write)

    async def release(self, lease: Lease) -> None:
        await self._database.write(lambda sql: ChunkTable(sql).release(lease))

    async def tidy(self) -> bool:
        return await self._database.write(lambda sql: sweep(sql, SWEPT_AT_ONCE))

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
