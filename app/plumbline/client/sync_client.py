"""The client without asyncio: the same calls, run by an event loop on a thread of its own."""

import asyncio
import functools
import os
import threading
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator, Iterable
from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import aclosing, suppress
from queue import SimpleQueue
from typing import Any, Concatenate, Final, Generic, ParamSpec, Self, TypeVar

from plumbline.client.async_client import DEFAULT_TIMEOUT_SECONDS, AsyncPlumbline
from plumbline.client.batches import DEFAULT_BATCH_SIZE, DEFAULT_IN_FLIGHT
from plumbline.client.failures import ClientClosed, Retries
from plumbline.client.job import DEFAULT_POLL_SECONDS, AsyncJob
from plumbline.client.jobs import AnyRow, AsyncJobs, open_rows, plan_submission, send_submission
from plumbline.client.row import Rows
from plumbline.client.samples import AnyOptions, AnySample, open_samples
from plumbline.ground.concurrency import end_tasks
from plumbline.schemas.jobs import JobInfo, JobStatus

T = TypeVar("T")
S = TypeVar("S", bound=AnySample)
A = TypeVar("A")
P = ParamSpec("P")
# Asks the calling thread for its next sample; answers that there is none.
_NEXT: Final = object()
_END: Final = object()


class LoopThread:
    """An event loop on a thread, which starts with the first call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = 0

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Return the coroutine's result; an interrupt of the calling thread cancels it."""
        with self._lock:
            # The thread is not in a forked process
            if self._loop is None or self._pid != os.getpid():
                self._pid = os.getpid()
                self._loop = asyncio.new_event_loop()
                weakref.finalize(self, _stop, self._loop)
                threading.Thread(target=_run_loop, args=[self._loop], name="plumbline-client", daemon=True).start()
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except CancelledError:
            raise ClientClosed("the client was closed") from None
        finally:
            future.cancel()

    def iterate(
        self, make: Callable[[AsyncIterator[S]], AsyncGenerator[T, None]], samples: Iterable[S] = ()
    ) -> Generator[T, None, None]:
        """Return a generator of the items of an async one over the samples; they are read on the calling thread."""
        inbox = _Inbox()
        made, left = make(inbox.read_samples()), iter(samples)

        async def work() -> None:
            async with aclosing(made) as items:
                async for item in items:
                    await inbox.hand_over(item)

        async def start() -> "asyncio.Task[None]":
            task = asyncio.create_task(work())
            task.add_done_callback(lambda done: inbox.put(done, Future()))
            return task

        def take() -> Generator[T, None, None]:
            task = self.run(start())
            try:
                while (each := inbox.get())[0] is not task:
                    item, reply = each
                    if item is _NEXT:
                        _reply(reply, lambda: next(left, _END))
                    else:
                        yield item
                        _reply(reply, lambda: None)
                task.result()
            except asyncio.CancelledError:
                raise ClientClosed("the client was closed") from None
            finally:
                if not task.done():
                    self.run(end_tasks([task]))

        return take()

    def close(self, last: Coroutine[Any, Any, None]) -> None:
        """Run the last coroutine, and end the thread and whatever waits for it."""

        async def end() -> None:
            await last
            await end_tasks(task for task in asyncio.all_tasks() if task is not asyncio.current_task())

        self.run(end())
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            _stop(loop)


def _stop(loop: asyncio.AbstractEventLoop) -> None:
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(loop.stop)


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


class _Inbox:
    """Items for the calling thread, each with a future that lets the loop continue."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[tuple[Any, Future[Any]]] = SimpleQueue()
        self.get = self._queue.get

    def put(self, item: object, reply: Future[Any]) -> None:
        self._queue.put((item, reply))

    async def hand_over(self, item: object) -> Any:
        reply: Future[Any] = Future()
        self.put(item, reply)
        return await asyncio.wrap_future(reply)

    async def read_samples(self) -> AsyncGenerator[Any, None]:
        while (sample := await self.hand_over(_NEXT)) is not _END:
            yield sample


def _reply(reply: Future[Any], make: Callable[[], object]) -> None:
    # The loop may have given up waiting
    with suppress(InvalidStateError):
        try:
            reply.set_result(make())
        except Exception as error:
            reply.set_exception(error)


class _Blocking(Generic[A]):
    """An object of the asyncio client, with the loop that runs it."""

    def __init__(self, asynchronous: A, loop: LoopThread) -> None:
        self._async, self._loop = asynchronous, loop


def _run(method: Callable[Concatenate[A, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[_Blocking[A], P], T]:
    """Return the method with the same arguments that waits for the result."""

    @functools.wraps(method)
    def run(self: _Blocking[A], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._loop.run(method(self._async, *args, **kwargs))

    return run


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
        super().__init__(AsyncPlumbline(base_url, api_key, timeout=timeout, retries=retries), LoopThread())
        self.jobs = Jobs(self._async.jobs, self._loop)

    evaluate = _run(AsyncPlumbline.evaluate)

    def evaluate_many(
        self,
        samples: Iterable[S],
        *,
        options: AnyOptions = None,
        in_flight: int = DEFAULT_IN_FLIGHT,
        batch_size: int = DEFAULT_BATCH_SIZE,
        in_order: bool = False,
    ) -> Rows[S]:
        """As `AsyncPlumbline.evaluate_many`; the samples are read on the calling thread, while it waits for a row."""
        evaluate_many = functools.partial(
            self._async.evaluate_many, options=options, in_flight=in_flight, batch_size=batch_size, in_order=in_order
        )
        return Rows(self._loop.iterate(evaluate_many, open_samples(samples)))

    def close(self) -> None:
        """Close the connections."""
        self._loop.close(self._async.close())

    def __enter__(self) -> Self:
        self._async.connection.reopen()
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
        given = {"name": name, "columns": columns, "max_cost": max_cost}
        build_spec = plan_submission(source, options, given, form=format, key=idempotency_key)
        with open_rows(source) as file:
            return Job(self._loop.run(send_submission(self._async.connection, build_spec(file))), self._loop)

    def get(self, job_id: str) -> "Job":
        return Job(self._loop.run(self._async.get(job_id)), self._loop)

    def list(self, *, limit: int | None = None) -> Generator["Job", None, None]:
        return (Job(each, self._loop) for each in self._loop.iterate(lambda _: self._async.list(limit=limit)))


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
    ) -> Rows[None]:
        rows = self._async.results(after=after, page_size=page_size, follow=follow, poll_seconds=poll_seconds)
        return Rows(self._loop.iterate(lambda _: rows))

    pause = _run(AsyncJob.pause)
    resume = _run(AsyncJob.resume)
    cancel = _run(AsyncJob.cancel)
    retry = _run(AsyncJob.retry)
    delete = _run(AsyncJob.delete)
    report = _run(AsyncJob.report)
