"""Worker of jobs: lease chunks, score their rows, commit results in groups, retry while the store is unavailable.

A process may be killed at any moment: committed results stay, and another owner takes over the rest.
"""

import asyncio
import contextlib
import time
from functools import partial
from typing import TYPE_CHECKING

import structlog

from plumbline.ground.concurrency import end_tasks
from plumbline.ground.errors import PlumblineError, StoreUnavailable
from plumbline.ground.telemetry import log_failure
from plumbline.judging.ports.observation import NULL_OBSERVER, Observer
from plumbline.rows.jobs.chunk_run import (
    ChunkRun,
    HandlerOf,
    OutageLog,
    Pace,
    PauseReason,
    Slots,
    never_pause,
    retry_while_unavailable,
)
from plumbline.rows.jobs.job import LeaseStatus

if TYPE_CHECKING:
    from plumbline.rows.jobs.store import JobStore

_LOG = structlog.get_logger()


class Worker:
    """Worker on the chunks that the store leases, from `run` until `stop`; jobs with a `pause_reason` are paused."""

    def __init__(
        self,
        store: "JobStore",
        handler_of: HandlerOf,
        pace: Pace | None = None,
        *,
        pause_reason: PauseReason = never_pause,
        observer: Observer = NULL_OBSERVER,
    ) -> None:
        self._store = store
        self._handler_of = handler_of
        self._pause_reason = pause_reason
        self._pace = pace or Pace()
        self._slots = Slots(self._pace.concurrency)
        self._observer = observer
        self._woken = asyncio.Event()
        self._runs: dict[asyncio.Task[None], ChunkRun] = {}
        self._is_stopping = False
        self._outage = OutageLog()

    def wake(self) -> None:
        """Look for work now, and check the leases of the chunks in flight."""
        self._woken.set()
        for run in self._runs.values():
            run.wake()

    async def run(self) -> None:
        """Work until `stop`; cancel it to end at once, leaving chunks in flight to the next owner."""
        try:
            while not self._is_stopping:
                self._woken.clear()
                try:
                    is_busy = await self._begin_one() or await self._tidy()
                except Exception as error:
                    log_failure(error, "worker_failed")
                    is_busy = False
                if not is_busy:
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._woken.wait(), self._pace.poll_seconds)
        finally:
            await self._end_runs()

    async def stop(self, seconds: float) -> None:
        """Shut down gracefully: start nothing new, give rows in flight `seconds`, then release all chunks."""
        self._is_stopping = True
        self._woken.set()
        for run in self._runs.values():
            run.stop()
        if self._runs:
            await asyncio.wait(self._runs, timeout=seconds)
        await self._end_runs()

    async def _begin_one(self) -> bool:
        if len(self._runs) >= self._pace.chunks:
            return False
        try:
            lease = await self._store.lease()
        except StoreUnavailable as error:
            self._outage.note(error, now=time.monotonic())
            return False
        self._outage.end()
        if lease is None:
            return False
        run = ChunkRun(
            self._store, lease, self._pace, self._slots, pause_reason=self._pause_reason, observer=self._observer
        )
        self._observer.chunk_started()
        task = asyncio.create_task(self._work(run))
        self._runs[task] = run
        task.add_done_callback(self._forget_run)
        return True

    async def _work(self, run: ChunkRun) -> None:
        # In every log line of its rows; the task is this chunk's alone.
        structlog.contextvars.bind_contextvars(job=run.lease.job_id)
        renewing = asyncio.create_task(run.keep_renewing())
        try:
            try:
                handler = self._handler_of(run.lease)
            except PlumblineError as error:
                await retry_while_unavailable(partial(self._store.fail, run.lease, str(error)))
            else:
                await run.work(handler)
        except StoreUnavailable as error:
            # The lease expires, and another owner does it again.
            _LOG.warning("chunk_left", detail=str(error))
        except Exception as error:
            # A bug of ours. The lease expires and counts as a crash: the row at fault is found and quarantined.
            log_failure(error, "chunk_failed", chunk=run.lease.chunk)
        finally:
            await end_tasks([renewing])

    def _forget_run(self, task: "asyncio.Task[None]") -> None:
        del self._runs[task]
        self._observer.chunk_ended()
        self._woken.set()

    async def _tidy(self) -> bool:
        """Return True if something was cleaned up; only while no chunk is in flight."""
        if self._runs:
            return False
        try:
            return await self._store.tidy()
        except StoreUnavailable:
            return False

    async def _end_runs(self) -> None:
        runs = dict(self._runs)
        await end_tasks(runs)
        for run in runs.values():
            if run.status is not LeaseStatus.LOST:
                with contextlib.suppress(StoreUnavailable):
                    await self._store.release(run.lease)
