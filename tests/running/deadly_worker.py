"""A worker in a process of its own, which the rows that say so take down with them."""

import asyncio
import os
import signal
from pathlib import Path

from plumbline.rows.jobs.chunk_run import Pace
from plumbline.rows.jobs.store import JobStore
from plumbline.rows.jobs.worker import Worker
from plumbline.rows.records.record import Record, RecordProblem
from plumbline.rows.scored_row import ScoredRow
from tests.making.job_rows import TENANT, Handler

DEADLY = "deadly"


class _Deadly(Handler):
    async def score(self, row: Record | RecordProblem) -> ScoredRow:
        if isinstance(row, Record) and row.sample.answer == DEADLY:
            os.kill(os.getpid(), signal.SIGKILL)
        # so that there are others under way when it does
        await asyncio.sleep(0.001)
        return await super().score(row)


def work_until_all_have_ended(folder: Path) -> int:
    """Work on the jobs of a folder; return the exit code."""
    asyncio.run(_work(folder))
    return 0


async def _work(folder: Path) -> None:
    store = JobStore.in_folder(folder, lease_seconds=0.5)
    worker = Worker(store, _Deadly().of, Pace(poll_seconds=0.01, group_seconds=0.01, renew_seconds=0.05))
    tasks = [asyncio.create_task(each) for each in (worker.run(), store.keep_rescuing())]
    while not all(job.state.is_ended for job in await store.jobs(TENANT, before=None, limit=100)):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    await worker.stop(1.0)
    tasks[1].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await store.close()
