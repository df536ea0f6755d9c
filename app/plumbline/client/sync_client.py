"""The client without asyncio: the same API, on an event loop in a background thread."""

import os
from collections.abc import Generator, Iterable, Mapping
from typing import Any, Literal, Self, TypeVar, Unpack

from plumbline.client.async_client import DEFAULT_TIMEOUT_SECONDS, DEFAULT_URL, AsyncPlumbline
from plumbline.client.batches import DEFAULT_BATCH_SIZE, DEFAULT_IN_FLIGHT
from plumbline.client.connection import Timeouts
from plumbline.client.failures import Retries
from plumbline.client.job import DEFAULT_POLL_SECONDS, AsyncJob, JobEvent
from plumbline.client.jobs import AnyRow, AsyncJobs
from plumbline.client.loop_thread import Feed, LoopThread
from plumbline.client.row import Row
from plumbline.client.samples import AnyOptions, AnySample, OptionFields
from plumbline.schemas.evaluation import EvaluationResult
from plumbline.schemas.jobs import JobInfo, JobStatus

S = TypeVar("S", bound=AnySample)


class Plumbline:
    """A client of a running service; use it as a context manager or call `close`.

    Arguments and errors are those of `AsyncPlumbline`. It works inside a running event loop (in a notebook), and from
    several threads.
    """

    def __init__(
        self,
        base_url: str = DEFAULT_URL,
        api_key: str | None = None,
        *,
        timeout: float | Timeouts = DEFAULT_TIMEOUT_SECONDS,
        retries: Retries = Retries(),  # noqa: B008
    ) -> None:
        self._client = AsyncPlumbline(base_url, api_key, timeout=timeout, retries=retries)
        self._thread = LoopThread()
        self.jobs = Jobs(self._client.jobs, self._thread)

    def evaluate(
        self,
        *,
        contexts: Iterable[str | Mapping[str, str]] | None = None,
        answer: str | None = None,
        messages: Iterable[Mapping[str, Any]] | None = None,
        question: str = "",
        reference: str | None = None,
        evidence_roles: list[str] | None = None,
        turn_contexts: str | None = None,
        id: str | None = None,  # noqa: A002
        **options: Unpack[OptionFields],
    ) -> EvaluationResult:
        return self._thread.run(
            self._client.evaluate(
                contexts=contexts,
                answer=answer,
                messages=messages,
                question=question,
                reference=reference,
                evidence_roles=evidence_roles,
                turn_contexts=turn_contexts,
                id=id,
                **options,
            )
        )

    def evaluate_many(
        self,
        samples: Iterable[S],
        *,
        options: AnyOptions = None,
        in_flight: int = DEFAULT_IN_FLIGHT,
        batch_size: int = DEFAULT_BATCH_SIZE,
        in_order: bool = False,
    ) -> Generator[Row[S], None, None]:
        """As `AsyncPlumbline.evaluate_many`; the samples are read on the calling thread, while it waits for a row."""
        feed = Feed(iter(samples), at_once=min(batch_size, in_flight))
        rows = self._client.evaluate_source(
            feed.next, options=options, in_flight=in_flight, batch_size=batch_size, in_order=in_order
        )
        return self._thread.iterate(rows, feed=feed)

    def close(self) -> None:
        """Close the connections and stop the thread."""
        if self._thread.is_open:
            self._thread.run(self._client.close())
        self._thread.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Jobs:
    """As `AsyncJobs`, blocking; rows are read on the calling thread."""

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
        with self._jobs.submission(
            options=options, name=name, columns=columns, max_cost=max_cost, idempotency_key=idempotency_key
        ) as submission:
            submission.add(source, format)
            return Job(self._thread.run(submission.send()), self._thread)

    def get(self, job_id: str) -> "Job":
        return Job(self._thread.run(self._jobs.get(job_id)), self._thread)

    def list(self, *, limit: int | None = None) -> Generator["Job", None, None]:
        for job in self._thread.iterate(self._jobs.list(limit=limit)):
            yield Job(job, self._thread)


class Job:
    """As `AsyncJob`, blocking: the same methods, arguments and errors."""

    def __init__(self, job: AsyncJob, thread: LoopThread) -> None:
        self._job = job
        self._thread = thread

    @property
    def info(self) -> JobInfo:
        return self._job.info

    @property
    def id(self) -> str:
        return self._job.id

    @property
    def status(self) -> JobStatus:
        return self._job.status

    @property
    def is_ended(self) -> bool:
        return self._job.is_ended

    def refresh(self) -> JobInfo:
        return self._thread.run(self._job.refresh())

    def wait(self, *, timeout: float | None = None, poll_seconds: float | None = None) -> JobInfo:
        return self._thread.run(self._job.wait(timeout=timeout, poll_seconds=poll_seconds))

    def events(self, *, last_event_id: str | None = None) -> Generator[JobEvent, None, None]:
        return self._thread.iterate(self._job.events(last_event_id=last_event_id))

    def results(
        self,
        *,
        after: int | None = None,
        page_size: int = 1000,
        follow: bool = True,
        poll_seconds: float = DEFAULT_POLL_SECONDS,
    ) -> Generator[Row[None], None, None]:
        return self._thread.iterate(
            self._job.results(after=after, page_size=page_size, follow=follow, poll_seconds=poll_seconds)
        )

    def pause(self) -> JobInfo:
        return self._thread.run(self._job.pause())

    def resume(self) -> JobInfo:
        return self._thread.run(self._job.resume())

    def cancel(self) -> JobInfo:
        return self._thread.run(self._job.cancel())

    def retry(self, select: Literal["failed", "degraded"]) -> JobInfo:
        return self._thread.run(self._job.retry(select))

    def delete(self) -> None:
        self._thread.run(self._job.delete())

    def report(self, *, format: Literal["html", "json"] = "html", lang: Literal["en", "zh"] = "en") -> bytes:  # noqa: A002
        return self._thread.run(self._job.report(format=format, lang=lang))
