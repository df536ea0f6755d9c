"""The composition root of the service: connects the routes to the parts that `assembly` builds."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import structlog
from fastapi import Depends, FastAPI
from fastapi_offline import FastAPIOffline

from plumbline.assembly import Plan, build, job_versions, make_plan, open_jobs
from plumbline.ground.settings import Settings, load_settings
from plumbline.ground.version import VERSION
from plumbline.judging.ports.models import SentenceEncoder
from plumbline.rows.jobs.store import JobStore
from plumbline.schemas.jobs import JOBS_PATH
from plumbline.schemas.operations import VersionReport
from plumbline.service.access.access import build_access
from plumbline.service.access.keys import Scope
from plumbline.service.api import jobs, operations, retrieval
from plumbline.service.api.auth import Admission, Authenticator, make_key_check
from plumbline.service.api.body_stream import BodyLimit, BodyLimits
from plumbline.service.api.compat import compat_keys, compat_routes, tool_document_routes
from plumbline.service.api.edge import install_edge
from plumbline.service.api.evaluations import BATCH_PATH, batch_routes, batch_schemas, evaluation_routes, has_deadline
from plumbline.service.api.job_answers import JobReports
from plumbline.service.api.job_upload import JobUploads
from plumbline.service.api.openapi import DESCRIPTION, add_schemas, message_schemas
from plumbline.service.api.problems import install_problem_handlers
from plumbline.service.api.responses import document_language
from plumbline.service.tracing import Tracing
from plumbline.service.web import comparison_page, label_pages, retrieval_pages, run_pages
from plumbline.service.web.pages import cookie_keys, is_about_jobs, needs_caller
from plumbline.service.web.playground import playground_routes
from plumbline.service.web.refusals import ProblemPages, key_routes
from plumbline.service.web.upload_pages import UPLOAD_PATH, upload_routes
from plumbline.service.worker_share import build_listeners

# FastAPI's own telemetry, on by default when the process has an OpenTelemetry provider, records paths, queries and
# exception messages, which hold callers' texts. `plumbline.service.tracing` replaces it. Older releases have none, and
# would keep the option as an unknown extra.
_NO_TELEMETRY: Final[dict[str, Any]] = (
    {"telemetry": {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}}
    if find_spec("fastapi.telemetry")
    else {}
)


def create_app(
    settings: Settings | None = None,
    *,
    encoder: SentenceEncoder | None = None,
    store: JobStore | None = None,
    tracing: Tracing | None = None,
    metrics_folder: Path | None = None,
) -> FastAPI:
    """Build the service as an ASGI app. Settings, prompts and calibrations are validated before anything is served.

    Args:
        settings: None to read them from the environment.
        encoder: replaces the sentence-transformers model.
        store: replaces the job store of the settings; its jobs have no worker here.
        tracing: replaces the tracing of the settings.
        metrics_folder: where the counts of all processes that serve together lie; None for one.

    Raises ConfigurationError, CalibrationError: with one line that says what is wrong.
    """
    settings = settings or load_settings()
    plan = make_plan(settings, encoder=encoder)
    access = build_access(settings, processes=settings.workers)
    listeners = build_listeners(settings, tracing=tracing, folder=metrics_folder)
    metrics, traces = listeners

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            if traces is not None:
                stack.push_async_callback(asyncio.to_thread, traces.close)
            app.state.service = build(plan, stack, observer=listeners.observer)
            app.state.jobs = store or await open_jobs(
                plan,
                app.state.service.scorer,
                stack,
                pause_reason=access.keyring.pause_reason,
                observer=listeners.observer,
            )
            work = app.state.service.scorer.work
            access.gate.watch_rate(lambda: work["long"].characters_per_second)
            metrics.watch_work(work)
            metrics.watch_encoder(app.state.service.encoder)
            stack.callback(asyncio.create_task(metrics.watch_loop()).cancel)
            app.state.job_reports = JobReports()
            for name, readiness in app.state.service.cascade.readiness().items():
                structlog.get_logger().info("tier_built", tier=name, state=readiness.state, detail=readiness.detail)
            yield

    app = FastAPIOffline(
        title="Plumbline",
        description=DESCRIPTION,
        version=VERSION,
        docs_url=None,
        redoc_url=None,
        servers=[{"url": settings.public_url}] if settings.public_url else None,
        redirect_slashes=False,
        lifespan=lifespan,
        **_NO_TELEMETRY,
    )
    app.state.access = access
    app.state.metrics = metrics
    app.state.version = _version(plan)
    app.state.job_versions = job_versions(plan)
    app.state.job_uploads = JobUploads(plan.judge_names, max_json_bytes=settings.max_batch_body_bytes)
    app.state.authenticator = authenticator = Authenticator(
        access,
        allow_anonymous=settings.allow_anonymous,
        more_keys=lambda connection: cookie_keys(connection) + compat_keys(connection),
    )
    may_evaluate, may_use_jobs, may_administer = (
        Depends(make_key_check(authenticator, scope)) for scope in (Scope.EVALUATE, Scope.JOBS, Scope.ADMIN)
    )
    speaks = Depends(document_language)
    for make_routes in (evaluation_routes, batch_routes):
        routes = make_routes(settings, judge_names=plan.judge_names)
        app.include_router(routes, prefix="/v1", dependencies=[may_evaluate, speaks])
    if settings.compat:
        app.include_router(
            compat_routes(settings, judge_names=plan.judge_names), prefix="/v1", dependencies=[may_evaluate, speaks]
        )
        app.include_router(tool_document_routes(settings))
    app.include_router(operations.router)
    app.include_router(operations.metrics_router, dependencies=[may_administer])
    app.include_router(retrieval.router, prefix="/v1", dependencies=[may_evaluate, speaks])
    app.include_router(jobs.router, prefix="/v1", dependencies=[may_use_jobs, speaks])
    # Before the routes of one run, which would take `new` for its id.
    uploads = upload_routes(settings, plan.prompts)
    for routes in (uploads, comparison_page.router, run_pages.router, label_pages.router):
        app.include_router(routes, dependencies=[may_use_jobs])
    app.include_router(key_routes(settings, access))
    for routes in (playground_routes(settings, judge_names=plan.judge_names), retrieval_pages.router):
        app.include_router(routes, dependencies=[may_evaluate])
    add_schemas(app, lambda: {**message_schemas(retrieval.MESSAGES), **batch_schemas(settings), **jobs.job_schemas()})
    install_problem_handlers(app)
    install_edge(
        app,
        body_limits=partial(
            BodyLimits,
            max_bytes=settings.max_body_bytes,
            timeout_seconds=settings.body_timeout_seconds,
            limit_by_path={
                JOBS_PATH: BodyLimit(settings.max_job_body_bytes, is_streamed=True),
                UPLOAD_PATH: BodyLimit(settings.max_job_body_bytes, is_streamed=True),
                **dict.fromkeys(
                    ("/v1/retrieval/", retrieval_pages.RETRIEVAL_PATH),
                    BodyLimit(settings.max_retrieval_body_bytes, retrieval.LARGE_BODY_ADVICE),
                ),
                f"/v1{BATCH_PATH}": BodyLimit(settings.max_batch_body_bytes),
            },
        ),
        admission=partial(
            Admission,
            authenticator=authenticator,
            is_page=needs_caller,
            is_about_jobs=is_about_jobs,
            has_deadline=has_deadline,
        ),
        cors_origins=settings.cors_origins,
        observer=listeners.observer,
    )
    app.add_middleware(ProblemPages)
    return app


def _version(plan: Plan) -> VersionReport:
    return VersionReport(
        name="plumbline",
        version=VERSION,
        prompts={prompt.label: prompt.digest for each in plan.prompts.values() for prompt in (each.verify, each.check)},
        calibrations=[
            f"{entry.tier} {entry.model} {entry.language}: {entry.source.data if entry.source else 'not fitted'}"
            for entry in plan.calibrations.entries
        ],
    )
