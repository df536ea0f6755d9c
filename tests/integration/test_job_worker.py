"""The worker: rows scored at most once at a time, in groups, through pauses, deaths, and failures of the store."""

import asyncio
import itertools
from collections.abc import Sequence
from pathlib import Path

from structlog.testing import capture_logs

from plumbline.ground.errors import InvalidInput, StoreUnavailable
from plumbline.rows.jobs.chunk_run import OutageLog, Pace
from plumbline.rows.jobs.job import JobState, Lease, LeaseStatus
from plumbline.rows.jobs.store import JobStore
from plumbline.rows.jobs.worker import Worker
from plumbline.rows.records.record import Record, RecordProblem
from plumbline.rows.scored_row import ScoredRow
from tests.making.job_rows import TENANT, Handler, ended, lines_of, rows_of, submitted, until, working
from tests.running.job_stores import Stores

ROWS = 250


async def test_every_row_is_scored_once_and_in_order(store: JobStore) -> None:
    job = await submitted(store, rows_of(ROWS))
    handler = Handler()
    async with working(store, handler, concurrency=16):
        done = await ended(store, job.id)

    assert sorted(handler.calls) == list(range(ROWS))
    assert [line["row"] for line in await lines_of(store, job.id)] == list(range(ROWS))
    assert (done.state, done.total, done.counts.done) == (JobState.COMPLETED, ROWS, ROWS)
    assert done.counts.usage.calls == ROWS


async def test_no_more_rows_are_under_way_than_allowed_over_all_chunks(store: JobStore) -> None:
    job = await submitted(store, rows_of(ROWS))
    handler = Handler()
    handler.gate.clear()
    async with working(store, handler, concurrency=7, chunks=3):
        await until(lambda: handler.under_way >= 7)
        handler.gate.set()
        await ended(store, job.id)

    assert handler.most == 7


async def test_a_paused_job_finishes_what_is_under_way_and_begins_nothing(store: JobStore) -> None:
    job = await submitted(store, rows_of(ROWS))
    handler = Handler()
    handler.gate.clear()
    async with working(store, handler, concurrency=5) as worker:
        await until(lambda: handler.under_way >= 5)
        await store.act(TENANT, job.id, "pause")
        worker.wake()
        await until(lambda: all(run.status is LeaseStatus.PAUSED for run in worker._runs.values()))
        handler.gate.set()
        await until(lambda: not worker._runs)
        paused = await store.get(TENANT, job.id)
        begun = len(handler.calls)
        await store.act(TENANT, job.id, "resume")
        worker.wake()
        done = await ended(store, job.id)

    assert paused.state is JobState.PAUSED
    assert paused.counts.done == begun < ROWS
    assert done.counts.done == len(handler.calls) == ROWS


async def test_a_cancelled_job_stops_what_is_under_way(store: JobStore) -> None:
    job = await submitted(store, rows_of(ROWS))
    handler = Handler()
    handler.gate.clear()
    async with working(store, handler, concurrency=5) as worker:
        await until(lambda: handler.under_way >= 5)
        await store.act(TENANT, job.id, "cancel")
        worker.wake()
        await until(lambda: not handler.under_way)
        handler.gate.set()

    assert (await store.get(TENANT, job.id)).state is JobState.CANCELLED
    assert await lines_of(store, job.id) == []


async def test_a_worker_that_is_stopped_gives_its_chunks_back_without_blame(store: JobStore) -> None:
    job = await submitted(store, rows_of(ROWS))
    handler = Handler()
    handler.gate.clear()
    worker = Worker(store, handler.of, Pace(concurrency=5, poll_seconds=0.01))
    running = asyncio.create_task(worker.run())
    await until(lambda: handler.under_way >= 5)
    await worker.stop(0.0)
    await running

    lease = await store.lease()
    assert lease is not None
    assert lease.owner_crashes == 0
    await store.release(lease)
    handler.gate.set()
    async with working(store, handler):
        assert (await ended(store, job.id)).counts.done == ROWS


class Deadly(Handler):
    """Stands for a row that ends its process: the worker that begins it is told never to hear of it again."""

    def __init__(self, row: int) -> None:
        super().__init__()
        self.row = row
        self.died = asyncio.Event()

    async def score(self, row: Record | RecordProblem) -> ScoredRow:
        if row.row == self.row:
            self.died.set()
            await asyncio.Event().wait()
        return await super().score(row)


