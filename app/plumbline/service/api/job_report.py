"""The report on a job: its results, read once, as one page that loads nothing, or as its figures."""

import asyncio
from collections.abc import Iterator
from typing import Any, Final

from fastapi import Response
from pydantic import BaseModel, ConfigDict, Field

from plumbline.rows.jobs.job import Job
from plumbline.rows.jobs.store import JobStore
from plumbline.rows.report.baseline import Baseline
from plumbline.rows.report.building import DEFAULT_WORST, ReportBuilder
from plumbline.rows.report.page import render_html
from plumbline.schemas.report import ReportFormat, ReportLanguage, ReportSummary
from plumbline.service.api.batch_answer import JSON

HTML: Final = "text/html; charset=utf-8"
# It holds texts of others: as a page of this service's origin it could speak to it.
_PAGE_HEADERS: Final = {"Content-Security-Policy": "sandbox allow-scripts", "X-Content-Type-Options": "nosniff"}
_ROWS_AT_A_TIME: Final = 500
_MOST_WORST: Final = 1_000
# A report takes half a minute of one core for a million rows.
_AT_ONCE: Final = 1

REPORT: Final[dict[str, Any]] = {
    "model": ReportSummary,
    "description": "The report on the rows that are done up to now.",
    "content": {"text/html": {"schema": {"type": "string", "description": "One page that loads nothing."}}},
}


class ReportQuery(BaseModel):
    """How a report is wanted."""

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
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def answer(self, store: JobStore, job: Job, baseline: Job | None, query: ReportQuery) -> Response:
        """The report on a job's results, compared with those of `baseline` where there is one."""
        loop = asyncio.get_running_loop()

        def lines(of: Job) -> Iterator[bytes]:
            after = -1
            while True:
                page = store.results(of.tenant, of.id, after=after, limit=_ROWS_AT_A_TIME)
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
            return Response(page, media_type=HTML, headers=_PAGE_HEADERS)

        async with self._turns:
            return await asyncio.to_thread(made)
