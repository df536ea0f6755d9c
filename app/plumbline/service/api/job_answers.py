"""Answers about jobs: state, results in input order, and the report."""

import asyncio
import time
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

import msgspec
from fastapi import Response
from pydantic import BaseModel, ConfigDict, Field

from plumbline.ground.errors import NotAcceptable
from plumbline.judging.ports.exchange import Usage
from plumbline.rows.jobs.job import Job, JobState, ResultLine
from plumbline.rows.jobs.store import JobStore
from plumbline.rows.records.result_table import RESULT_COLUMNS, flat_result, format_cell, table_line
from plumbline.rows.report.baseline import Baseline
from plumbline.rows.report.building import DEFAULT_WORST, ReportBuilder
from plumbline.rows.report.page import render_html
from plumbline.rows.scored_row import RowStatus
from plumbline.schemas.batch import TierCounts
from plumbline.schemas.evaluation import EvaluationOptions, UsageItem
from plumbline.schemas.jobs import JobInfo, JobLinks, JobOutcomes, RequestCounts, ResultsFormat
from plumbline.schemas.report import ReportFormat, ReportLanguage, ReportSummary
from plumbline.service.api.responses import CSV, JSON, NDJSON, BackpressureResponse, preferred

JOBS_PATH: Final = "/v1/jobs"
_ERRORS: Final = (RowStatus.INVALID, RowStatus.FAILED)
_DECIMALS: Final = 3


def job_path(job_id: str) -> str:
    """Return the path of a job."""
    return f"{JOBS_PATH}/{job_id}"


def job_info(job: Job, *, now: float | None = None) -> JobInfo:
    """Return the wire form of a job, with rate and remaining time at `now` (seconds since 1970)."""
    counts, failed = job.counts, sum(job.counts.by_status.get(status, 0) for status in _ERRORS)
    rate = _rows_per_second(job, time.time() if now is None else now)
    return JobInfo(
        id=job.id,
        name=job.name,
        status=job.state.value,
        created_at=_utc(job.created),
        started_at=None if job.started is None else _utc(job.started),
        ended_at=None if job.ended is None else _utc(job.ended),
        request_counts=RequestCounts(total=job.total, completed=counts.done - failed, failed=failed),
        outcomes=JobOutcomes(
            **{status.value: counts.by_status.get(status, 0) for status in RowStatus},
            degraded=counts.degraded,
            tiers=TierCounts(**counts.by_tier),
        ),
        usage=UsageItem(**{each.name: getattr(counts.usage, each.name) for each in fields(Usage)}),
        max_cost=job.max_cost,
        rows_per_second=None if rate is None else round(rate, _DECIMALS),
        eta_seconds=_eta_seconds(job, rate),
        problem=job.problem,
        options=EvaluationOptions.model_validate_json(job.options),
        links=_links(job_path(job.id)),
    )


def _links(path: str) -> JobLinks:
    return JobLinks(self=path, results=f"{path}/results", events=f"{path}/events", report=f"{path}/report")


def _rows_per_second(job: Job, now: float) -> float | None:
    if job.started is None:
        return None
    seconds = (now if job.ended is None else job.ended) - job.started
    return job.counts.done / seconds if seconds > 0 else None


def _eta_seconds(job: Job, rate: float | None) -> float | None:
    if job.state is not JobState.RUNNING or job.total is None or not rate:
        return None
    return round((job.total - job.counts.done) / rate, _DECIMALS)


