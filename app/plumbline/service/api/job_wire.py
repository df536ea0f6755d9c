"""A job of the store as it is sent."""

import time
from dataclasses import fields
from datetime import UTC, datetime
from typing import Final

from plumbline.judging.ports.exchange import Usage
from plumbline.rows.jobs.job import Job, JobState
from plumbline.rows.scored_row import RowStatus
from plumbline.schemas.batch import TierCounts
from plumbline.schemas.evaluation import EvaluationOptions, UsageItem
from plumbline.schemas.jobs import JobInfo, JobLinks, JobOutcomes, RequestCounts

JOBS_PATH: Final = "/v1/jobs"
_ERRORS: Final = (RowStatus.INVALID, RowStatus.FAILED)
_DECIMALS: Final = 3


def job_path(job_id: str) -> str:
    """Where a job is served."""
    return f"{JOBS_PATH}/{job_id}"


def job_info(job: Job, *, now: float | None = None) -> JobInfo:
    """The job as it is sent, its rate and what it still takes reckoned at `now`, in seconds since 1970."""
    counts, failed = job.counts, sum(job.counts.by_status.get(status, 0) for status in _ERRORS)
    rate = _rows_per_second(job, time.time() if now is None else now)
    return JobInfo(
        id=job.id,
        name=job.name,
        status=job.state.value,
        created_at=_utc(job.created),
        started_at=None if job.started is None else _utc(job.started),
        ended_at=None if job.ended is None else _utc(job.ended),
        request_counts=RequestCounts(total=job.total, completed=counts.done - failed, failed=failed),
        outcomes=JobOutcomes(
            **{status.value: counts.by_status.get(status, 0) for status in RowStatus},
            degraded=counts.degraded,
            tiers=TierCounts(**counts.by_tier),
        ),
        usage=UsageItem(**{each.name: getattr(counts.usage, each.name) for each in fields(Usage)}),
        max_cost=job.max_cost,
        rows_per_second=None if rate is None else round(rate, _DECIMALS),
        eta_seconds=_eta_seconds(job, rate),
        problem=job.problem,
        options=EvaluationOptions.model_validate_json(job.options),
        links=_links(job_path(job.id)),
    )


def _links(path: str) -> JobLinks:
    return JobLinks(self=path, results=f"{path}/results", events=f"{path}/events", report=f"{path}/report")


def _rows_per_second(job: Job, now: float) -> float | None:
    if job.started is None:
        return None
    seconds = (now if job.ended is None else job.ended) - job.started
    return job.counts.done / seconds if seconds > 0 else None


def _eta_seconds(job: Job, rate: float | None) -> float | None:
    if job.state is not JobState.RUNNING or job.total is None or not rate:
        return None
    return round((job.total - job.counts.done) / rate, _DECIMALS)


def _utc(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
