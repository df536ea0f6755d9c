"""One job of the service, from asyncio."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final, Literal

from plumbline.client.connection import JSON_HEADERS, Ask, Connection
from plumbline.client.failures import JobNotEnded, NotThere
from plumbline.client.job_events import JobEvent, is_ended, job_events
from plumbline.client.job_paths import fetched, job_path
from plumbline.client.job_results import job_rows
from plumbline.client.reading import read_model
from plumbline.client.row import Row
from plumbline.schemas.jobs import JobInfo, JobStatus, RetryRequest

Action = Literal["pause", "resume", "cancel"]

DEFAULT_POLL_SECONDS: Final = 1.0


class AsyncJob:
    """A job. `info` is what was last told of it; every method that asks the service brings it up to date.

    Each method raises `NotThere` where the job is gone, and `ClientError` where the service was not reached or refused.
    """

    def __init__(self, connection: Connection, info: JobInfo) -> None:
        self.info = info
        self._connection = connection

    @property
    def id(self) -> str:
        """By which `client.jobs.get` finds it again."""
        return self.info.id

    @property
    def status(self) -> JobStatus:
        """As last told."""
        return self.info.status

    @property
    def is_ended(self) -> bool:
        """Whether, as last told, nothing happens any more unless somebody asks for it."""
        return is_ended(self.info)

    async def refresh(self) -> JobInfo:
        """What the service says now."""
        return self._told(await fetched(self._connection, self.id))

    async def wait(self, *, timeout: float | None = None, poll_seconds: float | None = None) -> JobInfo:  # noqa: ASYNC109
        """Waits until the job has ended, or the service itself has paused it (`info.problem` then says why).

        How it ended is told, not raised: see `info.status` and `info.problem`.

        Args:
            timeout: seconds; None: as long as it takes.
            poll_seconds: ask so often in place of listening to events.

        Raises:
            JobNotEnded: not in that time; the job goes on.
        """
        try:
            async with asyncio.timeout(timeout) as scope:
                return await (self._listened() if poll_seconds is None else self._polled(poll_seconds))
        except TimeoutError:
            if not scope.expired():
                raise
            message = (
                f"job {self.id} is {self.status} after {timeout:g} seconds; it goes on, and can be waited for again"
            )
            raise JobNotEnded(message, self.info) from None

    async def events(self, *, last_event_id: str | None = None) -> AsyncGenerator[JobEvent, None]:
        """Every change of state, and how far it is about once a second, until it has ended.

        A connection that is cut is taken up again behind the last event.

        Args:
            last_event_id: begin behind this one, for a caller that was away; None: with the job as it is.
        """
        async with aclosing(job_events(self._connection, self.id, last_event_id)) as events:
            async for event in events:
                self._told(event.info)
                yield event

    def results(
        self,
        *,
        after: int | None = None,
        page_size: int = 1000,
        follow: bool = True,
        poll_seconds: float = DEFAULT_POLL_SECONDS,
    ) -> AsyncGenerator[Row[None], None]:
        """The rows in the order of the file; of a job that runs, each once it and all before it are done.

        Args:
            after: begin behind this row, counted from 0; None: with the first.
            page_size: rows of one request.
            follow: wait for rows that are not done yet, until the job has ended; else stop there.
            poll_seconds: how often is asked whether there are more.
        """
        return job_rows(
            self._connection, self.id, after=after, page_size=page_size, poll_seconds=poll_seconds if follow else None
        )

    async def pause(self) -> JobInfo:
        """Rows under way are finished, no more are begun. `NotNow` where the job has ended."""
        return await self._act("pause")

    async def resume(self) -> JobInfo:
        """Goes on after a pause. `NotNow` where it is not paused."""
        return await self._act("resume")

    async def cancel(self) -> JobInfo:
        """Ends it; results that are there stay. `NotNow` where it has ended otherwise."""
        return await self._act("cancel")

    async def retry(self, select: Literal["failed", "degraded"]) -> JobInfo:
        """Scores some rows again: those without a score, or those that fell to a lower tier.

        `NotNow` where the job has not ended, or has no such row. Where the answer is lost it may have begun: `refresh`.
        """
        body = RetryRequest(select=select).model_dump_json().encode()
        path = f"{job_path(self.id)}/retry"
        # The second time the job runs already, and that is refused.
        ask = Ask("POST", path, headers=JSON_HEADERS, content=body, is_repeatable=False)
        return self._told(read_model(JobInfo, (await self._connection.answer(ask)).content))

    async def delete(self) -> None:
        """Ends it if it runs, and has the service forget its rows and results; one that is gone already is fine."""
        try:
            await self._connection.answer(Ask("DELETE", job_path(self.id)))
        except NotThere as gone:
            # Of a request whose answer was lost, the repetition finds nothing left.
            if not gone.is_ours:
                raise

    async def report(self, *, format: Literal["html", "json"] = "html", lang: Literal["en", "zh"] = "en") -> bytes:  # noqa: A002
        """The report over all rows, in one file."""
        ask = Ask("GET", f"{job_path(self.id)}/report", params={"format": format, "lang": lang})
        return (await self._connection.answer(ask)).content

    async def _act(self, action: Action) -> JobInfo:
        # May be repeated: what a job is already, it stays.
        ask = Ask("POST", f"{job_path(self.id)}/{action}")
        return self._told(read_model(JobInfo, (await self._connection.answer(ask)).content))

    async def _listened(self) -> JobInfo:
        if not _is_settled(self.info):
            async with aclosing(self.events()) as events:
                async for event in events:
                    if _is_settled(event.info):
                        break
        return self.info

    async def _polled(self, seconds: float) -> JobInfo:
        # The job changes elsewhere: there is nothing here to wait on.
        while not _is_settled(await self.refresh()):  # noqa: ASYNC110
            await asyncio.sleep(seconds)
        return self.info

    def _told(self, info: JobInfo) -> JobInfo:
        self.info = info
        return info


def _is_settled(info: JobInfo) -> bool:
    return is_ended(info) or (info.status == "paused" and info.problem is not None)
