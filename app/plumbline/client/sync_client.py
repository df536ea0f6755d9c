"""The client without asyncio: the same calls over a connection that blocks, so that no event loop is needed."""

import functools
import os
from collections.abc import Callable, Coroutine, Generator, Iterable
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from plumbline.client.async_client import DEFAULT_TIMEOUT_SECONDS, AsyncPlumbline
from plumbline.client.batches import (
    DEFAULT_BATCH_SIZE,
    DEFAULT_IN_FLIGHT,
    BatchPlan,
    iterate_batches_on_threads,
)
from plumbline.client.connection import BlockingConnection, Connection, iterate_now, run_now
from plumbline.client.failures import Retries
from plumbline.client.job import DEFAULT_POLL_SECONDS, AsyncJob
from plumbline.client.jobs import AnyRow, AsyncJobs
from plumbline.client.row import Row
from plumbline.client.samples import AnyOptions, AnySample
from plumbline.schemas.jobs import JobInfo, JobStatus

T = TypeVar("T")
S = TypeVar("S", bound=AnySample)
A = TypeVar("A")
P = ParamSpec("P")


class _Blocking(Generic[A]):
    """An object of the asyncio client over a `BlockingConnection`."""

    def __init__(self, asynchronous: A) -> None:
        self._async = asynchronous


def _run(method: Callable[Concatenate[A, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[_Blocking[A], P], T]:
    """Return the method with the same arguments that waits for the result."""

    @functools.wraps(method)
    def run(self: _Blocking[A], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return run_now(method(self._async, *args, **kwargs))

    return run


class _Calls(AsyncPlumbline):
    """The calls of the asyncio client over another connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.jobs = AsyncJobs(connection)


class Plumbline(_Blocking[AsyncPlumbline]):
    """A client of a running service; use it as a context manager or call `close`.

    Arguments and errors are those of `AsyncPlumbline`. It works inside a running event loop (in a notebook), and from
    several threads.
    """

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        timeout: float = DEFAULT_TIMEOUT_SECONDS,
        retries: Retries = Retries(),  # noqa: B008
    ) -> None:
        self._connection = BlockingConnection(base_url, api_key=api_key, timeout=timeout, retries=retries)
        super().__init__(_Calls(self._connection))
        self.jobs = Jobs(self._async.jobs)

    evaluate = _run(AsyncPlumbline.evaluate)

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
        plan = BatchPlan[S](options, in_flight=in_flight, batch_size=batch_size, in_order=in_order)
        return iterate_batches_on_threads(self._connection, samples, plan)

    close = _run(AsyncPlumbline.close)

    def __enter__(self) -> Self:
        self._connection.reopen()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Jobs(_Blocking[AsyncJobs]):
    """As `AsyncJobs`, blocking; rows are read on the calling thread."""

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
        choices: dict[str, Any] = {"options": options, "name": name, "columns": columns, "max_cost": max_cost}
        submission = self._async.submit(source, **choices, format=format, idempotency_key=idempotency_key)
        return Job(run_now(submission))

    def get(self, job_id: str) -> "Job":
        return Job(run_now(self._async.get(job_id)))

    def list(self, *, limit: int | None = None) -> Generator["Job", None, None]:
        return (Job(each) for each in iterate_now(self._async.list(limit=limit)))


class Job(_Blocking[AsyncJob]):
    """As `AsyncJob`, blocking: the same methods, arguments and errors."""

    @property
    def info(self) -> JobInfo:
        return self._async.info

    @property
    def id(self) -> str:
        return self._async.id

    @property
    def status(self) -> JobStatus:
        return self._async.status

    @property
    def is_ended(self) -> bool:
        return self._async.is_ended

    refresh = _run(AsyncJob.refresh)
    wait = _run(AsyncJob.wait)

    def results(
        self,
        *,
        after: int | None = None,
        page_size: int = 1000,
        follow: bool = True,
        poll_seconds: float = DEFAULT_POLL_SECONDS,
    ) -> Generator[Row[None], None, None]:
        rows = self._async.results(after=after, page_size=page_size, follow=follow, poll_seconds=poll_seconds)
        return iterate_now(rows)

    pause = _run(AsyncJob.pause)
    resume = _run(AsyncJob.resume)
    cancel = _run(AsyncJob.cancel)
    retry = _run(AsyncJob.retry)
    delete = _run(AsyncJob.delete)
    report = _run(AsyncJob.report)
