"""The composition root of the service: wires routes to the parts that `assembly` builds."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Final

import structlog
from fastapi import Depends, FastAPI, Request
from fastapi.telemetry import TelemetryConfig
from fastapi_offline import FastAPIOffline

import plumbline as package
from plumbline import __version__
from plumbline.assembly import Plan, Service, build, make_plan, open_jobs
from plumbline.ground.settings import Settings, load_settings
from plumbline.judging.tiers.tier import SentenceEncoder
from plumbline.rows.jobs.store import JobStore
from plumbline.schemas.operations import VersionReport
from plumbline.service.access.access import build_access
from plumbline.service.access.keys import Scope
from plumbline.service.api.admission import Admission
from plumbline.service.api.auth import Door, make_key_check
from plumbline.service.api.batches import BATCH_PATH, batch_routes, batch_schemas
from plumbline.service.api.edge import install_edge
from plumbline.service.api.evaluations import evaluation_routes
from plumbline.service.api.job_documents import job_schemas
from plumbline.service.api.job_events import EventsDesk
from plumbline.service.api.job_wire import JOBS_PATH
from plumbline.service.api.jobs import job_routes
from plumbline.service.api.msgspec_body import document
from plumbline.service.api.openapi_schemas import add_schemas
from plumbline.service.api.operations import metrics_route, operation_routes
from plumbline.service.api.problems import install_problem_handlers
from plumbline.service.api.retrieval import MESSAGES, retrieval_routes
from plumbline.service.listeners import build_listeners
from plumbline.service.tracing import Tracing
from plumbline.service.worker_share import WorkerShare

# FastAPI's own, which is on wherever the process has an OpenTelemetry provider, records paths, queries and the messages
# of exceptions: words of callers. `plumbline.service.tracing` is in its place.
_NO_TELEMETRY: Final[TelemetryConfig] = {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}


def create_app(
    settings: Settings | None = None,
    *,
    encoder: SentenceEncoder | None = None,
    store: JobStore | None = None,
    tracing: Tracing | None = None,
    share: WorkerShare | None = None,
) -> FastAPI:
    """The service as an ASGI app. Settings, prompts and calibrations are checked here, before anything is served.

    Args:
        settings: those of the environment when None.
        encoder: in place of the sentence-transformers model.
        store: keeps jobs in place of the folder of the settings, with nobody here who works on them.
        tracing: in place of what the settings say of traces.
        share: of the worker, where several processes serve together.

    Raises:
        ConfigurationError, PromptError, CalibrationError: with one line that says what is wrong.
    """
    share = share or WorkerShare()
    settings = share.settings_of(settings or load_settings())
    plan = make_plan(settings, encoder=encoder)
    access = build_access(settings, processes=share.count, arrivals=share.arrivals)
    listeners = build_listeners(settings, tracing=tracing, folder=share.metrics_folder)
    metrics, traces = listeners

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            if traces is not None:
                stack.push_async_callback(asyncio.to_thread, traces.close)
            await stack.enter_async_context(access.spending.kept())
            app.state.service = build(
                plan, stack, on_call=access.add_call, observer=listeners.observer, arrivals=share.arrivals
            )
            app.state.jobs = store or await open_jobs(
                plan, app.state.service.scorer, stack, pause_reason=access.pause_reason, observer=listeners.observer
            )
            metrics.watch_encoder(app.state.service.encoder)
            stack.callback(asyncio.create_task(metrics.watch_loop()).cancel)
            app.state.events_desk = EventsDesk(asyncio.Event())
            for name, readiness in app.state.service.cascade.readiness().items():
                structlog.get_logger().info("tier_built", tier=name, state=readiness.state, detail=readiness.detail)
            yield

    app = FastAPIOffline(
        title="Plumbline",
        description=package.__doc__ or "",
        version=__version__,
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
        telemetry=_NO_TELEMETRY,
    )
    app.state.access = access
    door = Door(access, allow_anonymous=settings.allow_anonymous)
    may_evaluate, may_have_jobs, may_administer = (
        Depends(make_key_check(door, scope)) for scope in (Scope.EVALUATE, Scope.JOBS, Scope.ADMIN)
    )
    app.include_router(
        evaluation_routes(settings, lambda request: _service(request).scorer, judge_names=plan.judge_names),
        prefix="/v1",
        dependencies=[may_evaluate],
    )
    app.include_router(
        batch_routes(
            settings,
            lambda request: _service(request).scorer,
            lambda request: _service(request).batch_slots,
            judge_names=plan.judge_names,
        ),
        prefix="/v1",
        dependencies=[may_evaluate],
    )
    app.include_router(operation_routes(_version(plan), lambda request: _service(request).cascade, _jobs))
    app.include_router(metrics_route(lambda request: metrics.page(_accepted(request), _jobs(request)), may_administer))
    app.include_router(
        retrieval_routes(lambda request: _service(request).scorer), prefix="/v1", dependencies=[may_evaluate]
    )
    app.include_router(
        job_routes(
            settings,
            _jobs,
            lambda request: _events_desk(request.app),
            judge_names=plan.judge_names,
        ),
        prefix="/v1",
        dependencies=[may_have_jobs],
    )
    document(app, MESSAGES)
    add_schemas(app, {**batch_schemas(settings), **job_schemas()})
    install_problem_handlers(app)
    install_edge(
        app,
        max_body_bytes=settings.max_body_bytes,
        body_timeout_seconds=settings.body_timeout_seconds,
        max_body_bytes_by_prefix={
            "/v1/retrieval/": settings.max_retrieval_body_bytes,
            f"/v1{BATCH_PATH}": settings.max_batch_body_bytes,
        },
        max_streamed_bytes_by_path={JOBS_PATH: settings.max_job_body_bytes},
        admission=partial(Admission, door=door),
        observer=listeners.observer,
    )
    return app


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


def _jobs(request: Request) -> JobStore:
    store: JobStore = request.app.state.jobs
    return store


def _events_desk(app: FastAPI) -> EventsDesk:
    desk: EventsDesk = app.state.events_desk
    return desk


def _accepted(request: Request) -> str:
    return request.headers.get("accept", "")


def end_streams(app: FastAPI) -> None:
    """Ends what goes on for as long as somebody listens, so that a server that shuts down need not wait for it."""
    _events_desk(app).stopping.set()


def _version(plan: Plan) -> VersionReport:
    return VersionReport(
        name="plumbline",
        version=__version__,
        prompts={prompt.label: prompt.digest for prompt in (*plan.prompts.verify, *plan.prompts.check)},
        calibrations=[
            f"{entry.tier} {entry.model} {entry.language}: {entry.source.data if entry.source else 'not fitted'}"
            for entry in plan.calibrations.entries
        ],
    )
