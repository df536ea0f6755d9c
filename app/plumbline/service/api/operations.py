"""Routes for whoever runs the service: health, readiness, version, metrics."""

from collections.abc import Awaitable, Callable
from typing import Protocol, runtime_checkable

from fastapi import APIRouter, Request, Response
from fastapi.params import Depends
from fastapi.responses import PlainTextResponse

from plumbline.judging.ports.observation import Readiness, State
from plumbline.judging.tiers.cascade import JudgeCascade
from plumbline.schemas.operations import Health, ReadinessReport, StoreReadiness, TierReadiness, VersionReport
from plumbline.service.api.problems import problem_responses
from plumbline.service.metrics.observer import Page


@runtime_checkable
class Reporting(Protocol):
    """A store that says how it is."""

    def readiness(self) -> Readiness:
        """Its state now; at no cost."""


def operation_routes(
    version: VersionReport, cascade_of: Callable[[Request], JudgeCascade], store_of: Callable[[Request], object]
) -> APIRouter:
    """The routes; none needs a key, none shows a secret. `store_of`: of jobs, asked how it is where it can say so."""
    router = APIRouter(tags=["operations"], responses=problem_responses(500))

    @router.head("/healthz", include_in_schema=False)
    @router.get("/healthz", operation_id="health")
    async def healthz() -> Health:
        """The process answers; no tier is asked."""
        return Health()

    @router.head("/readyz", include_in_schema=False)
    @router.get(
        "/readyz",
        operation_id="readiness",
        responses={503: {"model": ReadinessReport, "description": "A tier is still loading its model."}},
    )
    async def readyz(request: Request, response: Response) -> ReadinessReport:
        """The state of every tier. 503 while one is loading; one that is unavailable is stepped over, with 200."""
        tiers = cascade_of(request).readiness()
        is_loading = any(readiness.state is State.LOADING for readiness in tiers.values())
        response.status_code = 503 if is_loading else 200
        return ReadinessReport(
            status="loading" if is_loading else "ready",
            first_tier=next(name.value for name, each in tiers.items() if each.state is not State.UNAVAILABLE),
            tiers={
                name.value: TierReadiness(state=each.state.value, detail=each.detail) for name, each in tiers.items()
            },
            jobs=_store_readiness(store_of(request)),
        )

    @router.head("/version", include_in_schema=False)
    @router.get("/version", operation_id="version")
    async def get_version() -> VersionReport:
        """What answers here: the version, the prompts and the calibrations, all that moves scores."""
        return version

    return router


def metrics_route(page_of: Callable[[Request], Awaitable[Page]], check: Depends) -> APIRouter:
    """The route that Prometheus reads.

    Args:
        page_of: what is counted, as the request wants it written.
        check: who may read it; routes and figures tell more of a service than that it is there.
    """
    router = APIRouter(tags=["operations"], responses=problem_responses(401, 500), dependencies=[check])

    @router.head("/metrics", include_in_schema=False)
    @router.get(
        "/metrics",
        operation_id="metrics",
        response_class=PlainTextResponse,
        responses={200: {"description": "Prometheus' text format, or OpenMetrics for who asks for it."}},
    )
    async def metrics(request: Request) -> Response:
        """Counts of this process and of its jobs, for Prometheus; no label has a caller's words."""
        page = await page_of(request)
        return Response(page.content, media_type=page.media_type)

    return router


def _store_readiness(store: object) -> StoreReadiness | None:
    if not isinstance(store, Reporting):
        return None
    readiness = store.readiness()
    return StoreReadiness(state=readiness.state.value, detail=readiness.detail)
