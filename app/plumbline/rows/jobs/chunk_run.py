"""One leased chunk: score its rows concurrently, commit results in groups, retry suspicious rows in isolation."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import structlog

from plumbline.ground.concurrency import end_tasks
from plumbline.ground.errors import InvalidInput, StoreUnavailable
from plumbline.judging.ports.observation import NULL_OBSERVER, Observer
from plumbline.rows.jobs.job import MAX_CRASHES, Lease, LeaseStatus, PendingRow
from plumbline.rows.records.record import Record, RecordProblem
from plumbline.rows.scored_row import ScoredRow

if TYPE_CHECKING:
    from plumbline.rows.jobs.store import JobStore

T = TypeVar("T")

_LONGEST_WAIT_SECONDS: Final = 5.0
_LOGGED_EACH_SECONDS: Final = 60.0
_LOG = structlog.get_logger()


class RowHandler(Protocol):
    """Scorer of the rows of one job. Never raises for the content of a row."""

    async def score(self, row: Record | RecordProblem) -> ScoredRow:
        """Return the row's result or error."""

    def report_crash(self, row: Record | RecordProblem, crash_count: int) -> ScoredRow:
        """Return the error of a row that is not retried because it crashed this many workers."""


# Raises PlumblineError when the job's options are no longer valid.
HandlerOf = Callable[[Lease], RowHandler]
# Why rows of this tenant may not be scored now; None if they may. Called before each group of rows: must be cheap.
PauseReason = Callable[[str], str | None]


def never_pause(tenant: str) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class Pace:
    """Concurrency and intervals of a worker: `concurrency` rows in flight over all chunks.

    Of two `chunks` leased at once the slow last rows of one leave nothing idle. A result waits for `group_rows` others
    or `group_seconds` to be committed. Leases are renewed after `renew_seconds`, far below their length.
    """

    concurrency: int = 64
    chunks: int = 2
    group_rows: int = 64
    group_seconds: float = 0.25
    poll_seconds: float = 0.5
    renew_seconds: float = 1.0


