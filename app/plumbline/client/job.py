"""One job of the service, from asyncio: its state and results."""

import asyncio
import re
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import Final, Literal
from urllib.parse import parse_qs, urlsplit

from plumbline.client.connection import JSON_HEADERS, Connection, RequestSpec, lines_of
from plumbline.client.failures import (
    AnswerUnreadable,
    ClientError,
    JobNotEnded,
    NotThere,
    RetryState,
    parse_model,
)
from plumbline.client.row import Row, parse_line
from plumbline.ground.errors import InvalidInput
from plumbline.schemas.jobs import JobInfo, JobStatus, RetryRequest, job_path

Action = Literal["pause", "resume", "cancel"]

DEFAULT_POLL_SECONDS: Final = 1.0
_ENDED: Final = frozenset({"completed", "completed_with_errors", "cancelled", "failed"})
# `wait` asks soon at first, then ever more seldom.
_FIRST_PAUSE_SECONDS: Final = 0.1
_LONGEST_PAUSE_SECONDS: Final = 3.0
_PAUSE_GROWTH: Final = 1.5
_NEXT_LINK: Final = re.compile(r'<([^<>]*+)>\s*;[^,<]*\brel="?next"?')


class AsyncJob:
    """A job. `info` is its last known state; every method that asks the service updates it.

    Each method raises `NotThere` if the job is gone, and `ClientError` if the service was not reached or refused.
    """

    def __init__(self, connection: Connection, info: JobInfo) -> None:
        self.info = info
        self._connection = connection

    @property
    def id(self) -> str:
        """The id by which `client.jobs.get` finds it."""
        return self.info.id

    @property
    def status(self) -> JobStatus:
        """The last known status."""
        return self.info.status

    @property
    def is_ended(self) -> bool:
        """True if, by its last known state, nothing more happens without a request."""
        return self.info.status in _ENDED

    async def refresh(self) -> JobInfo:
        """Fetch the state."""
        return self._update(await fetch_job(self._connection, self.id))

    async def wait(self, *, timeout: float | None = None, poll_seconds: float | None = None) -> JobInfo:  # noqa: ASYNC109
        """Wait until the job has ended, or the service itself has paused it (`info.problem` then says why).

        A job that failed raises nothing: see `info.status` and `info.problem`.

        Args:
            timeout: seconds; None: as long as it takes.
            poll_seconds: ask at this interval; None: soon at first, then ever more seldom, at least every 3 seconds.

        Raises:
            JobNotEnded: not in that time; the job continues.
        """
        try:
            async with asyncio.timeout(timeout):
                pause = _FIRST_PAUSE_SECONDS
                while not self._is_settled:
                    await self.refresh()
                    if not self._is_settled:
                        await self._connection.sleep(pause if poll_seconds is None else poll_seconds)
                        pause = min(pause * _PAUSE_GROWTH, _LONGEST_PAUSE_SECONDS)
                return self.info
        except TimeoutError:
            message = f"job {self.id} is {self.status} after {timeout:g} seconds; it continues: wait again"
            raise JobNotEnded(message, self.info) from None

    def results(
        self,
        *,
        after: int | None = None,
        page_size: int = 1000,
        follow: bool = True,
        poll_seconds: float = DEFAULT_POLL_SECONDS,
    ) -> AsyncGenerator[Row[None], None]:
        """Yield the rows in the order of the file; of a running job, each when it and all before it are done.

        Args:
            after: start after this row, counted from 0; None: with the first.
            follow: wait for rows that are not done yet, until the job has ended; else stop there.
            poll_seconds: interval between requests for new rows.

        Raises:
            InvalidInput: at once: a page of no rows.
            ClientError: while iterating.
        """
        if page_size < 1:
            raise InvalidInput(f"page_size is {page_size}; expected 1 or more")
        return self._rows(-1 if after is None else after, page_size, poll_seconds if follow else None)

    async def pause(self) -> JobInfo:
        """Pause: rows in progress are finished, no more are started. `NotNow` if the job has ended."""
        return await self._act("pause")

    async def resume(self) -> JobInfo:
        """Resume a paused job. `NotNow` if it is not paused."""
        return await self._act("resume")

    async def cancel(self) -> JobInfo:
        """Cancel it; results that exist stay. `NotNow` if it has ended otherwise."""
        return await self._act("cancel")

    async def retry(self, select: Literal["failed", "degraded"]) -> JobInfo:
        """Score some rows again: those without a score, or those that fell back to a lower tier.

        `NotNow` if the job has not ended, or has no such row. If the answer is lost it may have started: `refresh`.
        """
        body = RetryRequest(select=select).model_dump_json().encode()
        path = f"{job_path(self.id)}/retry"
        # The second time the job runs already, and that is refused.
        spec = RequestSpec("POST", path, headers=JSON_HEADERS, content=body, is_repeatable=False)
        return self._update(parse_model(JobInfo, await self._connection.answer(spec)))

    async def delete(self) -> None:
        """Cancel it if it runs, and delete its rows and results; idempotent."""
        try:
            await self._connection.answer(RequestSpec("DELETE", job_path(self.id)))
        except NotThere as gone:
            # Of a request whose answer was lost, the repetition finds nothing left.
            if not gone.is_ours:
                raise

    async def report(
        self,
        *,
        format: Literal["html", "json"] = "html",  # noqa: A002
        lang: Literal["en", "zh"] = "en",
        gates: Iterable[str] = (),
    ) -> bytes:
        """Return the report over all rows, in one file, with the outcomes of gates as `passed_share=0.9`."""
        params = {"format": format, "lang": lang, "gate": list(gates)}
        spec = RequestSpec("GET", f"{job_path(self.id)}/report", params=params)
        return await self._connection.answer(spec)

    async def _act(self, action: Action) -> JobInfo:
        # Idempotent: a paused job stays paused.
        spec = RequestSpec("POST", f"{job_path(self.id)}/{action}")
        return self._update(parse_model(JobInfo, await self._connection.answer(spec)))

    @property
    def _is_settled(self) -> bool:
        return self.is_ended or (self.info.status == "paused" and self.info.problem is not None)

    async def _rows(self, last: int, page_size: int, poll_seconds: float | None) -> AsyncGenerator[Row[None], None]:
        """Yield the rows after `last`, page by page; with None do not wait for more."""
        retries, limit, has_next = RetryState(self._connection.retries), str(page_size), True
        while has_next:
            before = last
            params = {"limit": limit} if last < 0 else {"limit": limit, "after": str(last)}
            try:
                async with self._connection.stream(
                    RequestSpec("GET", f"{job_path(self.id)}/results", params=params)
                ) as reply:
                    # The address of the next page is ours, wherever the link leads; its limit is the service's.
                    link = _NEXT_LINK.search(reply.headers.get("link", ""))
                    has_next = link is not None
                    limit = parse_qs(urlsplit(link[1]).query).get("limit", [limit])[-1] if link else limit
                    async with aclosing(lines_of(reply)) as lines:
                        async for line in lines:
                            wire = parse_line(line)
                            if wire.row <= last:
                                raise AnswerUnreadable("the rows of the answer are not in the order of the file")
                            last = wire.row
                            retries.renew()
                            yield Row(wire.row, wire.custom_id, None, wire.result_json, wire.problem_json, wire.line)
            except ClientError as failure:
                # What came before the cut is not asked for again.
                await self._connection.sleep(retries.wait_after(failure))
                has_next = True
                continue
            retries.renew()
            if has_next and last == before:
                if poll_seconds is None:
                    return
                await self._connection.sleep(poll_seconds)

    def _update(self, info: JobInfo) -> JobInfo:
        self.info = info
        return info


async def fetch_job(connection: Connection, job_id: str) -> JobInfo:
    return parse_model(JobInfo, await connection.answer(RequestSpec("GET", job_path(job_id))))
