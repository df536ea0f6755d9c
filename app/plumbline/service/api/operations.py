"""Routes for operators: health, readiness, version, metrics."""

from fastapi import APIRouter, Request, Response
from fastapi.responses import PlainTextResponse

from plumbline.judging.ports.observation import State
from plumbline.schemas.operations import Health, Readiness, ReadinessReport, VersionReport
from plumbline.service.api.auth import Authenticator
from plumbline.service.api.dependencies import CascadeDep, JobStoreDep, MetricsDep, VersionDep
from plumbline.service.api.problems import problem_responses

# None of these needs a key or shows a secret.
router = APIRouter(tags=["operations"], responses=problem_responses(500))
# These routes and figures reveal more of a service: they need a key with scope `admin`.
metrics_router = APIRouter(tags=["operations"], responses=problem_responses(401, 500))


@router.head("/healthz", include_in_schema=False)
@router.get("/healthz", operation_id="health")
async def healthz() -> Health:
    """Liveness: the process answers. No tier is asked."""
    return Health()


@router.head("/readyz", include_in_schema=False)
@router.get(
    "/readyz",
    operation_id="readiness",
    responses={503: {"model": ReadinessReport, "description": "A tier is still loading its model."}},
)
async def readyz(request: Request, response: Response, cascade: CascadeDep, store: JobStoreDep) -> ReadinessReport:
    """Readiness of every tier: 503 while one is loading. An unavailable tier is skipped and does not change the 200.

    Hosts, models and folders are for callers on the service's machine and for keys with the scope `admin`.
    """
    authenticator: Authenticator = request.app.state.authenticator
    is_operator = authenticator.is_operator(request)
    tiers, kept = cascade.readiness(), store.readiness()
    is_loading = cascade.is_loading()
    response.status_code = 503 if is_loading else 200
    return ReadinessReport(
        status="loading" if is_loading else "ready",
        first_tier=next(name.value for name, each in tiers.items() if each.state is not State.UNAVAILABLE),
        tiers={
            name.value: Readiness(state=each.state.value, detail=each.detail if is_operator else "")
            for name, each in tiers.items()
        },
        jobs=Readiness(state=kept.state.value, detail=kept.detail if is_operator else ""),
    )


@router.head("/version", include_in_schema=False)
@router.get("/version", operation_id="version")
async def get_version(version: VersionDep) -> VersionReport:
    """Version, prompts and calibrations: everything that changes scores."""
    return version


@metrics_router.head("/metrics", include_in_schema=False)
@metrics_router.get(
    "/metrics",
    operation_id="metrics",
    response_class=PlainTextResponse,
    responses={200: {"description": "Prometheus text format, or OpenMetrics if the `Accept` header asks for it."}},
)
async def get_metrics(request: Request, metrics: MetricsDep, store: JobStoreDep) -> Response:
    """Metrics of this process and its jobs for Prometheus. No label holds a caller's text."""
    content, media_type = await metrics.page(request.headers.get("accept", ""), store)
    return Response(content, media_type=media_type)
