"""What jobs tell of themselves: rows as they are kept, chunks as they are worked on, jobs and chunks by state."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from plumbline.judging.ports.observation import Observer
from plumbline.rows.jobs.chunk_run import Pace
from plumbline.rows.jobs.job import JobState, JobStats, Lease, LeaseStatus, PendingRow
from plumbline.rows.jobs.store import JobStore
from plumbline.rows.jobs.worker import Worker
from plumbline.rows.scored_row import ScoredRow
from tests.making.job_rows import Handler, ended, rows_of, submitted
from tests.running.job_stores import Stores


class Listening(Observer):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.statuses: list[str] = []
        self.put_aside = self.begun = self.ended = 0

    def rows_kept(self, statuses: Sequence[str]) -> None:
        self.statuses += statuses

    def row_quarantined(self) -> None:
        self.put_aside += 1

    def chunk_started(self) -> None:
        self.begun += 1

    def chunk_ended(self) -> None:
        self.ended += 1


class Suspecting(JobStore):
    """Says of row 1 that three processes ended while they scored it."""

    async def rows(self, lease: Lease) -> Sequence[PendingRow]:
        return [each._replace(crash_count=3 * (each.row.row == 1)) for each in await super().rows(lease)]


class Losing(JobStore):
    """Says with every commit that somebody else has the chunk."""

    async def commit(self, lease: Lease, rows: Sequence[ScoredRow], *, is_done: bool) -> LeaseStatus:
        await super().fail(lease, "lost")
        return LeaseStatus.LOST


async def worked_on(store: JobStore, listening: Listening) -> None:
    """One job of four rows, worked on to its end."""
    job = await submitted(store, rows_of(4, row2="failed", row3="empty_answer"))
    worker = Worker(store, Handler().of, Pace(poll_seconds=0.01), observer=listening)
    running = asyncio.create_task(worker.run())
    await ended(store, job.id)
    # The store shows the end of a job before the chunk that brought it has told of it
    for _ in range(1_000):
        if listening.ended == listening.begun:
            break
        await asyncio.sleep(0.005)
    await worker.stop(5.0)
    await running
    await store.close()


async def test_rows_are_told_as_they_are_kept_and_chunks_as_they_are_worked_on(tmp_path: Path) -> None:
    listening = Listening()

    await worked_on(JobStore.in_folder(tmp_path), listening)

    assert sorted(listening.statuses) == ["empty_answer", "failed", "judged", "judged"]
    assert (listening.begun, listening.ended, listening.put_aside) == (1, 1, 0)


async def test_a_row_that_is_put_aside_is_told_as_that_and_as_failed(tmp_path: Path) -> None:
    listening = Listening()

    await worked_on(Suspecting.in_folder(tmp_path), listening)

    assert listening.put_aside == 1
    assert sorted(listening.statuses) == ["empty_answer", "failed", "failed", "judged"]


async def test_rows_that_another_owner_has_are_not_told(tmp_path: Path) -> None:
    listening = Listening()

    await worked_on(Losing.in_folder(tmp_path), listening)

    assert listening.statuses == []
    assert listening.begun == listening.ended


async def test_every_store_counts_jobs_of_all_tenants_and_chunks_by_state(stores: Stores) -> None:
    store = stores.open()
    nothing = await store.job_stats()
    for tenant in ("one", "another"):
        await submitted(store, rows_of(2), tenant=tenant)
    waiting = await store.job_stats()
    lease = await store.lease()
    leased = await store.job_stats()
    assert lease is not None
    await store.act(lease.tenant, lease.job_id, "cancel")
    cancelled = await store.job_stats()
    await store.close()

    assert nothing == JobStats(dict.fromkeys(JobState, 0), 0, 0)
    assert waiting == JobStats({**nothing.jobs, JobState.QUEUED: 2}, 2, 0)
    assert (leased.chunks_waiting, leased.chunks_leased) == (1, 1)
    assert cancelled.jobs[JobState.CANCELLED] == 1


async def test_counting_makes_no_folder(tmp_path: Path) -> None:
    store = JobStore.in_folder(tmp_path / "jobs")

    census = await store.job_stats()
    await store.close()

    assert sum(census.jobs.values()) == 0
    assert not (tmp_path / "jobs").exists()
