"""/v1/jobs: many rows kept on disk and scored in the background."""

import asyncio
import re
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field, StringConstraints
from pydantic.json_schema import SkipJsonSchema

from plumbline.ground.errors import BadRequest, JobUnknown
from plumbline.ground.texts import CodedText
from plumbline.rows.jobs.job import Action, Job
from plumbline.rows.jobs.store import JobStore
from plumbline.rows.records.columns import PRESETS
from plumbline.schemas.batch import RowError, RowResult
from plumbline.schemas.jobs import (
    JOBS_PATH,
    JobChoices,
    JobInfo,
    JobList,
    JobRequest,
    ResultsFormat,
    RetryRequest,
    job_path,
)
from plumbline.schemas.report import ReportLanguage
from plumbline.service.api.auth import is_from_another_origin
from plumbline.service.api.dependencies import JobReportsDep, JobStoreDep, TenantDep
from plumbline.service.api.job_answers import (
    MAX_PAGE_ROWS,
    REPORT,
    RESULT_MEDIA_TYPES,
    ReportQuery,
    ResultsPage,
    answer_results,
    job_info,
)
from plumbline.service.api.job_upload import JobBody, JobUploads, new_job
from plumbline.service.api.json_body import StrictRoute
from plumbline.service.api.openapi import DOCUMENTS, SCHEMA_REFERENCE
from plumbline.service.api.problems import PROBLEM_RESPONSES, invalid_response, problem_responses
from plumbline.service.api.responses import (
    JSON,
    LANGUAGE,
    LanguageDep,
    choose_format,
    choose_language,
    name_language,
)

_MAX_LISTED: Final = 100
_MAX_ROW: Final = 2**53
_JOB_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")


_OPERATIONS_ON_A_JOB: Final = (
    "get_job", "get_job_results", "get_job_report", "pause_job", "resume_job", "cancel_job", "retry_job",
    "delete_job",
)  # fmt: skip
_LINKS: Final = {
    name: {"operationId": name, "parameters": {"job_id": "$response.body#/id"}} for name in _OPERATIONS_ON_A_JOB
}


class _Parameters(BaseModel, extra="forbid", frozen=True):
    lang: ReportLanguage | None = Field(default=None, description=LANGUAGE)


class _ListQuery(_Parameters):
    limit: int = Field(default=20, ge=1, le=_MAX_LISTED, description="Jobs of one page.")
    before: str | None = Field(default=None, description="Id of a job: list the jobs older than it.")


class _ResultsQuery(_Parameters):
    after: int = Field(default=-1, ge=-1, le=_MAX_ROW, description="Start after this row; -1: with the first.")
    limit: int | None = Field(
        default=None,
        ge=1,
        le=MAX_PAGE_ROWS,
        description="Rows of one page, fewer if they are long. Default: all finished rows, as a stream.",
    )
    format: ResultsFormat | None = Field(default=None, description="Default: by the `Accept` header, else `ndjson`.")


class _Nothing(_Parameters):
    """No further parameters, so that a misspelt one is refused."""


_JobId = Annotated[str, Path(description="The `id` of the job.")]
_IdempotencyKey = Annotated[
    Annotated[str, StringConstraints(pattern="^[!-~]{1,200}$")] | SkipJsonSchema[None],
    Header(
        alias="Idempotency-Key",
        description="1 to 200 visible ASCII characters of your choice. Repeating a request with the same key returns "
        "the same job; the same key with another request is refused.",
    ),
]


async def _refuse_other_origins(request: Request) -> None:
    # Browsers send POST without a body without preflight: any page could pause jobs of a local service.
    if is_from_another_origin(request):
        raise BadRequest(CodedText("page_of_another_origin"))


router = APIRouter(
    route_class=StrictRoute,
    responses=PROBLEM_RESPONSES,
    dependencies=[Depends(_refuse_other_origins)],
    tags=["jobs"],
)


@router.post(
    "/jobs",
    operation_id="submit_job",
    status_code=202,
    response_model=JobInfo,
    responses={202: {**DOCUMENTS["submitted"], "links": _LINKS}},
    openapi_extra=DOCUMENTS["submit_job"],
)
async def submit_job(
    request: Request, store: JobStoreDep, _: Annotated[_Nothing, Query()], idempotency_key: _IdempotencyKey = None
) -> Response:
    """Store rows and score them in the background, each as in a single evaluation.

    Rows come as one JSON body, or as a file in a form (`jsonl`, `json`, `csv`, `tsv`, `parquet`). They are read after
    the answer: a row that cannot be read gets an error of its own, a file that cannot be read makes the job `failed`.
    """
    uploads: JobUploads = request.app.state.job_uploads
    try:
        sent = await uploads.receive(request, store)
    except RequestValidationError as error:
        return invalid_response(request.scope, error, JobBody)
    new = new_job(request, sent.choices, idempotency_key=idempotency_key, fingerprint=sent.fingerprint)
    try:
        submission = await store.submit(new, sent.upload)
    except Exception:
        # not if cancelled: the store may have taken the file
        await asyncio.to_thread(sent.upload.path.unlink, missing_ok=True)
        raise
    headers = {"Location": job_path(submission.job.id)}
    if not submission.is_new:
        headers["Idempotency-Replayed"] = "true"
    return Response(job_info(submission.job, choose_language(request)).model_dump_json(), 202, headers, JSON)