async def test_a_row_that_ends_its_worker_three_times_is_put_aside(stores: Stores) -> None:
    deadly = Deadly(42)
    job_id = ""
    for _ in range(3):
        store = stores.open()
        await stores.aged(store, 11)
        job_id = job_id or (await submitted(store, rows_of(100))).id
        deadly.died.clear()
        worker = Worker(store, deadly.of, Pace(poll_seconds=0.01))
        running = asyncio.create_task(worker.run())
        await deadly.died.wait()
        # what a kill does: nothing is given back
        worker._runs.clear()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await store.close()
    store = stores.open()
    await stores.aged(store, 11)
    deadly.died.clear()
    async with working(store, deadly):
        done = await ended(store, job_id)
    lines = await lines_of(store, job_id)
    await store.close()

    assert not deadly.died.is_set()
    assert done.state is JobState.COMPLETED_WITH_ERRORS
    assert lines[42]["text"] == "crashed after 3"
    assert [line["row"] for line in lines if line["status"] != "judged"] == [42]


async def test_options_that_cannot_be_followed_any_more_fail_the_job(store: JobStore) -> None:
    def refuse(_: Lease) -> Handler:
        raise InvalidInput("no judge is named 'second'", place="/options/judges")

    job = await submitted(store, rows_of(3))
    worker = Worker(store, refuse, Pace(poll_seconds=0.01))
    running = asyncio.create_task(worker.run())
    failed = await ended(store, job.id)
    await worker.stop(1.0)
    await running

    assert failed.state is JobState.FAILED
    assert failed.problem == "/options/judges: no judge is named 'second'"


class Failing(JobStore):
    """A store whose disk is full for a while."""

    failures = 0

    async def commit(self, lease: Lease, rows: Sequence[ScoredRow], *, is_done: bool) -> LeaseStatus:
        if self.failures:
            self.failures -= 1
            raise StoreUnavailable("the disk of the data folder is full")
        return await super().commit(lease, rows, is_done=is_done)


class Away(JobStore):
    """A store that is away, for a reason that changes now and then."""

    tries = 0
    reason = "no such folder"

    async def lease(self) -> Lease | None:
        self.tries += 1
        raise StoreUnavailable(self.reason)


async def test_a_store_that_is_away_is_logged_when_its_reason_changes_and_not_at_each_look(tmp_path: Path) -> None:
    store = Away.in_folder(tmp_path / "jobs")

    with capture_logs() as logs:
        async with working(store, Handler()):
            await until(lambda: store.tries >= 5)
            store.reason = "not a folder"
            await until(lambda: store.tries >= 10)
    await store.close()

    told = [each["detail"] for each in logs if each["event"] == "jobs_wait_for_store"]
    assert told == ["no such folder", "not a folder"]


def test_an_outage_is_logged_once_a_minute_and_again_after_its_end() -> None:
    outage = OutageLog()

    with capture_logs() as logs:
        for now in (0.0, 30.0, 59.9, 60.0, 61.0):
            outage.note(StoreUnavailable("away"), now=now)
        lasting = len(logs)
        outage.end()
        outage.note(StoreUnavailable("away"), now=62.0)

    assert (lasting, len(logs)) == (2, 3)


async def test_results_wait_for_a_store_that_cannot_keep_them(tmp_path: Path) -> None:
    store = Failing.in_folder(tmp_path / "jobs")
    store.failures = 2
    job = await submitted(store, rows_of(ROWS))
    handler = Handler()
    async with working(store, handler):
        done = await ended(store, job.id)
    await store.close()

    assert done.counts.done == ROWS
    # paid for once
    assert sorted(handler.calls) == list(range(ROWS))


async def test_two_workers_share_a_job_and_no_row_is_scored_twice(stores: Stores) -> None:
    shared = [stores.open() for _ in range(2)]
    job = await submitted(shared[0], rows_of(2 * ROWS))
    handlers = [Handler(), Handler()]
    for handler in handlers:
        handler.gate.clear()
    async with working(shared[0], handlers[0]), working(shared[1], handlers[1]):
        await until(lambda: all(handler.under_way for handler in handlers))
        for handler in handlers:
            handler.gate.set()
        done = await ended(shared[0], job.id)
    for store in shared:
        await store.close()

    assert done.counts.done == 2 * ROWS
    assert sorted(handlers[0].calls + handlers[1].calls) == list(range(2 * ROWS))
    assert all(handler.calls for handler in handlers)


async def test_a_clock_that_jumps_loses_no_row_and_fails_none(tmp_path: Path) -> None:
    """Hours and years, both ways, at every reading: leases are of this clock, deadlines of rows are not."""
    jumps = itertools.cycle((0.0, 3_600.0, -3_600.0, 3 * 86_400.0, -5 * 365 * 86_400.0))
    store = JobStore.in_folder(tmp_path / "jobs", clock=lambda: 1_700_000_000.0 + next(jumps))
    job = await submitted(store, rows_of(ROWS))
    handler = Handler()
    async with working(store, handler, concurrency=16):
        done = await ended(store, job.id)
    lines = await lines_of(store, job.id)
    await store.close()

    assert (done.state, done.problem) == (JobState.COMPLETED, None)
    assert [line["row"] for line in lines] == list(range(ROWS))
    assert sorted(handler.calls) == list(range(ROWS))
