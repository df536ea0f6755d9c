"""The events of a job, over as many connections as it takes."""

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final, NamedTuple

import httpx2

from plumbline.client.connection import Ask, Connection, mapped_errors
from plumbline.client.failures import AnswerCut, AnswerUnreadable, ClientError
from plumbline.client.job_paths import fetched, job_path
from plumbline.client.reading import read_model
from plumbline.client.retries import Patience
from plumbline.schemas.jobs import JobInfo

_ENDED: Final = frozenset({"completed", "completed_with_errors", "cancelled", "failed"})
_STOOD_SECONDS: Final = 10.0
_STREAM: Final = "text/event-stream"


class JobEvent(NamedTuple):
    """The job as it was when told; `id` is what `events(last_event_id=...)` takes."""

    id: str
    info: JobInfo


def is_ended(info: JobInfo) -> bool:
    """Whether nothing happens any more unless somebody asks for it."""
    return info.status in _ENDED


async def job_events(connection: Connection, job_id: str, last_event_id: str | None) -> AsyncGenerator[JobEvent, None]:
    """The events behind `last_event_id` up to the one that tells the end; that one in any case.

    Raises:
        ClientError: the service was not reached any more, or refused.
    """
    patience, last = Patience(connection.retries), last_event_id
    while True:
        since = time.monotonic()
        try:
            async with aclosing(_connected(connection, job_id, last)) as events:
                async for event in events:
                    last = event.id or last
                    patience.renew()
                    yield event
                    if is_ended(event.info):
                        return
            # In good order a stream ends when the end was told already, the job is forgotten, the service stops, or
            # something in between bounds its time.
            if is_ended(info := await fetched(connection, job_id)):
                yield JobEvent(last or "", info)
                return
            raise AnswerCut(f"the events of job {job_id} ended before the job did")
        except ClientError as failure:
            if time.monotonic() - since > _STOOD_SECONDS:
                # A paused job has nothing to tell, and whatever lies between ends a quiet connection.
                patience.renew()
            await patience.sleep_after(failure)


async def _connected(connection: Connection, job_id: str, last: str | None) -> AsyncGenerator[JobEvent, None]:
    """The events of one connection."""
    headers = {"accept": _STREAM, "cache-control": "no-store", **({} if last is None else {"last-event-id": last})}
    async with connection.stream(Ask("GET", f"{job_path(job_id)}/events", headers=headers)) as response:
        if response.status_code == httpx2.codes.NO_CONTENT:
            # so a reader of events is told to come back no more: there is nothing left to tell
            return
        if not response.headers.get("content-type", "").startswith(_STREAM):
            raise AnswerUnreadable("the answer is no stream of events; is base_url that of the service?")
        # Such a stream is UTF-8 whatever its header says, and may begin with a mark of byte order.
        response.encoding = "utf-8-sig"
        with mapped_errors():
            async for event in httpx2.EventSource(response):
                if event.event == "job":
                    yield JobEvent(event.id, read_model(JobInfo, event.data))
