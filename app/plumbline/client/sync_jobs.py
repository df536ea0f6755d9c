"""Jobs of the service, for code without asyncio; what each method does, `AsyncJobs` and `AsyncJob` say."""

import os
from collections.abc import Generator, Iterable
from typing import Literal

from plumbline.client.job import DEFAULT_POLL_SECONDS, AsyncJob
from plumbline.client.job_events import JobEvent
from plumbline.client.jobs import AsyncJobs
from plumbline.client.loop_thread import LoopThread
from plumbline.client.row import Row
from plumbline.client.samples import AnyOptions
from plumbline.client.uploads import AnyRow
from plumbline.schemas.jobs import JobInfo, JobStatus


class Jobs:
    """As `AsyncJobs`."""

    def __init__(self, jobs: AsyncJobs, thread: LoopThread) -> None:
        self._jobs = jobs
        self._thread = thread

    def submit(
        self,
        source: str | os.PathLike[str] | Iterable[AnyRow],
        *,
        options: AnyOptions = None,
        name: str | None = None,
        columns: str | None = None,
        max_cost: float | None = None,
        format: str | None = None,  # noqa: A002
        idempotency_key: str | None = None,
    ) -> "Job":
        """As `AsyncJobs.submit`; rows are read on the calling thread."""
        with self._jobs.submission(
            options=options, name=name, columns=columns, max_cost=max_cost, idempotency_key=idempotency_key
        ) as submission:
            submission.add(source, format)
            return self._job(self._thread.run(submission.send()))

    def get(self, job_id: str) -> "Job":
        """As `AsyncJobs.get`."""
        return self._job(self._thread.run(self._jobs.get(job_id)))

    def list(self, *, limit: int | None = None) -> Generator["Job", None, None]:
        """As `AsyncJobs.list`."""
        for job in self._thread.iterate(lambda: self._jobs.list(limit=limit)):
            yield self._job(job)

    def _job(self, job: AsyncJob) -> "Job":
        return Job(job, self._thread)


class Job:
    """As `AsyncJob`."""

    def __init__(self, job: AsyncJob, thread: LoopThread) -> None:
        self._job = job
        self._thread = thread

    @property
    def info(self) -> JobInfo:
        """What was last told of it."""
        return self._job.info

    @property
    def id(self) -> str:
        """By which `client.jobs.get` finds it again."""
        return self._job.id

    @property
    def status(self) -> JobStatus:
        """As last told."""
        return self._job.status

    @property
    def is_ended(self) -> bool:
        """As `AsyncJob.is_ended`."""
        return self._job.is_ended

    def refresh(self) -> JobInfo:
        """As `AsyncJob.refresh`."""
        return self._thread.run(self._job.refresh())

    def wait(self, *, timeout: float | None = None, poll_seconds: float | None = None) -> JobInfo:
        """As `AsyncJob.wait`."""
        return self._thread.run(self._job.wait(timeout=timeout, poll_seconds=poll_seconds))

    def events(self, *, last_event_id: str | None = None) -> Generator[JobEvent, None, None]:
        """As `AsyncJob.events`."""
        return self._thread.iterate(lambda: self._job.events(last_event_id=last_event_id))

    def results(
        self,
        *,
        after: int | None = None,
        page_size: int = 1000,
        follow: bool = True,
        poll_seconds: float = DEFAULT_POLL_SECONDS,
    ) -> Generator[Row[None], None, None]:
        """As `AsyncJob.results`."""
        rows = self._job.results(after=after, page_size=page_size, follow=follow, poll_seconds=poll_seconds)
        return self._thread.iterate(lambda: rows)

    def pause(self) -> JobInfo:
        """As `AsyncJob.pause`."""
        return self._thread.run(self._job.pause())

    def resume(self) -> JobInfo:
        """As `AsyncJob.resume`."""
        return self._thread.run(self._job.resume())

    def cancel(self) -> JobInfo:
        """As `AsyncJob.cancel`."""
        return self._thread.run(self._job.cancel())

    def retry(self, select: Literal["failed", "degraded"]) -> JobInfo:
        """As `AsyncJob.retry`."""
        return self._thread.run(self._job.retry(select))

    def delete(self) -> None:
        """As `AsyncJob.delete`."""
        self._thread.run(self._job.delete())

    def report(self, *, format: Literal["html", "json"] = "html", lang: Literal["en", "zh"] = "en") -> bytes:  # noqa: A002
        """As `AsyncJob.report`."""
        return self._thread.run(self._job.report(format=format, lang=lang))
