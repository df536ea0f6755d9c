"""Jobs of a key that may not go on: they pause and say why, lose nothing, and go on when they are resumed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from plumbline.rows.jobs.chunk_run import Pace
from plumbline.rows.jobs.job import JobState, LeaseStatus
from plumbline.rows.jobs.store import JobStore
from plumbline.rows.jobs.worker import Worker
from tests.making.job_rows import TENANT, Handler, ended, rows_of, submitted, until
from tests.running.job_stores import Stores

ROWS = 250
CONCURRENCY = 5
WHY = "the key has used 100 of its 100 tokens a day"


class Budget:
    """Enough for so many rows of one tenant."""

    def __init__(self, handler: Handler, rows: int) -> None:
        self._handler = handler
        self.rows = rows

    def hindrance(self, tenant: str) -> str | None:
        return WHY if tenant == TENANT and len(self._handler.calls) >= self.rows else None


@asynccontextmanager
async def working(store: JobStore, handler: Handler, budget: Budget) -> AsyncIterator[Worker]:
    pace = Pace(concurrency=CONCURRENCY, poll_seconds=0.01, renew_seconds=0.01, group_seconds=0.01)
    worker = Worker(store, handler.of, pace, pause_reason=budget.hindrance)
    running = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        await worker.stop(5.0)
        await running


async def test_a_job_pauses_where_the_budget_ends_and_goes_on_when_resumed(store: JobStore) -> None:
    handler = Handler()
    budget = Budget(handler, rows=60)
    job = await submitted(store, rows_of(ROWS))
    async with working(store, handler, budget) as worker:
        paused = await ended(store, job.id, state="paused")
        await until(lambda: not worker._runs)
        settled = await store.get(TENANT, job.id)
        # what was under way was paid for and is kept; what was not begun has no error
        assert 60 <= settled.counts.done <= 60 + CONCURRENCY
        assert settled.counts.done == len(handler.calls)

        await store.act(TENANT, job.id, "resume")
        worker.wake()
        again = await ended(store, job.id, state="paused")
        await until(lambda: not worker._runs)
        assert len(handler.calls) == settled.counts.done

        budget.rows = ROWS
        await store.act(TENANT, job.id, "resume")
        worker.wake()
        done = await ended(store, job.id)

    assert paused.problem == again.problem == WHY
    assert (done.state, done.problem, done.counts.done) == (JobState.COMPLETED, None, ROWS)
    assert sorted(handler.calls) == list(range(ROWS))


async def test_jobs_of_others_go_on(store: JobStore) -> None:
    handler = Handler()
    await submitted(store, rows_of(3))
    other = await submitted(store, rows_of(3), tenant="tenant-2")
    async with working(store, handler, Budget(handler, rows=0)):
        while not (await store.get("tenant-2", other.id)).state.is_ended:  # noqa: ASYNC110
            await asyncio.sleep(0.005)

    assert len(handler.calls) == 3


async def test_pausing_twice_is_one_pause_and_an_ended_job_stays_ended(stores: Stores) -> None:
    store = stores.open()
    job = await submitted(store, rows_of(3))
    lease = await store.lease()
    assert lease is not None

    held = [await store.pause(lease, WHY), await store.pause(lease, "for another reason")]
    paused = await store.get(TENANT, job.id)
    await store.act(TENANT, job.id, "cancel")
    late = await store.pause(lease, WHY)

    assert held == [LeaseStatus.PAUSED, LeaseStatus.PAUSED]
    assert (paused.state, paused.problem) == (JobState.PAUSED, WHY)
    assert late is LeaseStatus.LOST
    assert (await store.get(TENANT, job.id)).state is JobState.CANCELLED
    await store.close()
