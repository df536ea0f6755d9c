"""The pages of jobs at `/runs`: the list, one run and its rows; live while a job runs."""

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import Annotated, Final, Literal, NamedTuple, get_args

from fastapi import APIRouter, Depends, Path, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from plumbline.ground.errors import InvalidInput, JobUnknown
from plumbline.ground.texts import CodedText
from plumbline.judging.text.sample import Sample
from plumbline.rows.jobs.job import TRANSITIONS, Action, Job, ResultLine, RowFilter
from plumbline.rows.jobs.store import JobStore
from plumbline.rows.records.record import Record
from plumbline.rows.report.judged_answer import judged_answer
from plumbline.rows.report.result_lines import HeadResult, ResultRow, read_head, read_line
from plumbline.rows.report.shown_rows import KeptRow, shown_row
from plumbline.rows.report.tallies import BARS, score_bar, wilson_share
from plumbline.rows.scored_row import RowStatus
from plumbline.schemas.jobs import JobInfo
from plumbline.schemas.report import ShareEstimate
from plumbline.schemas.result_parts import TierName
from plumbline.service.api.dependencies import JobReportsDep, JobStoreDep, TenantDep
from plumbline.service.api.job_answers import ReportQuery, job_info, read_label_sample
from plumbline.service.api.jobs import checked_id
from plumbline.service.api.responses import JSON, choose_language
from plumbline.service.web.pages import refuse_other_origins, render_page, see_other

TIERS: Final[tuple[TierName, ...]] = get_args(TierName)
# The picture of a trend, in SVG units.
_WIDTH: Final = 640.0
_HEIGHT: Final = 160.0
_MARGIN: Final = 14.0


class Run(NamedTuple):
    """A job; `rate`: of the `counted` rows that passed, None without a decision; `versions` by what they are of."""

    info: JobInfo
    rate: ShareEstimate | None
    counted: int
    versions: Mapping[str, str]
    changed: tuple[str, ...] = ()


class TrendPoint(NamedTuple):
    run: Run
    x: float
    y: float
    top: float
    bottom: float


def run_of(job: Job) -> Run:
    counts = job.counts
    versions: Mapping[str, str] = json.loads(job.versions or "{}")
    # Rows that were not judged, and unsure ones, did not pass
    counted = counts.done - counts.by_status.get(RowStatus.ABSTAINED, 0)
    has_rate = counts.passed + counts.not_passed > 0
    rate = wilson_share(counts.passed / counted, counted) if has_rate else None
    return Run(job_info(job), rate, counted, versions)


def with_changes(runs: Sequence[Run]) -> list[Run]:
    """Return runs of one name, newest first, each with the versions in which it differs from the one before it."""
    changed = [
        newer._replace(
            changed=tuple(name for name in newer.versions if newer.versions[name] != older.versions.get(name))
            if newer.versions and older.versions
            else ()
        )
        for newer, older in pairwise(runs)
    ]
    return [*changed, *runs[-1:]]


def trend(runs: Sequence[Run]) -> list[TrendPoint]:
    found = [(run, run.rate) for run in reversed(runs) if run.rate is not None]
    step = (_WIDTH - 2 * _MARGIN) / max(1, len(found) - 1)

    def height(share: float) -> float:
        return round(_MARGIN + (1.0 - share) * (_HEIGHT - 2 * _MARGIN), 1)

    return [
        TrendPoint(run, round(_MARGIN + place * step, 1), height(rate.share), height(rate.high), height(rate.low))
        for place, (run, rate) in enumerate(found)
    ]


RUNS_PATH: Final = "/runs"
_RUNS_OF_A_PAGE: Final = 50
_ROWS_OF_A_PAGE: Final = 50
_SORTS: Final = ("worst", "best", "unsure")
# Rows among which the most uncertain one is looked for, and those of a histogram.
_MOST_RANKED: Final = 5_000
_ROWS_DRAWN: Final = 1_000
_PASSED: Final[Mapping[str, bool | Literal["unsure"]]] = {"yes": True, "no": False, "unsure": "unsure"}
_ROWS_AT_A_TIME: Final = 500
_MAX_ROW: Final = 2**53


