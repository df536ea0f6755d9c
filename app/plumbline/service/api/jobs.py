"""/v1/jobs: many rows kept on disk and scored in the background; what is asked of them meanwhile and after."""

import asyncio
import re
from collections.abc import Callable, Collection
from typing import Annotated, Any, Final, Literal, get_args

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from pydantic.json_schema import SkipJsonSchema

from plumbline.ground.errors import BadRequest, InvalidInput, JobUnknown
from plumbline.ground.settings import Settings
from plumbline.rows.jobs.job import Action, Job, NewJob
from plumbline.rows.jobs.store import JobStore, Submission
from plumbline.schemas.jobs import JobInfo, JobList, ResultsFormat, RetryRequest
from plumbline.schemas.problem import VALIDATION
from plumbline.service.api.auth import tenant_of
from plumbline.service.api.job_choices import ChoicesReader, ChoicesRefused
from plumbline.service.api.job_documents import EVENTS, RESULTS, SUBMIT_BODY, SUBMITTED
from plumbline.service.api.job_events import EVENT_ID_PATTERN, EventsDesk, EventStream, JobEvents, event_id
from plumbline.service.api.job_report import REPORT, JobReports, ReportQuery
from plumbline.service.api.job_results import MAX_PAGE_ROWS, Asked, JobResults, results_format
from plumbline.service.api.job_upload import JobUploads, SentRows
from plumbline.service.api.job_wire import JOBS_PATH, job_info, job_path
from plumbline.service.api.origin import is_from_another_origin
from plumbline.service.api.problems import PROBLEM_RESPONSES, problem_response, problem_responses
from plumbline.service.api.strict_json import StrictRoute

StoreOf = Callable[[Request], JobStore]

_MAX_LISTED: Final = 100
# SQLite's and PostgreSQL's own bound on a row number is far beyond.
_MAX_ROW: Final = 2**53
_JOB_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")
_SAID_OF_ACTIONS: Final[dict[Action, str]] = {
    "pause": "Begin no more rows. Those that are begun are finished, and nothing is lost.",
    "resume": "Go on with a paused job.",
    "cancel": "End the job. What is done stays readable; what is not done stays undone.",
}