class Slots:
    """Semaphore over the rows of all chunks; a request for all slots goes before requests for some."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._free = count
        self._waiting_for_all = 0
        self._waiters: list[asyncio.Future[None]] = []

    async def take(self, most: int) -> int:
        """Wait for a free slot and take up to `most`; return how many."""
        await self._until(lambda: self._free > 0 and not self._waiting_for_all)
        return self.take_now(most)

    def take_now(self, most: int) -> int:
        """Take up to `most` free slots without waiting; return how many, maybe 0."""
        taken = 0 if self._waiting_for_all else min(most, self._free)
        self._free -= taken
        return taken

    def give(self, count: int) -> None:
        self._free += count
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    @asynccontextmanager
    async def all(self) -> AsyncIterator[None]:
        self._waiting_for_all += 1
        try:
            await self._until(lambda: self._free == self._count)
            self._free = 0
        finally:
            self._waiting_for_all -= 1
            self.give(0)
        try:
            yield
        finally:
            self.give(self._count)

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await waiter


class ChunkRun:
    """Processing of one leased chunk until it is done, its lease is lost, or `stop` is called."""

    def __init__(
        self,
        store: "JobStore",
        lease: Lease,
        pace: Pace,
        slots: Slots,
        *,
        pause_reason: PauseReason = never_pause,
        observer: Observer = NULL_OBSERVER,
    ) -> None:
        self.lease = lease
        self.status = LeaseStatus.VALID
        self._store = store
        self._pace = pace
        self._slots = slots
        self._pause_reason = pause_reason
        self._observer = observer
        self._is_stopping = False
        self._is_woken = asyncio.Event()
        self._working: asyncio.Task[None] | None = None
        self._left = 0
        self._group: list[ScoredRow] = []
        self._grouped = 0.0

    def stop(self) -> None:
        self._is_stopping = True

    def wake(self) -> None:
        self._is_woken.set()

    async def keep_renewing(self) -> None:
        """Renew the lease periodically; notice a paused or cancelled job."""
        while self.status is not LeaseStatus.LOST:
            try:
                self._record_lease_status(await self._store.renew(self.lease))
            except StoreUnavailable:
                # Rows in flight continue: the commit finds out whether the lease held.
                _LOG.debug("lease_not_renewed", chunk=self.lease.chunk)
            try:
                await asyncio.wait_for(self._is_woken.wait(), self._pace.renew_seconds)
            except TimeoutError:
                continue
            finally:
                self._is_woken.clear()

    async def work(self, handler: RowHandler) -> None:
        """Score the pending rows; finish the chunk when all are done, else release it. Lost rows fail the job."""
        self._working = asyncio.current_task()
        try:
            rows = await retry_while_unavailable(lambda: self._store.rows(self.lease))
        except InvalidInput as error:
            problem = error.detail
            await retry_while_unavailable(lambda: self._store.fail(self.lease, problem))
            return
        self._left = len(rows)
        try:
            if not rows:
                await self._commit()
            await self._score_concurrently(handler, [each.row for each in rows if not each.crash_count])
            await self._score_alone(handler, [each for each in rows if each.crash_count])
        except asyncio.CancelledError:
            if self.status is LeaseStatus.LOST:
                return
            raise
        if self._left and self.status is not LeaseStatus.LOST:
            await retry_while_unavailable(lambda: self._store.release(self.lease))

    async def _score_concurrently(self, handler: RowHandler, rows: Sequence[Record | RecordProblem]) -> None:
        waiting = iter(rows)
        unstarted = len(rows)
        tasks: set[asyncio.Task[ScoredRow]] = set()
        try:
            while True:
                unstarted = unstarted if self._may_start else 0
                # With rows of its own in flight it does not wait for slots: those come back with them.
                taken = 0
                if unstarted:
                    taken = self._slots.take_now(unstarted) if tasks else await self._slots.take(unstarted)
                # Checked after the wait for slots: others may have spent the budget meanwhile.
                reason = self._pause_reason(self.lease.tenant) if taken else None
                if reason is not None:
                    self._slots.give(taken)
                    taken = unstarted = 0
                    await self._pause(reason)
                unstarted -= taken
                tasks |= await self._start(handler, list(islice(waiting, taken)))
                if not tasks:
                    break
                done, tasks = await asyncio.wait(
                    tasks, timeout=self._pace.group_seconds, return_when=asyncio.FIRST_COMPLETED
                )
                self._slots.give(len(done))
                await self._keep([task.result() for task in done])
        finally:
            await end_tasks(tasks)
            self._slots.give(len(tasks))
        if self._group:
            await self._commit()

    async def _start(
        self, handler: RowHandler, rows: Sequence[Record | RecordProblem]
    ) -> set["asyncio.Task[ScoredRow]"]:
        """Record the rows as in flight, then start them; each holds a slot."""
        if not rows:
            return set()
        try:
            self._record_lease_status(
                await retry_while_unavailable(lambda: self._store.begin(self.lease, [row.row for row in rows]))
            )
        except BaseException:
            self._slots.give(len(rows))
            raise
        return {asyncio.create_task(handler.score(row)) for row in rows}

    async def _score_alone(self, handler: RowHandler, rows: Sequence[PendingRow]) -> None:
        """Score rows that were in flight when a process crashed with nothing else in flight: a crash is then theirs."""
        for row, crash_count in rows:
            reason = self._pause_reason(self.lease.tenant)
            if reason is not None:
                await self._pause(reason)
            if not self._may_start:
                return
            if crash_count >= MAX_CRASHES:
                _LOG.error("row_put_aside", job=self.lease.job_id, row=row.row, deaths=crash_count)
                self._observer.row_quarantined()
                self._group.append(handler.report_crash(row, crash_count))
            else:
                async with self._slots.all():
                    self._record_lease_status(
                        await retry_while_unavailable(partial(self._store.begin, self.lease, [row.row]))
                    )
                    self._group.append(await handler.score(row))
            await self._commit()

    async def _pause(self, reason: str) -> None:
        self._record_lease_status(await retry_while_unavailable(lambda: self._store.pause(self.lease, reason)))

    @property
    def _may_start(self) -> bool:
        return not self._is_stopping and self.status is LeaseStatus.VALID

    async def _keep(self, rows: Sequence[ScoredRow]) -> None:
        """Buffer results; commit when the group is full or its oldest result has waited long enough."""
        if rows and not self._group:
            self._grouped = time.monotonic()
        self._group.extend(rows)
        is_late = time.monotonic() - self._grouped >= self._pace.group_seconds
        is_last = len(self._group) == self._left
        if self._group and (is_last or is_late or len(self._group) >= self._pace.group_rows):
            await self._commit()

    async def _commit(self) -> None:
        """Commit the buffered results, retrying for as long as the store is unavailable: they were paid for."""
        group, self._group = self._group, []
        self._left -= len(group)
        is_done = not self._left
        status = await retry_while_unavailable(lambda: self._store.commit(self.lease, group, is_done=is_done))
        if status is not LeaseStatus.LOST:
            self._observer.rows_kept([row.status for row in group])
        self._record_lease_status(status)

    def _record_lease_status(self, status: LeaseStatus) -> None:
        if self.status is LeaseStatus.LOST:
            return
        self.status = status
        if status is LeaseStatus.LOST and self._working is not None:
            self._working.cancel()


class OutageLog:
    """Log that the store is away: when that begins, when its reason changes, and once a minute."""

    def __init__(self) -> None:
        self._detail, self._until = "", 0.0

    def note(self, error: StoreUnavailable, *, now: float) -> None:
        """Log the failure of a try, unless it was logged; `now` counts seconds from any point."""
        if str(error) != self._detail or now >= self._until:
            self._detail, self._until = str(error), now + _LOGGED_EACH_SECONDS
            _LOG.warning("jobs_wait_for_store", detail=self._detail)

    def end(self) -> None:
        """Log the next failure in any case: the store is back."""
        self._detail = ""


async def retry_while_unavailable(work: Callable[[], Awaitable[T]]) -> T:
    """Return what `work` returns, retrying with backoff and jitter while it raises StoreUnavailable."""
    wait, outage = 0.1, OutageLog()
    while True:
        try:
            return await work()
        except StoreUnavailable as error:
            outage.note(error, now=time.monotonic())
        # Jitter: workers do not retry in lockstep.
        await asyncio.sleep(wait * random.uniform(0.5, 1.0))  # noqa: S311
        wait = min(2 * wait, _LONGEST_WAIT_SECONDS)
