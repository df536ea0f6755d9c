"""Dependencies of the routes: the parts that `main` keeps on `app.state`, as FastAPI hands them in."""

import asyncio
from typing import Annotated, cast

from fastapi import Depends, Request

from plumbline.judging.scoring import Scorer
from plumbline.judging.tiers.cascade import JudgeCascade
from plumbline.rows.jobs.store import JobStore
from plumbline.schemas.operations import VersionReport
from plumbline.service.api.auth import tenant_of
from plumbline.service.api.job_answers import JobReports
from plumbline.service.api.job_events import EventStreams
from plumbline.service.metrics.observer import Metrics

# Coroutines throughout: FastAPI would run plain functions in a thread.


async def _scorer(request: Request) -> Scorer:
    return cast(Scorer, request.app.state.service.scorer)


async def _batch_slots(request: Request) -> asyncio.Semaphore:
    return cast(asyncio.Semaphore, request.app.state.service.batch_slots)


async def _cascade(request: Request) -> JudgeCascade:
    return cast(JudgeCascade, request.app.state.service.cascade)


async def _job_store(request: Request) -> JobStore:
    return cast(JobStore, request.app.state.jobs)


async def _event_streams(request: Request) -> EventStreams:
    return cast(EventStreams, request.app.state.event_streams)


async def _job_reports(request: Request) -> JobReports:
    return cast(JobReports, request.app.state.job_reports)


async def _metrics(request: Request) -> Metrics:
    return cast(Metrics, request.app.state.metrics)


async def _version(request: Request) -> VersionReport:
    return cast(VersionReport, request.app.state.version)


async def _tenant(request: Request) -> str:
    return tenant_of(request)


ScorerDep = Annotated[Scorer, Depends(_scorer)]
BatchSlotsDep = Annotated[asyncio.Semaphore, Depends(_batch_slots)]
CascadeDep = Annotated[JudgeCascade, Depends(_cascade)]
JobStoreDep = Annotated[JobStore, Depends(_job_store)]
EventStreamsDep = Annotated[EventStreams, Depends(_event_streams)]
JobReportsDep = Annotated[JobReports, Depends(_job_reports)]
MetricsDep = Annotated[Metrics, Depends(_metrics)]
VersionDep = Annotated[VersionReport, Depends(_version)]
TenantDep = Annotated[str, Depends(_tenant)]
