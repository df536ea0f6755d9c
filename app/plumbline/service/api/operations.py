"""Routes for operators: health, readiness, version, metrics."""

from typing import Final

from fastapi import APIRouter, Request, Response
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse, PlainTextResponse

from plumbline.judging.ports.observation import State
from plumbline.rows.report.page import hash_source
from plumbline.schemas.operations import Health, Readiness, ReadinessReport, VersionReport
from plumbline.service.api.auth import Authenticator
from plumbline.service.api.dependencies import CascadeDep, JobStoreDep, MetricsDep, VersionDep
from plumbline.service.api.problems import problem_responses

# `fastapi-offline` mounts them.
_SWAGGER_FILES: Final = "/static-offline-docs"

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


@router.get("/docs", include_in_schema=False)
async def show_docs(request: Request) -> HTMLResponse:
    """Swagger UI from this service's own files; no other page may frame it."""
    root, app = request.scope.get("root_path", ""), request.app
    page = get_swagger_ui_html(
        openapi_url=f"{root}{app.openapi_url}",
        title=f"{app.title} - Swagger UI",
        oauth2_redirect_url=None,
        swagger_js_url=f"{root}{_SWAGGER_FILES}/swagger-ui-bundle.js",
        swagger_css_url=f"{root}{_SWAGGER_FILES}/swagger-ui.css",
        swagger_favicon_url=f"{root}{_SWAGGER_FILES}/favicon.png",
    )
    script = bytes(page.body).decode().partition("<script>")[2].partition("</script>")[0]
    # Swagger UI sets styles and images of its own.
    page.headers["Content-Security-Policy"] = (
        f"default-src 'none'; script-src 'self' {hash_source(script)}; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return page


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