class _ListQuery(BaseModel, frozen=True):
    name: str = Field(default="", max_length=200)
    before: str | None = None


class _RowsQuery(BaseModel, frozen=True):
    after: int = Field(default=-1, ge=-1, le=_MAX_ROW)
    status: str = ""
    tier: str = ""
    passed: str = ""
    sort: str = ""

    def filter(self) -> RowFilter:
        status = self.status if self.status in set(RowStatus) else None
        tier = self.tier if self.tier in TIERS else None
        return RowFilter(status, tier, _PASSED.get(self.passed))


class _RowQuery(BaseModel, frozen=True):
    person: str = Field(default="", max_length=100)


_Row = Annotated[int, Path(ge=0, le=_MAX_ROW)]


async def _find_job(store: JobStoreDep, tenant: TenantDep, job_id: Annotated[str, Path()]) -> Job:
    return await store.get(tenant, checked_id(job_id))


# The job of a page's path
JobDep = Annotated[Job, Depends(_find_job)]
router = APIRouter(prefix=RUNS_PATH, include_in_schema=False)


@router.get("")
async def show_runs(
    request: Request, store: JobStoreDep, tenant: TenantDep, query: Annotated[_ListQuery, Query()]
) -> Response:
    before = checked_id(query.before) if query.before else None
    jobs = await store.jobs(tenant, before=before, limit=_RUNS_OF_A_PAGE + 1, name=query.name or None)
    runs = [run_of(job) for job in jobs[:_RUNS_OF_A_PAGE]]
    if query.name:
        runs = with_changes(runs)
    older = runs[-1].info.id if len(jobs) > _RUNS_OF_A_PAGE else None
    points = trend(runs) if query.name else []
    return render_page(request, "runs.html", runs=runs, query=query, older=older, points=points)


@router.get("/{job_id}")
async def show_run(
    request: Request, store: JobStoreDep, job: JobDep, query: Annotated[_RowsQuery, Query()]
) -> Response:
    if query.sort in _SORTS:
        ranked = (await _rows_by_score(store, job, query))[query.after + 1 :][: _ROWS_OF_A_PAGE + 1]
        by_row = {each.row: each for each in await store.read_rows(job.tenant, job.id, ranked)}
        lines = [by_row[row] for row in ranked if row in by_row]
        last = query.after + _ROWS_OF_A_PAGE
    else:
        lines = await store.find_rows(
            job.tenant, job.id, after=query.after, limit=_ROWS_OF_A_PAGE + 1, where=query.filter()
        )
        last = lines[:_ROWS_OF_A_PAGE][-1].row if lines else -1
    rows = [
        row for row in map(read_line, (each.line for each in lines[:_ROWS_OF_A_PAGE])) if isinstance(row, ResultRow)
    ]
    return render_page(
        request,
        "run.html",
        run=run_of(job),
        rates=await asyncio.to_thread((await read_label_sample(store, job)).rates),
        rows=[shown_row(KeptRow(row, is_cut=False), rank) for rank, row in enumerate(rows)],
        following=last if len(lines) > _ROWS_OF_A_PAGE else None,
        histograms=await _histograms(store, job) if query.after < 0 else [],
        query=query,
        statuses=[status.value for status in RowStatus],
        tiers=TIERS,
        actions=[name for name in get_args(Action) if job.state in TRANSITIONS[name]],
        is_live=not job.state.is_ended,
    )


async def _rows_by_score(store: JobStore, job: Job, query: _RowsQuery, *, most: int | None = None) -> list[int]:
    found: list[tuple[bool, float, int]] = []
    sign, after = -1.0 if query.sort == "best" else 1.0, -1
    ranked_by = attrgetter("confidence" if query.sort == "unsure" else "faithfulness")

    def scores(lines: Sequence[ResultLine]) -> list[tuple[bool, float, int]]:
        heads = [(each.row, _result_of(each)) for each in lines]
        scored = [(row, None if result is None else ranked_by(result)) for row, result in heads]
        return [(score is None, sign * (score or 0.0), row) for row, score in scored]

    while page := await store.find_rows(job.tenant, job.id, after=after, limit=_ROWS_AT_A_TIME, where=query.filter()):
        found += await asyncio.to_thread(scores, page)
        after = page[-1].row
        if most is not None and len(found) >= most:
            break
    return [row for _, _, row in sorted(found)]


