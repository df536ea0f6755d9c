"""What stores of jobs do alike, whichever database keeps them."""

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from plumbline.rows.jobs.census import JobCensus, take_census
from plumbline.rows.jobs.chunk_table import ChunkTable, sweep
from plumbline.rows.jobs.job import Action, Held, Job, Lease, ResultLine, Select, StateChange
from plumbline.rows.jobs.job_table import JobTable
from plumbline.rows.jobs.sql import Database, Sql
from plumbline.rows.scored_row import ScoredRow

T = TypeVar("T")

_SWEPT_AT_ONCE: Final = 2_000


class SqlJobStore:
    """The part of `JobStore` that is the same SQL everywhere.

    Args:
        lease_seconds: an owner that does not renew for so long has lost its chunk.
    """

    def __init__(self, database: Database, *, lease_seconds: float) -> None:
        self._database = database
        self._lease_seconds = lease_seconds
        self._on_change: Callable[[], None] = lambda: None

    def on_change(self, call: Callable[[], None]) -> None:
        """Have this called, in the event loop, when this process has brought work or changed a state."""
        self._on_change = call

    async def get(self, tenant: str, job_id: str) -> Job:
        """As `JobStore.get`."""
        return await self._read_job(tenant, job_id, lambda jobs, number: jobs.by_number(number))

    async def jobs(self, tenant: str, *, before: str | None, limit: int) -> list[Job]:
        """As `JobStore.jobs`."""
        return await self._database.read(lambda sql: JobTable(sql).newest(tenant, before, limit))

    async def act(self, tenant: str, job_id: str, action: Action) -> Job:
        """As `JobStore.act`."""
        return await self._write_job(tenant, job_id, lambda sql, number: JobTable(sql).act(number, action))

    async def retry(self, tenant: str, job_id: str, select: Select) -> Job:
        """As `JobStore.retry`."""
        return await self._write_job(tenant, job_id, lambda sql, number: JobTable(sql).retry(number, select))

    async def results(self, tenant: str, job_id: str, *, after: int, limit: int) -> list[ResultLine]:
        """As `JobStore.results`."""
        return await self._database.read(
            lambda sql: ChunkTable(sql).lines(JobTable(sql).number(tenant, job_id), after, limit)
        )

    async def changes(self, tenant: str, job_id: str, *, after: int) -> list[StateChange]:
        """As `JobStore.changes`."""
        return await self._read_job(tenant, job_id, lambda jobs, number: jobs.changes(number, after))

    async def census(self) -> JobCensus:
        """How many jobs and chunks there are in each state."""
        return await self._database.read(take_census)

    async def renew(self, lease: Lease) -> Held:
        """As `JobStore.renew`."""
        return await self._database.write(lambda sql: ChunkTable(sql).renew(lease, self._lease_seconds))

    async def begin(self, lease: Lease, rows: Sequence[int]) -> Held:
        """As `JobStore.begin`."""
        return await self._while_held(lease, lambda chunks: chunks.begin(lease, rows))

    async def commit(self, lease: Lease, rows: Sequence[ScoredRow], *, is_done: bool) -> Held:
        """As `JobStore.commit`."""

        def commit(chunks: ChunkTable) -> None:
            chunks.put(lease, rows)
            if is_done:
                chunks.finish(lease)

        return await self._while_held(lease, commit, is_last=is_done)

    async def fail(self, lease: Lease, problem: str) -> Held:
        """As `JobStore.fail`."""
        return await self._while_held(lease, lambda chunks: chunks.fail(lease, problem), is_last=True)

    async def pause(self, lease: Lease, problem: str) -> Held:
        """As `JobStore.pause`."""

        def write(sql: Sql) -> Held:
            chunks = ChunkTable(sql)
            held = chunks.hold(lease, is_last=True)
            if held is Held.YES:
                chunks.pause(lease, problem)
                return Held.PAUSED
            return held

        return await self._database.write(write)

    async def release(self, lease: Lease) -> None:
        """As `JobStore.release`."""
        await self._database.write(lambda sql: ChunkTable(sql).release(lease))

    async def tidy(self) -> bool:
        """As `JobStore.tidy`."""
        return await self._database.write(lambda sql: sweep(sql, _SWEPT_AT_ONCE))

    async def _read_job(self, tenant: str, job_id: str, work: Callable[[JobTable, int], T]) -> T:
        def read(sql: Sql) -> T:
            jobs = JobTable(sql)
            return work(jobs, jobs.number(tenant, job_id))

        return await self._database.read(read)

    async def _write_job(self, tenant: str, job_id: str, work: Callable[[Sql, int], T]) -> T:
        # What a caller was told stays so, whatever happens to the machine.
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
