"""Server-sent events of a job: every change of state and its progress, until it has ended."""

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from starlette.types import Receive, Scope, Send

from plumbline.ground.errors import InvalidInput, JobUnknown, StoreUnavailable, TooBusy
from plumbline.rows.jobs.job import Job, StateChange
from plumbline.rows.jobs.store import JobStore
from plumbline.schemas.wire import json_line
from plumbline.service.api.job_answers import job_info
from plumbline.service.api.problems import error_response
from plumbline.service.api.responses import BackpressureResponse

EVENT_STREAM: Final = "text/event-stream"
# All of them together look at the store a few hundred times a second.
MAX_EVENT_STREAMS: Final = 256

EVENT_ID_PATTERN: Final = r"^([0-9]{1,15})\.([0-9]{1,15})$"
_EVENT_ID: Final = re.compile(EVENT_ID_PATTERN)
_RETRY: Final = b"retry: 3000\n\n"
_KEEP_ALIVE: Final = b": keep-alive\n\n"

# Waits so many seconds; whether the service shuts down.
Pause = Callable[[float], Awaitable[bool]]


class EventId(NamedTuple):
    """Position in a job's events: changes of state up to `seq`, and finished rows."""

    seq: int
    done: int


class Pace(NamedTuple):
    """Seconds: between looks at the store, between reports of progress, and of silence at most."""

    look: float = 0.5
    progress: float = 1.0
    silence: float = 15.0


_PACE: Final = Pace()


@dataclass(frozen=True, slots=True)
class EventStreams:
    """Shared state of all event streams of a service. `stopping` is set at shutdown."""

    stopping: asyncio.Event
    slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_EVENT_STREAMS))

    async def pause(self, seconds: float) -> bool:
        """Sleep, but not beyond shutdown; return True if the service shuts down."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.stopping.wait()
        return self.stopping.is_set()


def event_id(text: str) -> EventId:
    """Parse a `Last-Event-ID`; raise InvalidInput if it is none of ours."""
    match = _EVENT_ID.fullmatch(text)
    if match is None:
        raise InvalidInput("expected the id of an event, two numbers such as 3.120", place="Last-Event-ID")
    return EventId(int(match[1]), int(match[2]))


class JobEvents:
    """Events of one job, from the last one received on; `told` None: from the job as it is now."""

    def __init__(
        self,
        store: JobStore,
        job: Job,
        told: EventId | None,
        *,
        pause: Pause,
        pace: Pace = _PACE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._job = job
        self._told = told
        self._pause = pause
        self._pace = pace
        self._clock = clock
        self._progress_at = self._spoke_at = clock()

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """Yield the events until the job has ended or is deleted, or the service shuts down.

        While the store cannot be read, the stream stays open and silent.
        """
        yield _RETRY
        while True:
            try:
                job, news = await self._looked()
            except JobUnknown:
                return
            for each in news:
                yield _event(each)
            if job and news:
                self._told = EventId(job.seq, job.counts.done)
                self._progress_at = self._spoke_at = self._clock()
            if job and job.state.is_ended:
                return
            if self._clock() - self._spoke_at >= self._pace.silence:
                self._spoke_at = self._clock()
                yield _KEEP_ALIVE
            if await self._pause(self._pace.look):
                return

    async def _looked(self) -> tuple[Job | None, list[Job]]:
        """Return the current job and its new events; None while the store cannot be read."""
        try:
            job = await self._store.get(self._job.tenant, self._job.id)
            return job, await self._news(job)
        except StoreUnavailable:
            return None, []

    async def _news(self, job: Job) -> list[Job]:
        """Return the job after each change not yet sent, or its current progress."""
        if self._told is None:
            return [job]
        if job.seq > self._told.seq:
            changes = await self._store.changes(job.tenant, job.id, after=self._told.seq)
            # what came after the look is for the next one
            return [_after(job, change) for change in changes if change.seq <= job.seq]
        is_due = self._clock() - self._progress_at >= self._pace.progress
        return [job] if is_due and job.counts.done != self._told.done else []


class EventStream(BackpressureResponse):
    """The answer with events; a problem when too many are under way."""

    def __init__(self, events: JobEvents, slots: asyncio.Semaphore) -> None:
        super().__init__(events.stream, EVENT_STREAM)
        self._slots = slots

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._slots.locked():
            busy = TooBusy(
                "as many streams of events are open as are served at one time; try again, or ask for the job"
            )
            await error_response(scope, busy)(scope, receive, send)
            return
        async with self._slots:
            await super().__call__(scope, receive, send)


def _after(job: Job, change: StateChange) -> Job:
    """Return the job in the state after a change, with its current counts."""
    ended = change.at if change.state.is_ended else None
    return replace(job, state=change.state, seq=change.seq, problem=change.problem, ended=ended)


def _event(job: Job) -> bytes:
    head = f"event: job\nid: {job.seq}.{job.counts.done}\ndata: "
    return head.encode() + json_line(job_info(job)) + b"\n\n"