def _result_of(line: ResultLine) -> HeadResult | None:
    try:
        return read_head(line.line).result
    except InvalidInput:
        return None


@router.get("/{job_id}/unsure")
async def show_most_unsure(
    request: Request, store: JobStoreDep, job: JobDep, query: Annotated[_RowQuery, Query()]
) -> Response:
    """Go to the row without a label that the tiers are least sure of: those without a decision come first."""
    labelled = {each.row for each in await store.labels(job.tenant, job.id)}
    for passed in ("unsure", ""):
        wanted = _RowsQuery(sort="unsure", passed=passed, status=RowStatus.JUDGED)
        for row in await _rows_by_score(store, job, wanted, most=_MOST_RANKED):
            if row not in labelled:
                return see_other(request, f"{RUNS_PATH}/{job.id}/rows/{row}", person=query.person)
    return see_other(request, f"{RUNS_PATH}/{job.id}")


class TierHistogram(NamedTuple):
    """Rows of a tier by their score, in bars of equal width."""

    tier: str
    judged: int
    histogram: Sequence[int]


async def _histograms(store: JobStore, job: Job) -> list[TierHistogram]:
    lines = await store.find_rows(job.tenant, job.id, after=-1, limit=_ROWS_DRAWN, where=RowFilter())

    def count() -> list[TierHistogram]:
        bars: defaultdict[str, Counter[int]] = defaultdict(Counter)
        for result in map(_result_of, lines):
            if result is not None and result.faithfulness is not None and result.tier is not None:
                bars[result.tier][score_bar(result.faithfulness)] += 1
        return [TierHistogram(name, each.total(), [each[bar] for bar in range(BARS)]) for name, each in bars.items()]

    return await asyncio.to_thread(count)


@router.get("/{job_id}/rows/{row}")
async def show_row(
    request: Request, store: JobStoreDep, job: JobDep, row: _Row, query: Annotated[_RowQuery, Query()]
) -> Response:
    lines = await store.read_rows(job.tenant, job.id, [row])
    texts, problem = await texts_of(store, job, row)
    if not lines and texts is None and problem is None:
        raise JobUnknown(CodedText("no_such_row"))
    read = read_line(lines[0].line) if lines else None
    result = read.result if isinstance(read, ResultRow) else None
    return render_page(
        request,
        "run_row.html",
        run=run_of(job),
        row=row,
        custom_id=read.custom_id if isinstance(read, ResultRow) else None,
        error=read.error if isinstance(read, ResultRow) else None,
        shown=None if result is None else judged_answer(result, texts),
        labels=[each for each in await store.labels(job.tenant, job.id) if each.row == row],
        person=query.person,
        texts=texts,
        problem=problem,
    )


@router.get("/{job_id}/report")
async def show_report(request: Request, store: JobStoreDep, reports: JobReportsDep, job: JobDep) -> Response:
    return await reports.answer(store, job, None, ReportQuery(), choose_language(request))


@router.get("/{job_id}/state")
async def show_state(job: JobDep) -> Response:
    return Response(job_info(job).model_dump_json(), media_type=JSON, headers={"Cache-Control": "no-store"})


@router.post("/{job_id}/{action}", dependencies=[Depends(refuse_other_origins)])
async def act(request: Request, store: JobStoreDep, job: JobDep, action: Annotated[Action, Path()]) -> Response:
    await store.act(job.tenant, job.id, action)
    return see_other(request, f"{RUNS_PATH}/{job.id}")


async def texts_of(store: JobStore, job: Job, row: int) -> tuple[Sample | None, str | None]:
    try:
        record = await store.record(job.tenant, job.id, row)
    except InvalidInput as lost:
        return None, lost.detail
    if not isinstance(record, Record):
        return None, None if record is None else record.text
    return record.sample, None
