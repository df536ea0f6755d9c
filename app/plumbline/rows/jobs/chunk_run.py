"""One chunk under way: its rows scored, many at a time, its results kept in groups; rows under suspicion alone."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import islice
from typing import Final, TypeVar

import structlog

from plumbline.ground.errors import StoreUnavailable
from plumbline.judging.ports.observation import SILENT, Observer
from plumbline.rows.jobs.job import MAX_STRIKES, Held, Lease, PendingRow
from plumbline.rows.jobs.pace import Pace
from plumbline.rows.jobs.row_handler import HindranceOf, RowHandler, nothing_hinders
from plumbline.rows.jobs.slots import Slots
from plumbline.rows.jobs.store import JobStore
from plumbline.rows.records.record import Record, RecordProblem
from plumbline.rows.scored_row import ScoredRow

T = TypeVar("T")

_LONGEST_WAIT_SECONDS: Final = 5.0
_LOG = structlog.get_logger()


class ChunkRun:
    """Works on one leased chunk until it is done, the lease is lost, or it is told to stop."""

    def __init__(
        self,
        store: JobStore,
        lease: Lease,
        pace: Pace,
        slots: Slots,
        *,
        hindrance_of: HindranceOf = nothing_hinders,
        observer: Observer = SILENT,
    ) -> None:
        self.lease = lease
        self.held = Held.YES
        self._store = store
        self._pace = pace
        self._slots = slots
        self._hindrance_of = hindrance_of
        self._observer = observer
        self._is_stopping = False
        self._looked = asyncio.Event()
        self._working: asyncio.Task[None] | None = None
        self._left = 0
        self._group: list[ScoredRow] = []
        self._grouped = 0.0

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
        self._left = len(rows)
        try:
            if not rows:
                await self._commit()
            await self._together(handler, [each.row for each in rows if not each.strikes])
            await self._one_by_one(handler, [each for each in rows if each.strikes])
        except asyncio.CancelledError:
            if self.held is Held.LOST:
                return
            raise
        if self._left and self.held is not Held.LOST:
            await persistently(lambda: self._store.release(self.lease))

    async def _together(self, handler: RowHandler, rows: Sequence[Record | RecordProblem]) -> None:
        waiting = iter(rows)
        unbegun = len(rows)
        tasks: set[asyncio.Task[ScoredRow]] = set()
        try:
            while True:
                unbegun = unbegun if self._is_wanted else 0
                # With rows of its own under way it does not wait for slots: those come back with them.
                taken = 0
                if unbegun:
                    taken = self._slots.take_now(unbegun) if tasks else await self._slots.take(unbegun)
                # Asked once there is room for them: meanwhile others may have spent what there was.
                hindrance = self._hindrance() if taken else None
                if hindrance is not None:
                    self._slots.give(taken)
                    taken = unbegun = 0
                    await self._pause(hindrance)
                unbegun -= taken
                tasks |= await self._begun(handler, list(islice(waiting, taken)))
                if not tasks:
                    break
                done, tasks = await asyncio.wait(
                    tasks, timeout=self._pace.group_seconds, return_when=asyncio.FIRST_COMPLETED
                )
                self._slots.give(len(done))
                await self._keep([task.result() for task in done])
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._slots.give(len(tasks))
        if self._group:
            await self._commit()

    async def _begun(
        self, handler: RowHandler, rows: Sequence[Record | RecordProblem]
    ) -> set["asyncio.Task[ScoredRow]"]:
        """The rows under way, once it is written down that they are; they hold a slot each."""
        if not rows:
            return set()
        try:
            self._note(await persistently(lambda: self._store.begin(self.lease, [row.row for row in rows])))
        except BaseException:
            self._slots.give(len(rows))
            raise
        return {asyncio.create_task(handler.score(row)) for row in rows}

    async def _one_by_one(self, handler: RowHandler, rows: Sequence[PendingRow]) -> None:
        """Rows that were under way when processes ended: with nothing beside them, the next end is their doing."""
        for row, strikes in rows:
            hindrance = self._hindrance()
            if hindrance is not None:
                await self._pause(hindrance)
            if not self._is_wanted:
                return
            if strikes >= MAX_STRIKES:
                _LOG.error("row_put_aside", job=self.lease.job_id, row=row.row, deaths=strikes)
                self._observer.row_put_aside()
                self._group.append(handler.crashed(row, strikes))
            else:
                async with self._slots.all():
                    self._note(await persistently(partial(self._store.begin, self.lease, [row.row])))
                    self._group.append(await handler.score(row))
            await self._commit()

    def _hindrance(self) -> str | None:
        """Why no row of the job may be begun now."""
        return self._hindrance_of(self.lease.tenant)

    async def _pause(self, hindrance: str) -> None:
        self._note(await persistently(lambda: self._store.pause(self.lease, hindrance)))

    @property
    def _is_wanted(self) -> bool:
        return not self._is_stopping and self.held is Held.YES

    async def _keep(self, rows: Sequence[ScoredRow]) -> None:
        """Gathers results, and has the store keep them when there are enough or the first has waited long enough."""
        if rows and not self._group:
            self._grouped = time.monotonic()
        self._group.extend(rows)
        is_late = time.monotonic() - self._grouped >= self._pace.group_seconds
        is_last = len(self._group) == self._left
        if self._group and (is_last or is_late or len(self._group) >= self._pace.group_rows):
            await self._commit()

    async def _commit(self) -> None:
        """Keeps results, however long the store cannot: they were paid for."""
        group, self._group = self._group, []
        self._left -= len(group)
        is_done = not self._left
        held = await persistently(lambda: self._store.commit(self.lease, group, is_done=is_done))
        if held is not Held.LOST:
            self._observer.rows_kept([row.status for row in group])
        self._note(held)

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
