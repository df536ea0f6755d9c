"""A client of a running service: evaluate one sample, many, or a job; with asyncio or without."""

from plumbline.client.async_client import AsyncPlumbline
from plumbline.client.failures import (
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
    Retries,
    ServiceFailed,
    TimedOut,
)
from plumbline.client.job import AsyncJob
from plumbline.client.jobs import AsyncJobs
from plumbline.client.row import Row, Rows, summarize, to_frame
from plumbline.client.sync_client import Job, Jobs, Plumbline
from plumbline.ground.service_address import KEY_VARIABLE, URL_VARIABLE

__all__ = [
    "KEY_VARIABLE", "URL_VARIABLE", "AccessRefused", "AnswerCut", "AnswerUnreadable", "AsyncJob", "AsyncJobs",
    "AsyncPlumbline", "Busy", "ClientClosed", "ClientError", "Job", "JobNotEnded", "Jobs", "NotNow", "NotReached",
    "NotThere", "Plumbline", "Refused", "RequestRefused", "Retries", "Row", "Rows", "ServiceFailed", "TimedOut",
    "summarize", "to_frame",
]  # fmt: skip