def _utc(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


MAX_PAGE_ROWS: Final = 10_000
# A page that was page for is held whole, so that its header can say where the next begins; it may be shorter.
_MAX_PAGE_BYTES: Final = 8_388_608
# Rows that are page of the store at a time; one has some kilobytes.
_ROWS_AT_A_TIME: Final = 200
_MEDIA_TYPES: Final[Mapping[ResultsFormat, str]] = {"ndjson": NDJSON, "csv": CSV}


class ResultsPage(NamedTuple):
    """Which rows, and how: behind row `after`, at most `limit`; `named`: the format was page for by name."""

    after: int
    limit: int | None
    format: ResultsFormat
    named: bool


def results_format(accept: Sequence[str], named: ResultsFormat | None) -> ResultsFormat:
    """Return the format by its name, or by the Accept header.

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

    async def answer(self, page: ResultsPage) -> Response:
        """Return a page with a `Link` to the next one, or, without a limit, a stream of all finished rows."""
        media_type = _MEDIA_TYPES[page.format]
        if page.limit is None:
            return BackpressureResponse(lambda: self._all(page), media_type)
        lines, is_full = await self._page(page.after, page.limit)
        body = await asyncio.to_thread(_written, lines, page, is_first=page.after < 0)
        return Response(body, media_type=media_type, headers=self._link(page, lines, is_full=is_full))

    async def _all(self, page: ResultsPage) -> AsyncGenerator[bytes, None]:
        after, is_first = page.after, page.after < 0
        while True:
            lines = await self._lines(after, _ROWS_AT_A_TIME)
            if piece := await asyncio.to_thread(_written, lines, page, is_first=is_first):
                yield piece
            if not lines:
                return
            after, is_first = lines[-1].row, False

    async def _page(self, after: int, limit: int) -> tuple[list[ResultLine], bool]:
        """Return the page, and True if it ended because it was full."""
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

    def _link(self, page: ResultsPage, lines: Sequence[ResultLine], *, is_full: bool) -> dict[str, str]:
        """Return a `Link` to the next page while the job runs or rows can follow a full page."""
        last = lines[-1].row if lines else page.after
        has_rows_left = is_full and last + 1 < (self.job.total or 0)
        if self.job.state.is_ended and not has_rows_left:
            return {}
        query = {"after": last, "limit": page.limit, **({"format": page.format} if page.named else {})}
        return {"Link": f'<{job_path(self.job.id)}/results?{urlencode(query)}>; rel="next"'}


def _written(lines: Sequence[ResultLine], page: ResultsPage, *, is_first: bool) -> bytes:
    if page.format == "ndjson":
        return b"".join(each.line + b"\n" for each in lines)
    header = table_line(list(RESULT_COLUMNS), ",") if is_first else ""
    return (header + "".join(_cells(each.line) for each in lines)).encode()


def _cells(line: bytes) -> str:
    values = flat_result(msgspec.json.decode(line)).values()
    return table_line([format_cell(value) for value in values], ",")


_HTML: Final = "text/html; charset=utf-8"
# It holds texts of others: as a page of this service's origin it could speak to it.
_PAGE_HEADERS: Final = {"Content-Security-Policy": "sandbox allow-scripts", "X-Content-Type-Options": "nosniff"}
_REPORT_ROWS_AT_A_TIME: Final = 500
_MOST_WORST: Final = 1_000
# A report takes half a minute of one core for a million rows.
_CONCURRENT_REPORTS: Final = 1

REPORT: Final[dict[str, Any]] = {
    "model": ReportSummary,
    "description": "The report on the rows that are done up to now.",
    "content": {"text/html": {"schema": {"type": "string", "description": "One page that loads nothing."}}},
}


class ReportQuery(BaseModel):
    """Query parameters of a report."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: ReportFormat = Field(default="html", description="`json`: the figures without the page.")
    lang: ReportLanguage = Field(default="en", description="Of the page's own words.")
    baseline: str | None = Field(
        default=None, description="Id of an earlier job of yours to compare with, row by row of one `custom_id`."
    )
    worst: int = Field(default=DEFAULT_WORST, ge=0, le=_MOST_WORST, description="Rows shown with their sentences.")


class JobReports:
    """Makes reports, one at a time, in a thread."""

    def __init__(self) -> None:
        self._slot = asyncio.Semaphore(_CONCURRENT_REPORTS)

    async def answer(self, store: JobStore, job: Job, baseline: Job | None, query: ReportQuery) -> Response:
        """Return the report on a job's results, compared with `baseline` if given."""
        loop = asyncio.get_running_loop()

        def lines(of: Job) -> Iterator[bytes]:
            after = -1
            while True:
                page = store.results(of.tenant, of.id, after=after, limit=_REPORT_ROWS_AT_A_TIME)
                found = asyncio.run_coroutine_threadsafe(page, loop).result()
                yield from (each.line for each in found)
                if not found:
                    return
                after = found[-1].row

        def made() -> Response:
            builder = ReportBuilder(worst=query.worst, baseline=None if baseline is None else Baseline(lines(baseline)))
            for line in lines(job):
                builder.add(line)
            report = builder.report()
            if query.format == "json":
                return Response(report.summary.model_dump_json(), media_type=JSON)
            page = render_html(report, language=query.lang, title=job.name or job.id)
            return Response(page, media_type=_HTML, headers=_PAGE_HEADERS)

        async with self._slot:
            return await asyncio.to_thread(made)
