"""A client of a running service: samples judged over HTTP, one, many or as a job; with asyncio or without."""

from app.client.async_client import AsyncPlumbline
from app.client.connection import KEY_VARIABLE
from app.client.failures import (
    AccessRefused,
    AnswerCut,
    AnswerUnreadable,
    Busy,
    ClientClosed,
    ClientError,
    JobNotEnded,
    NotNow,
    NotReached,
    NotThere,
    Refused,
    RequestRefused,
    ServiceFailed,
    TimedOut,
)
from app.client.job import AsyncJob
from app.client.job_events import JobEvent
from app.client.jobs import AsyncJobs
from app.client.retries import Retries
from app.client.row import Row
from app.client.sync_client import Plumbline
from app.client.sync_jobs import Job, Jobs

__all__ = [
    "KEY_VARIABLE",
    "AccessRefused",
    "AnswerCut",
    "AnswerUnreadable",
    "AsyncJob",
    "AsyncJobs",
    "AsyncPlumbline",
    "Busy",
    "ClientClosed",
    "ClientError",
    "Job",
    "JobEvent",
    "JobNotEnded",
    "Jobs",
    "NotNow",
    "NotReached",
    "NotThere",
    "Plumbline",
    "Refused",
    "RequestRefused",
    "Retries",
    "Row",
    "ServiceFailed",
    "TimedOut",
]
