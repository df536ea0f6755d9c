"""The results of a job, page by page, while it runs too."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import httpx2

from plumbline.client.connection import Ask, Connection, lines_of
from plumbline.client.failures import AnswerUnreadable, ClientError
from plumbline.client.job_paths import job_path
from plumbline.client.retries import Patience
from plumbline.client.row import Row, read_line
from plumbline.ground.errors import InvalidInput


def job_rows(
    connection: Connection, job_id: str, *, after: int | None, page_size: int, poll_seconds: float | None
) -> AsyncGenerator[Row[None], None]:
    """The rows behind `after`, each once, in ascending order; with `poll_seconds` None up to the first not done yet.

    Raises:
        InvalidInput: at once: a page of no rows.
        ClientError: while iterating: the service was not reached any more, or refused.
    """
    if page_size < 1:
        raise InvalidInput(f"page_size is {page_size}; expected 1 or more")
    return _Pages(connection, job_id, after, page_size).rows(poll_seconds)


class _Pages:
    """Where reading is: `_last` is the row last given, -1 before the first."""

    def __init__(self, connection: Connection, job_id: str, after: int | None, page_size: int) -> None:
        self._connection = connection
        self._path = f"{job_path(job_id)}/results"
        self._last = -1 if after is None else after
        self._params: dict[str, str | int] = {"limit": page_size}
        self._has_next = True

    async def rows(self, poll_seconds: float | None) -> AsyncGenerator[Row[None], None]:
        patience = Patience(self._connection.retries)
        while self._has_next:
            before = self._last
            try:
                async with aclosing(self._page()) as page:
                    async for row in page:
                        patience.renew()
                        yield row
            except ClientError as failure:
                # What came before the cut is not asked for again.
                await patience.sleep_after(failure)
                self._has_next = True
                continue
            patience.renew()
            if self._has_next and self._last == before:
                if poll_seconds is None:
                    return
                await asyncio.sleep(poll_seconds)

    async def _page(self) -> AsyncGenerator[Row[None], None]:
        params = {**self._params, **({} if self._last < 0 else {"after": self._last})}
        async with self._connection.stream(Ask("GET", self._path, params=params)) as response:
            self._follow(response)
            async with aclosing(lines_of(response)) as lines:
                async for line in lines:
                    wire = read_line(line)
                    if wire.row <= self._last:
                        raise AnswerUnreadable("the rows of the answer are not in the order of the file")
                    self._last = wire.row
                    yield Row(wire.row, wire.custom_id, None, wire.result_json, wire.problem_json, wire.line)

    def _follow(self, response: httpx2.Response) -> None:
        """Whether there is a next page, and its limit. Its address is ours, wherever the link leads."""
        link = response.links.get("next", {}).get("url")
        self._has_next = link is not None
        if link is not None and (limit := httpx2.URL(link).params.get("limit")) is not None:
            self._params["limit"] = limit
