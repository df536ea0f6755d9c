"""Answers about jobs: state, results in input order, people's labels, and the report."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import urlencode

import msgspec
from fastapi import Response
from pydantic import BaseModel, Field

from plumbline.ground.errors import InvalidInput
from plumbline.ground.texts import Language, render
from plumbline.judging.text.sample import Sample
from plumbline.rows.jobs.job import Job, JobState, ResultLine
from plumbline.rows.jobs.labels import draw_rows, drawn_labels
from plumbline.rows.jobs.store import JobStore
from plumbline.rows.records.record import Record
from plumbline.rows.records.result_table import RESULT_COLUMNS, flat_result, format_cell, table_line
from plumbline.rows.report.building import DEFAULT_WORST, Report, ReportBuilder
from plumbline.rows.report.comparison import Baseline
from plumbline.rows.report.gates import parse_gate, with_usual
from plumbline.rows.report.labelled_rates import RateTally, RowLabel
from plumbline.rows.report.page import render_html
from plumbline.rows.report.result_lines import ResultRow, read_line
from plumbline.rows.scored_row import RowStatus, usage_item
from plumbline.schemas.batch import TierCounts
from plumbline.schemas.evaluation import EvaluationOptions
from plumbline.schemas.jobs import JobInfo, JobLinks, JobOutcomes, RequestCounts, ResultsFormat, job_path
from plumbline.schemas.language import render_line
from plumbline.schemas.report import ReportFormat, ReportLanguage, ReportSummary, TierRate
from plumbline.schemas.result_upgrade import upgrade_line
from plumbline.service.api.responses import CSV, JSON, NDJSON, BackpressureResponse

# Fewer make no rate: `rates.FEWEST_LABELS` of reports, whose module takes a second to import.
FEWEST: Final = 30


class LabelSample(NamedTuple):
    labels: Mapping[str | int, RowLabel]
    rows: Sequence[ResultRow]

    def rates(self) -> list[TierRate]:
        """Return the rates of the drawn rows, which are those of the job but for chance; none without labels."""
        tally = RateTally(self.labels)
        for row in self.rows:
            tally.add_row(row)
        return tally.rates() if self.labels else []


async def read_label_sample(store: JobStore, job: Job) -> LabelSample:
    """Return the labels of rows that were drawn at `/label`, empty below 30 of them."""
    labels = await store.labels(job.tenant, job.id)
    if len(labels) < FEWEST:
        return LabelSample({}, ())
    total = job.total or 0
    lines = [each.line for each in await store.read_rows(job.tenant, job.id, draw_rows(job.id, total))]

    def read() -> LabelSample:
        rows = [row for row in map(read_line, lines) if isinstance(row, ResultRow)]
        found = drawn_labels(job.id, total, labels, {row.row for row in rows if row.scored is not None})
        kept: dict[str | int, RowLabel] = {row: RowLabel(*each) for row, each in found.items()}
        return LabelSample(kept if len(kept) >= FEWEST else {}, rows)

    return await asyncio.to_thread(read)


T = TypeVar("T")

_ERRORS: Final = (RowStatus.INVALID, RowStatus.FAILED)
_DECIMALS: Final = 3


def job_info(job: Job, language: Language = "en", *, now: float | None = None) -> JobInfo:
    """Return the wire form of a job, with rate and remaining time at `now` (seconds since 1970)."""
    counts, failed = job.counts, sum(job.counts.by_status.get(status, 0) for status in _ERRORS)
    rate = eta_seconds = None
    if job.started is not None:
        now = time.time() if now is None else now
        until = now if job.ended is None else job.ended
        rate = counts.done / (until - job.started) if until > job.started else None
    if job.state is JobState.RUNNING and job.total is not None and rate:
        eta_seconds = round((job.total - counts.done) / rate, _DECIMALS)
    path = job_path(job.id)
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
            passed=counts.passed,
            not_passed=counts.not_passed,
            tiers=TierCounts(**counts.by_tier),
        ),
        usage=usage_item(counts.usage),
        max_cost=job.max_cost,
        rows_per_second=None if rate is None else round(rate, _DECIMALS),
        eta_seconds=eta_seconds,
        problem=job.problem and render(job.problem, language),
        options=EvaluationOptions.model_validate_json(job.options),
        links=JobLinks(self=path, results=f"{path}/results", report=f"{path}/report"),
    )


def _utc(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


MAX_PAGE_ROWS: Final = 10_000
# A page is held in memory, so that its header can name the next one; a page of long rows is shorter than its limit.
_MAX_PAGE_BYTES: Final = 8_388_608
# Rows of one query to the store; each has some kilobytes.
_ROWS_AT_A_TIME: Final = 200
RESULT_MEDIA_TYPES: Final[Mapping[ResultsFormat, str]] = {"ndjson": NDJSON, "csv": CSV}


class ResultsPage(NamedTuple):
    """At most `limit` rows after row `after`; `is_format_named`: the query names the format."""

    after: int
    limit: int | None
    format: ResultsFormat
    is_format_named: bool
    language: Language | None = None


async def answer_results(store: JobStore, job: Job, page: ResultsPage) -> Response:
    """Return a page of results with a `Link` to the next one, or, without a limit, a stream of all finished rows."""
    media_type = RESULT_MEDIA_TYPES[page.format]
    if page.limit is None:
        return BackpressureResponse(_stream(store, job, page), media_type)
    lines: list[ResultLine] = []
    after, is_full = page.after, True
    while len(lines) < page.limit and sum(len(each.line) for each in lines) < _MAX_PAGE_BYTES:
        found = await _read_lines(store, job, after, min(_ROWS_AT_A_TIME, page.limit - len(lines)))
        if not found:
            is_full = False
            break
        lines += found
        after = lines[-1].row
    body = await asyncio.to_thread(_encode, lines, page, is_first=page.after < 0)
    headers = {}
    # There is a next page while the job runs, or if rows are left after a full one.
    if not job.state.is_ended or (is_full and after + 1 < (job.total or 0)):
        query: dict[str, str | int] = {"after": after, "limit": page.limit}
        query |= {"format": page.format} if page.is_format_named else {}
        query |= {"lang": page.language} if page.language else {}
        headers["Link"] = f'<{job_path(job.id)}/results?{urlencode(query)}>; rel="next"'
    return Response(body, media_type=media_type, headers=headers)


async def _stream(store: JobStore, job: Job, page: ResultsPage) -> AsyncGenerator[bytes, None]:
    after, is_first = page.after, page.after < 0
    while True:
        lines = await _read_lines(store, job, after, _ROWS_AT_A_TIME)
        if piece := await asyncio.to_thread(_encode, lines, page, is_first=is_first):
            yield piece
        if not lines:
            return
        after, is_first = lines[-1].row, False


async def _read_lines(store: JobStore, job: Job, after: int, limit: int) -> list[ResultLine]:
    return await store.results(job.tenant, job.id, after=after, limit=limit)


def _encode(lines: Sequence[ResultLine], page: ResultsPage, *, is_first: bool) -> bytes:
    if page.format == "ndjson":
        return b"".join(render_line(upgrade_line(each.line), page.language) + b"\n" for each in lines)
    header = table_line(list(RESULT_COLUMNS), ",") if is_first else ""
    rows = (
        flat_result(msgspec.json.decode(render_line(upgrade_line(each.line), page.language))).values() for each in lines
    )
    return (header + "".join(table_line([format_cell(value) for value in row], ",") for row in rows)).encode()


# The page holds untrusted texts, so it must not act with this service's origin.
_PAGE_HEADERS: Final = {"Content-Security-Policy": "sandbox allow-scripts", "X-Content-Type-Options": "nosniff"}
_REPORT_ROWS_AT_A_TIME: Final = 500
# About a chunk, which is read as a whole.
_SAMPLE_ROWS_AT_A_TIME: Final = 100
_MOST_WORST: Final = 1_000
_MOST_GATES: Final = 50

REPORT: Final[dict[str, Any]] = {
    "model": ReportSummary,
    "description": "Report on the rows finished so far.",
    "content": {"text/html": {"schema": {"type": "string", "description": "One page without external resources."}}},
}


class ReportQuery(BaseModel, extra="forbid", frozen=True):
    format: ReportFormat = Field(default="html", description="`json`: the figures without the page.")
    lang: ReportLanguage | None = Field(
        default=None, description="Language of the page; default: by `Accept-Language`, else English."
    )
    baseline: str | None = Field(
        default=None, description="Id of an earlier job of yours, to compare rows with the same `custom_id`."
    )
    worst: int = Field(default=DEFAULT_WORST, ge=0, le=_MOST_WORST, description="Rows shown with their sentences.")
    gate: list[str] = Field(
        default=[],
        max_length=_MOST_GATES,
        description="Repeatable: `passed_share=0.9`, `llm:faithfulness=0.8`, `degraded=0.02`, `baseline=0.02`. "
        "`judged=0.95` and `decided=0.5` are gates unless you give others; a bound of 0 turns each of these off.",
    )


class JobReports:
    """Builds reports one after another, in a thread."""

    def __init__(self) -> None:
        # a report on a million rows takes one core half a minute
        self._lock = asyncio.Lock()

    async def answer(
        self, store: JobStore, job: Job, baseline: Job | None, query: ReportQuery, language: ReportLanguage
    ) -> Response:
        loop = asyncio.get_running_loop()
        gates = with_usual(map(parse_gate, query.gate))
        labels = (await read_label_sample(store, job)).labels

        def lines(of: Job) -> Iterator[bytes]:
            return result_lines(store, of, loop)

        def samples(report: Report) -> dict[str, Sample]:
            found = {}
            shown = (kept.row for kept in (*report.worst, *report.unscored))
            rows = sorted(row.row for row in shown if row.custom_id is not None)
            for _, near in groupby(rows, key=lambda row: row // _SAMPLE_ROWS_AT_A_TIME):
                reading = store.records(job.tenant, job.id, {*near})
                try:
                    records = asyncio.run_coroutine_threadsafe(reading, loop).result()
                except InvalidInput:
                    # The upload is lost
                    break
                found.update({each.custom_id: each.sample for each in records if isinstance(each, Record)})
            return found

        def build() -> Response:
            compared = None if baseline is None else Baseline(lines(baseline))
            builder = ReportBuilder(worst=query.worst, baseline=compared, labels=labels, gates=gates)
            for line in lines(job):
                builder.add(line)
            report = builder.report(pending=max(0, (job.total or 0) - builder.rows))
            if query.format == "json":
                return Response(report.summary.model_dump_json(), media_type=JSON)
            page = render_html(report, language=language, title=job.name or job.id, samples=samples(report))
            return Response(page, media_type="text/html; charset=utf-8", headers=_PAGE_HEADERS)

        return await self.in_turn(build)

    async def in_turn(self, build: Callable[[], T]) -> T:
        async with self._lock:
            return await asyncio.to_thread(build)


def result_lines(store: JobStore, job: Job, loop: asyncio.AbstractEventLoop) -> Iterator[bytes]:
    """Yield the lines of a job's finished rows, from a thread other than that of the store's loop."""
    after = -1
    while True:
        page = store.results(job.tenant, job.id, after=after, limit=_REPORT_ROWS_AT_A_TIME)
        found = asyncio.run_coroutine_threadsafe(page, loop).result()
        yield from (each.line for each in found)
        if not found:
            return
        after = found[-1].row
