"""One chunk under way: its rows scored, many at a time or one by one after a death, its results kept in groups."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import structlog

from app.concurrency import worked_through
from app.errors import StoreUnavailable
from app.jobs.job import Held, Lease
from app.jobs.row_handler import RowHandler
from app.jobs.store import JobStore
from app.records.record import Record, RecordProblem
from app.scored_row import ScoredRow

if TYPE_CHECKING:
    from app.jobs.worker import Pace

T = TypeVar("T")

MAX_CRASHES: Final = 3
_LONGEST_WAIT_SECONDS: Final = 5.0
_LOG = structlog.get_logger()


class ChunkRun:
    """Works on one leased chunk until it is done, the lease is lost, or it is told to stop."""

    def __init__(self, store: JobStore, lease: Lease, pace: "Pace", slots: asyncio.Semaphore) -> None:
        self.lease = lease
        self.held = Held.YES
        self._store = store
        self._pace = pace
        self._slots = slots
        self._is_stopping = False
        self._looked = asyncio.Event()
        self._working: asyncio.Task[None] | None = None

    def stop(self) -> None:
        """Begin no further row."""
        self._is_stopping = True

    def look(self) -> None:
        """Ask the store now whether the lease holds."""
        self._looked.set()

    async def keep_renewing(self) -> None:
        """Prolongs the lease again and again; sees that a job was paused or cancelled."""
        while self.held is not Held.LOST:
            try:
                self._note(await self._store.renew(self.lease))
            except StoreUnavailable:
                # What is under way goes on: whoever commits finds out whether the lease held.
                _LOG.debug("lease_not_renewed", chunk=self.lease.chunk)
            try:
                await asyncio.wait_for(self._looked.wait(), self._pace.renew_seconds)
            except TimeoutError:
                continue
            finally:
                self._looked.clear()

    async def work(self, handler: RowHandler) -> None:
        """Scores the rows that are left; when all are done the chunk is, else it is given back."""
        self._working = asyncio.current_task()
        rows = await persistently(lambda: self._store.rows(self.lease))
        try:
            left = await (self._one_by_one if self.lease.deaths else self._together)(handler, rows)
        except asyncio.CancelledError:
            if self.held is Held.LOST:
                return
            raise
        if left and self.held is not Held.LOST:
            await persistently(lambda: self._store.release(self.lease))

    async def _together(self, handler: RowHandler, rows: Sequence[Record | RecordProblem]) -> int:
        """How many rows are left."""
        left = len(rows)
        if not rows:
            await self._commit([], is_done=True)
        group: list[ScoredRow] = []
        since = time.monotonic()
        scored = worked_through(
            self._while_wanted(rows), lambda row: self._scored(handler, row), at_once=self._pace.concurrency
        )
        async with aclosing(scored):
            async for row in scored:
                group.append(row)
                is_late = time.monotonic() - since >= self._pace.group_seconds
                if left == len(group) or len(group) >= self._pace.group_rows or is_late:
                    left -= len(group)
                    await self._commit(group, is_done=not left)
                    group, since = [], time.monotonic()
        if group:
            left -= len(group)
            await self._commit(group, is_done=not left)
        return left

    async def _one_by_one(self, handler: RowHandler, rows: Sequence[Record | RecordProblem]) -> int:
        """How many rows are left. Each is named before it is tried; one that was fatal too often is put aside."""
        left = len(rows)
        if not rows:
            await self._commit([], is_done=True)
        for row in self._while_wanted(rows):
            if row.row == self.lease.suspect and self.lease.crashes >= MAX_CRASHES:
                _LOG.error("row_put_aside", job=self.lease.job_id, row=row.row, deaths=self.lease.crashes)
                scored = handler.crashed(row, self.lease.crashes)
            else:
                self._note(await persistently(partial(self._store.suspect, self.lease, row.row)))
                scored = await handler.score(row)
            left -= 1
            await self._commit([scored], is_done=not left)
        return left

    def _while_wanted(self, rows: Sequence[Record | RecordProblem]) -> Iterator[Record | RecordProblem]:
        for row in rows:
            if self._is_stopping or self.held is not Held.YES:
                return
            yield row

    async def _scored(self, handler: RowHandler, row: Record | RecordProblem) -> ScoredRow:
        async with self._slots:
            return await handler.score(row)

    async def _commit(self, rows: Sequence[ScoredRow], *, is_done: bool) -> None:
        """Keeps results, however long the store cannot: they were paid for. Rows under way wait meanwhile."""
        self._note(await persistently(lambda: self._store.commit(self.lease, rows, is_done=is_done)))

    def _note(self, held: Held) -> None:
        if held is Held.LOST and self.held is not Held.LOST and self._working is not None:
            self._working.cancel()
        self.held = held if self.held is not Held.LOST else Held.LOST


async def persistently(work: Callable[[], Awaitable[T]]) -> T:
    """What `work` returns, tried again for as long as the store cannot be used."""
    wait = 0.1
    while True:
        try:
            return await work()
        except StoreUnavailable as error:
            _LOG.warning("jobs_wait_for_store", detail=str(error))
        # No two workers come back at once.
        await asyncio.sleep(wait * random.uniform(0.5, 1.0))  # noqa: S311
        wait = min(2 * wait, _LONGEST_WAIT_SECONDS)