async def _get_job(store: JobStore, tenant: str, job_id: str) -> Job:
    # In the routes, not a dependency: an invalid request is refused before the store is asked.
    return await store.get(tenant, checked_id(job_id))


@router.get("/jobs", operation_id="list_jobs", responses=problem_responses(404))
async def list_jobs(
    store: JobStoreDep, tenant: TenantDep, query: Annotated[_ListQuery, Query()], language: LanguageDep
) -> JobList:
    """List the caller's jobs, newest first."""
    before = None if query.before is None else checked_id(query.before)
    jobs = await store.jobs(tenant, before=before, limit=query.limit + 1)
    page = jobs[: query.limit]
    following = f"{JOBS_PATH}?limit={query.limit}&before={page[-1].id}" if len(jobs) > query.limit else None
    return JobList(jobs=[job_info(job, language) for job in page], next=following)


@router.get("/jobs/{job_id}", operation_id="get_job", responses=problem_responses(404))
async def get_job(
    store: JobStoreDep, tenant: TenantDep, job_id: _JobId, _: Annotated[_Nothing, Query()], language: LanguageDep
) -> JobInfo:
    """Return the state and progress of a job. To follow it, ask again every few seconds."""
    return job_info(await _get_job(store, tenant, job_id), language)


@router.get(
    "/jobs/{job_id}/results",
    operation_id="get_job_results",
    response_class=Response,
    responses={**problem_responses(404), 200: DOCUMENTS["results"]},
)
async def get_job_results(
    request: Request,
    store: JobStoreDep,
    tenant: TenantDep,
    job_id: _JobId,
    query: Annotated[_ResultsQuery, Query()],
) -> Response:
    """Return results in row order, also while the job runs: those after `after`, up to the first unfinished row.

    To follow a running job, ask with a `limit` and follow the `Link` header until there is none; without a limit, ask
    again with `after` set to the last row received.
    """
    form = choose_format(request.headers.getlist("accept"), RESULT_MEDIA_TYPES, query.format)
    job = await _get_job(store, tenant, job_id)
    page = ResultsPage(query.after, query.limit, form, query.format is not None, name_language(request))
    return await answer_results(store, job, page)


@router.get(
    "/jobs/{job_id}/report",
    operation_id="get_job_report",
    response_class=Response,
    responses={**problem_responses(404), 200: REPORT},
)
async def get_job_report(
    request: Request,
    store: JobStoreDep,
    tenant: TenantDep,
    *,
    reports: JobReportsDep,
    job_id: _JobId,
    query: Annotated[ReportQuery, Query()],
) -> Response:
    """Report on a job, also while it runs: scores by tier with intervals, the worst rows, a comparison."""
    job = await _get_job(store, tenant, job_id)
    baseline = None if query.baseline is None else await _get_job(store, tenant, query.baseline)
    return await reports.answer(store, job, baseline, query, choose_language(request))


_CONFLICTS: Final = problem_responses(404, 409)


def _add_action(action: Action, description: str) -> None:
    async def act(store: JobStoreDep, tenant: TenantDep, job_id: _JobId, language: LanguageDep) -> JobInfo:
        return job_info(await store.act(tenant, checked_id(job_id), action), language)

    router.add_api_route(
        f"/jobs/{{job_id}}/{action}",
        act,
        methods=["POST"],
        operation_id=f"{action}_job",
        summary=f"{action.capitalize()} Job",
        description=f"{description} Idempotent.",
        responses=_CONFLICTS,
        response_model=JobInfo,
    )


_add_action("pause", "Start no more rows. Rows in flight are finished, and nothing is lost.")
_add_action("resume", "Continue a paused job.")
_add_action("cancel", "End the job. Finished rows stay readable; the others are not scored.")


@router.post("/jobs/{job_id}/retry", operation_id="retry_job", responses=_CONFLICTS)
async def retry_job(
    store: JobStoreDep, tenant: TenantDep, job_id: _JobId, choice: RetryRequest, language: LanguageDep
) -> JobInfo:
    """Score rows of an ended job again: those that failed, or those that fell to a lower tier."""
    return job_info(await store.retry(tenant, checked_id(job_id), choice.select), language)


@router.delete("/jobs/{job_id}", operation_id="delete_job", status_code=204, responses=problem_responses(404))
async def delete_job(store: JobStoreDep, tenant: TenantDep, job_id: _JobId) -> None:
    """Delete a job, its rows and its results; a running job is cancelled."""
    await store.delete(tenant, checked_id(job_id))


def checked_id(job_id: str) -> str:
    if not _JOB_ID.fullmatch(job_id):
        raise JobUnknown(CodedText("no_such_job"))
    return job_id


def job_schemas() -> dict[str, Any]:
    schemas: dict[str, Any] = {}
    for model in (JobRequest, JobChoices, JobInfo, RowResult, RowError):
        schema = model.model_json_schema(
            ref_template=SCHEMA_REFERENCE, mode="validation" if issubclass(model, JobChoices) else "serialization"
        )
        schemas |= {**schema.pop("$defs", {}), model.__name__: schema}
        if "columns" in schema["properties"]:
            schema["properties"]["columns"]["anyOf"][0]["enum"] = list(PRESETS)
    return schemas
