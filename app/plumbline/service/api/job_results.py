"""The results of a job in input order: a page of them, or all that are there, as lines or as a table."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import urlencode

import msgspec
from fastapi import Response

from plumbline.ground.errors import NotAcceptable
from plumbline.rows.jobs.job import Job, ResultLine
from plumbline.rows.jobs.store import JobStore
from plumbline.rows.records.result_table import RESULT_COLUMNS, flat_result, format_cell, table_line
from plumbline.schemas.jobs import ResultsFormat
from plumbline.service.api.accept import preferred
from plumbline.service.api.attended_stream import AttendedStream
from plumbline.service.api.batch_answer import NDJSON
from plumbline.service.api.job_wire import job_path

CSV: Final = "text/csv"
MAX_PAGE_ROWS: Final = 10_000
# A page that was asked for is held whole, so that its header can say where the next begins; it may be shorter.
_MAX_PAGE_BYTES: Final = 8_388_608
# Rows that are asked of the store at a time; one has some kilobytes.
_ROWS_AT_A_TIME: Final = 200
_MEDIA_TYPES: Final[Mapping[ResultsFormat, str]] = {"ndjson": NDJSON, "csv": CSV}


class Asked(NamedTuple):
    """Which rows, and how: behind row `after`, at most `limit`; `named`: the format was asked for by name."""

    after: int
    limit: int | None
    format: ResultsFormat
    named: bool


def results_format(accept: Sequence[str], named: ResultsFormat | None) -> ResultsFormat:
    """The format by its name, or by the Accept header.

    Raises:
        NotAcceptable: the caller takes neither form, or not the one that was named.
    """
    taken = preferred(accept, list(_MEDIA_TYPES.values()))
    if not taken:
        raise NotAcceptable(f"results are {NDJSON} or {CSV}, and the Accept header takes neither")
    if named is None:
        return next(each for each, media_type in _MEDIA_TYPES.items() if media_type == taken[0])
    if _MEDIA_TYPES[named] not in taken:
        raise NotAcceptable(f"format '{named}' is {_MEDIA_TYPES[named]}, which the Accept header does not take")
    return named


@dataclass(frozen=True, slots=True)
class JobResults:
    """The results of one job, as it stood a moment ago."""

    store: JobStore
    job: Job

    async def answer(self, asked: Asked) -> Response:
        """A page with a `Link` to the next one, or, without a limit, a stream of everything up to now."""
        media_type = _MEDIA_TYPES[asked.format]
        if asked.limit is None:
            return AttendedStream(lambda: self._all(asked), media_type)
        lines, is_full = await self._page(asked.after, asked.limit)
        body = await asyncio.to_thread(_written, lines, asked, is_first=asked.after < 0)
        return Response(body, media_type=media_type, headers=self._link(asked, lines, is_full=is_full))

    async def _all(self, asked: Asked) -> AsyncGenerator[bytes, None]:
        after, is_first = asked.after, asked.after < 0
        while True:
            lines = await self._lines(after, _ROWS_AT_A_TIME)
            if piece := await asyncio.to_thread(_written, lines, asked, is_first=is_first):
                yield piece
            if not lines:
                return
            after, is_first = lines[-1].row, False

    async def _page(self, after: int, limit: int) -> tuple[list[ResultLine], bool]:
        """The page, and whether it ends for want of room and not of rows."""
        page: list[ResultLine] = []
        size = 0
        while len(page) < limit and size < _MAX_PAGE_BYTES:
            lines = await self._lines(after, min(_ROWS_AT_A_TIME, limit - len(page)))
            if not lines:
                return page, False
            page += lines
            size += sum(len(each.line) for each in lines)
            after = lines[-1].row
        return page, True

    async def _lines(self, after: int, limit: int) -> list[ResultLine]:
        return await self.store.results(self.job.tenant, self.job.id, after=after, limit=limit)

    def _link(self, asked: Asked, lines: Sequence[ResultLine], *, is_full: bool) -> dict[str, str]:
        """Where to go on: as long as the job goes on, or while there can be rows behind a full page."""
        last = lines[-1].row if lines else asked.after
        has_rows_left = is_full and last + 1 < (self.job.total or 0)
        if self.job.state.is_ended and not has_rows_left:
            return {}
        query = {"after": last, "limit": asked.limit, **({"format": asked.format} if asked.named else {})}
        return {"Link": f'<{job_path(self.job.id)}/results?{urlencode(query)}>; rel="next"'}


def _written(lines: Sequence[ResultLine], asked: Asked, *, is_first: bool) -> bytes:
    if asked.format == "ndjson":
        return b"".join(each.line + b"\n" for each in lines)
    header = table_line(list(RESULT_COLUMNS), ",") if is_first else ""
    return (header + "".join(_cells(each.line) for each in lines)).encode()


def _cells(line: bytes) -> str:
    values = flat_result(msgspec.json.decode(line)).values()
    return table_line([format_cell(value) for value in values], ",")
