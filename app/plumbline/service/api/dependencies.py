"""Dependencies of the routes: the parts that `main` keeps on `app.state`, as FastAPI hands them in."""

import asyncio
from concurrent.futures import Executor
from operator import attrgetter
from typing import Annotated, Any

from fastapi import Depends, Request

from plumbline.judging.scoring import Scorer
from plumbline.judging.tiers.cascade import JudgeCascade
from plumbline.rows.jobs.store import JobStore
from plumbline.schemas.operations import VersionReport
from plumbline.service.api.auth import tenant_of
from plumbline.service.api.job_answers import JobReports
from plumbline.service.metrics.observer import Metrics


def _state(name: str) -> Any:
    read = attrgetter(name)

    # a coroutine: FastAPI would run a plain function in a thread
    async def dependency(request: Request) -> Any:
        return read(request.app.state)

    return Depends(dependency)


async def _tenant(request: Request) -> str:
    return tenant_of(request)


ScorerDep = Annotated[Scorer, _state("service.scorer")]
RetrievalThreadsDep = Annotated[Executor, _state("service.retrieval_threads")]
BatchSlotsDep = Annotated[asyncio.Semaphore, _state("service.batch_slots")]
CascadeDep = Annotated[JudgeCascade, _state("service.cascade")]
JobStoreDep = Annotated[JobStore, _state("jobs")]
JobReportsDep = Annotated[JobReports, _state("job_reports")]
MetricsDep = Annotated[Metrics, _state("metrics")]
VersionDep = Annotated[VersionReport, _state("version")]
TenantDep = Annotated[str, Depends(_tenant)]