class _Parameters(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _ListQuery(_Parameters):
    limit: int = Field(default=20, ge=1, le=_MAX_LISTED, description="Jobs of one page.")
    before: str | None = Field(default=None, description="Id of a job: those older than it.")


class _ResultsQuery(_Parameters):
    after: int = Field(default=-1, ge=-1, le=_MAX_ROW, description="Row behind which to begin; -1: with the first.")
    limit: int | None = Field(
        default=None,
        ge=1,
        le=MAX_PAGE_ROWS,
        description="Rows of one page, fewer where they are long. Default: all that are there, as a stream.",
    )
    format: ResultsFormat | None = Field(default=None, description="Default: by the `Accept` header, else `ndjson`.")


class _Nothing(_Parameters):
    """No parameters: one that is misspelt is told so."""


_JobId = Annotated[str, Path(description="As the job's `id` says.")]
_IdempotencyKey = Annotated[
    Annotated[str, StringConstraints(pattern="^[!-~]{1,200}$")] | SkipJsonSchema[None],
    Header(
        alias="Idempotency-Key",
        description="1 to 200 visible ASCII characters of your choice. The same key with the same request names the "
        "same job, however often it is sent; with another request it is refused.",
    ),
]
_LastEventId = Annotated[
    str | SkipJsonSchema[None],
    Header(
        alias="Last-Event-ID",
        json_schema_extra={"pattern": EVENT_ID_PATTERN},
        description="`id` of the last event that was read; browsers send it themselves. Every state behind it is told.",
    ),
]


async def _refuse_other_origins(request: Request) -> None:
    # A page of anybody's could pause or cancel jobs of a service on its reader's machine: no body, no question asked.
    if is_from_another_origin(request):
        raise BadRequest("a request from a page of another origin is not taken")


def job_routes(
    settings: Settings,
    store_of: StoreOf,
    desk_of: Callable[[Request], EventsDesk],
    *,
    judge_names: Collection[str] = (),
) -> APIRouter:
    """The routes of jobs, with the limits of these settings. Under `JOBS_PATH` the edge must not hold the body.

    Args:
        desk_of: what the streams of events share.
        judge_names: those that options may name.
    """
    router = APIRouter(
        route_class=StrictRoute,
        responses={**PROBLEM_RESPONSES, **problem_responses(503)},
        dependencies=[Depends(_refuse_other_origins)],
        tags=["jobs"],
    )
    _add_submission(router, settings, store_of, judge_names)
    _add_looks(router, store_of, desk_of)
    _add_changes(router, store_of)
    return router


def _add_submission(router: APIRouter, settings: Settings, store_of: StoreOf, judge_names: Collection[str]) -> None:
    uploads = JobUploads(ChoicesReader(judge_names), max_json_bytes=settings.max_batch_body_bytes)

    @router.post(
        "/jobs",
        operation_id="submit_job",
        status_code=202,
        response_model=JobInfo,
        responses={202: SUBMITTED},
        openapi_extra=SUBMIT_BODY,
    )
    async def submit_job(request: Request, idempotency_key: _IdempotencyKey = None) -> Response:
        """Keep rows and score them in the background, each as by a single evaluation.

        Rows come as one JSON body, as lines, or as a file in a form (`jsonl`, `json`, `csv`, `tsv`, `parquet`). They
        are read after the answer: a row that cannot be read gets an error of its own, a file that cannot be read
        makes the job `failed`.
        """
        store = store_of(request)
        try:
            sent = await uploads.taken(request, store)
        except ChoicesRefused as refused:
            return problem_response(request.scope, VALIDATION, detail=str(refused), errors=refused.problems)
        submission = await _submitted(store, sent, tenant_of(request), idempotency_key)
        return _accepted(submission)


async def _submitted(store: JobStore, sent: SentRows, tenant: str, idempotency_key: str | None) -> Submission:
    new = NewJob(
        tenant=tenant,
        options=sent.choices.options.model_dump_json().encode(),
        name=sent.choices.name,
        max_cost=sent.choices.max_cost,
        idempotency_key=idempotency_key,
        fingerprint=sent.fingerprint,
    )
    try:
        return await store.submit(new, sent.upload)
    except Exception:
        # Not when cancelled: the store may have taken the file.
        await asyncio.to_thread(sent.upload.path.unlink, missing_ok=True)
        raise


def _accepted(submission: Submission) -> Response:
    headers = {"Location": job_path(submission.job.id)}
    if not submission.is_new:
        headers["Idempotency-Replayed"] = "true"
    body = job_info(submission.job).model_dump_json()
    return Response(body, 202, headers, "application/json")


def _add_looks(router: APIRouter, store_of: StoreOf, desk_of: Callable[[Request], EventsDesk]) -> None:
    async def found(request: Request, job_id: str) -> Job:
        return await store_of(request).get(tenant_of(request), _known(job_id))

    @router.get("/jobs", operation_id="list_jobs", responses=problem_responses(404))
    async def list_jobs(request: Request, query: Annotated[_ListQuery, Query()]) -> JobList:
        """The caller's jobs, newest first."""
        before = None if query.before is None else _known(query.before)
        jobs = await store_of(request).jobs(tenant_of(request), before=before, limit=query.limit + 1)
        page = jobs[: query.limit]
        following = f"{JOBS_PATH}?limit={query.limit}&before={page[-1].id}" if len(jobs) > query.limit else None
        return JobList(jobs=[job_info(job) for job in page], next=following)

    @router.get("/jobs/{job_id}", operation_id="get_job", responses=problem_responses(404))
    async def get_job(request: Request, job_id: _JobId, _: Annotated[_Nothing, Query()]) -> JobInfo:
        """Where a job stands."""
        return job_info(await found(request, job_id))

    @router.get(
        "/jobs/{job_id}/results",
        operation_id="get_job_results",
        response_class=Response,
        responses={**problem_responses(404, 406), 200: RESULTS},
    )
    async def get_job_results(request: Request, job_id: _JobId, query: Annotated[_ResultsQuery, Query()]) -> Response:
        """Results in the order of the rows, also while the job runs: those behind `after`, up to the first not done.

        To read along, ask with a `limit` and follow the `Link` header until there is none; without one, ask again
        behind the last row that came.
        """
        form = results_format(request.headers.getlist("accept"), query.format)
        results = JobResults(store_of(request), await found(request, job_id))
        return await results.answer(Asked(query.after, query.limit, form, query.format is not None))

    reports = JobReports()

    @router.get(
        "/jobs/{job_id}/report",
        operation_id="get_job_report",
        response_class=Response,
        responses={**problem_responses(404), 200: REPORT},
    )
    async def get_job_report(request: Request, job_id: _JobId, query: Annotated[ReportQuery, Query()]) -> Response:
        """What came of a job, also while it runs: scores by tier with intervals, the worst rows, a comparison."""
        baseline = None if query.baseline is None else await found(request, query.baseline)
        return await reports.answer(store_of(request), await found(request, job_id), baseline, query)

    @router.get(
        "/jobs/{job_id}/events",
        operation_id="watch_job",
        response_class=Response,
        responses={**problem_responses(404), **EVENTS},
    )
    async def watch_job(
        request: Request, job_id: _JobId, _: Annotated[_Nothing, Query()], last_event_id: _LastEventId = None
    ) -> Response:
        """Server-sent events of a job: its state now, then every change, until it has ended."""
        told = None if last_event_id is None else event_id(last_event_id)
        job = await found(request, job_id)
        if told is not None and told.seq > job.seq:
            raise InvalidInput("names an event that this job has not had", place="Last-Event-ID")
        if told is not None and told.seq == job.seq and job.state.is_ended:
            return Response(status_code=204)
        desk = desk_of(request)
        return EventStream(JobEvents(store_of(request), job, told, pause=desk.pause), desk.slots)


def _add_changes(router: APIRouter, store_of: StoreOf) -> None:
    refusals = problem_responses(404, 409)
    for action in get_args(Action):
        router.add_api_route(
            f"/jobs/{{job_id}}/{action}",
            _acting(store_of, action),
            methods=["POST"],
            operation_id=f"{action}_job",
            summary=f"{action.capitalize()} Job",
            description=f"{_SAID_OF_ACTIONS[action]} Repeating it changes nothing.",
            responses=refusals,
            response_model=JobInfo,
        )

    @router.post("/jobs/{job_id}/retry", operation_id="retry_job", responses=refusals)
    async def retry_job(request: Request, job_id: _JobId, choice: RetryRequest) -> JobInfo:
        """Score rows again once the job has ended: those that failed, or exactly those that fell to a lower tier."""
        return job_info(await store_of(request).retry(tenant_of(request), _known(job_id), choice.select))

    @router.delete("/jobs/{job_id}", operation_id="delete_job", status_code=204, responses=problem_responses(404))
    async def delete_job(request: Request, job_id: _JobId) -> None:
        """Forget a job, its rows and its results; one that runs is cancelled."""
        await store_of(request).delete(tenant_of(request), _known(job_id))


def _acting(store_of: StoreOf, action: Literal["pause", "resume", "cancel"]) -> Callable[..., Any]:
    async def act(request: Request, job_id: _JobId) -> JobInfo:
        return job_info(await store_of(request).act(tenant_of(request), _known(job_id), action))

    return act


def _known(job_id: str) -> str:
    """The id, if it can be one: no store is asked for what no id looks like."""
    if not _JOB_ID.fullmatch(job_id):
        raise JobUnknown("there is no such job")
    return job_id
