"""The client without asyncio: the same API, on an event loop in a background thread."""

import asyncio
import functools
import os
import queue
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import aclosing
from typing import Any, Concatenate, Final, Generic, NamedTuple, ParamSpec, Self, TypeVar

from plumbline.client.async_client import DEFAULT_TIMEOUT_SECONDS, DEFAULT_URL, AsyncPlumbline
from plumbline.client.batches import DEFAULT_BATCH_SIZE, DEFAULT_IN_FLIGHT, End
from plumbline.client.failures import ClientClosed, Retries
from plumbline.client.job import DEFAULT_POLL_SECONDS, AsyncJob, JobEvent
from plumbline.client.jobs import AnyRow, AsyncJobs
from plumbline.client.row import Row
from plumbline.client.samples import AnyOptions, AnySample
from plumbline.ground.concurrency import end_tasks
from plumbline.schemas.jobs import JobInfo, JobStatus

T = TypeVar("T")
S = TypeVar("S", bound=AnySample)
A = TypeVar("A")
P = ParamSpec("P")

# Items fetched ahead: a switch of threads for each would cost more than all else.
_AHEAD: Final = 32


class LoopThread:
    """Run coroutines for other threads; a daemon thread. anyio's portal has no `iterate`, and is no dependency here."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=_run_loop, args=(self._loop,), name="plumbline-client", daemon=True)
        self._thread.start()
        self._finalizer = weakref.finalize(self, _stop, self._loop, self._thread)

    @property
    def is_open(self) -> bool:
        """True until it is closed."""
        return self._finalizer.alive

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and return its result; it is cancelled when the caller is interrupted."""
        if not self.is_open:
            coroutine.close()
            raise ClientClosed("the client is closed")
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except CancelledError:
            raise ClientClosed("the client was closed") from None
        except BaseException:
            future.cancel()
            raise

    def iterate(self, items: AsyncGenerator[T, None], *, feed: "Feed[Any] | None" = None) -> Generator[T, None, None]:
        """Yield the items, produced on the loop at most a few ahead; closing this ends their producer.

        `feed` is read on the thread that iterates, while it waits for the loop.
        """
        box = _Box[T](self._loop, feed)
        task = self.run(_started(lambda: box.fill(items)))
        try:
            yield from box.items()
        finally:
            if self.is_open:
                self.run(end_tasks([task]))

    def close(self) -> None:
        """Stop the loop and what runs on it; idempotent."""
        self._finalizer()


class _Over(NamedTuple):
    error: BaseException | None


class _Wanted(NamedTuple):
    """A request of the loop for items of the feed."""


class Feed(Generic[S]):
    """An iterator that is read on the caller's thread: a database cursor, for one, allows no other.

    Args:
        at_once: items passed to the loop together.
    """

    def __init__(self, items: Iterator[S], *, at_once: int) -> None:
        self._items = items
        self._at_once = at_once
        self._drawn: list[S | End] = []
        self._given: asyncio.Queue[list[S | End]] = asyncio.Queue()
        self._buffer: list[S | End] = []
        self.ask: Callable[[], None] = lambda: None

    async def next(self) -> S | End:
        """Return the next item; called on the loop."""
        if not self._buffer:
            self.ask()
            self._buffer = (await self._given.get())[::-1]
        return self._buffer.pop()

    def draw(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Read one item, on the caller's thread; return True if a full group was passed to the loop."""
        item = next(self._items, End())
        self._drawn.append(item)
        is_enough = isinstance(item, End) or len(self._drawn) == self._at_once
        if is_enough:
            loop.call_soon_threadsafe(self._given.put_nowait, self._drawn)
            self._drawn = []
        return is_enough


class _Box(Generic[T]):
    """A bounded queue from the loop to the iterating thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, feed: Feed[Any] | None) -> None:
        self._loop = loop
        self._feed = feed
        self._room = asyncio.Semaphore(_AHEAD)
        self._came: queue.SimpleQueue[T | _Over | _Wanted] = queue.SimpleQueue()
        if feed is not None:
            feed.ask = lambda: self._came.put(_Wanted())

    async def fill(self, items: AsyncGenerator[T, None]) -> None:
        """Put the items in, with backpressure."""
        try:
            async with aclosing(items) as made:
                async for item in made:
                    await self._room.acquire()
                    self._came.put(item)
        except asyncio.CancelledError:
            self._came.put(_Over(ClientClosed("the client was closed")))
            raise
        except BaseException as error:
            self._came.put(_Over(error))
        else:
            self._came.put(_Over(None))

    def items(self) -> Iterator[T]:
        """Yield the items, on the iterating thread."""
        is_wanted = False
        while True:
            try:
                came = self._came.get(block=not is_wanted)
            except queue.Empty:
                is_wanted = self._feed is not None and not self._feed.draw(self._loop)
                continue
            if isinstance(came, _Wanted):
                is_wanted = True
            elif isinstance(came, _Over):
                if came.error is not None:
                    raise came.error
                return
            else:
                self._loop.call_soon_threadsafe(self._room.release)
                yield came


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    loop.call_soon_threadsafe(loop.stop)
    # Collected on the loop's own thread, it cannot wait for itself.
    if thread is not threading.current_thread():
        thread.join()


async def _started(work: Callable[[], Coroutine[Any, Any, None]]) -> "asyncio.Task[None]":
    return asyncio.create_task(work())


class _Blocking(Generic[A]):
    """An object of the asyncio client, and the thread that it works on."""

    def __init__(self, asynchronous: A, thread: LoopThread) -> None:
        self._async = asynchronous
        self._thread = thread


def _run(method: Callable[Concatenate[A, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[_Blocking[A], P], T]:
    """Return the method with the same arguments that waits for the result."""

    @functools.wraps(method)
    def run(self: _Blocking[A], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._thread.run(method(self._async, *args, **kwargs))

    return run


class Plumbline(_Blocking[AsyncPlumbline]):
    """A client of a running service; use it as a context manager or call `close`.

    Arguments and errors are those of `AsyncPlumbline`. It works inside a running event loop (in a notebook), and from
    several threads.
    """

    def __init__(
        self,
        base_url: str = DEFAULT_URL,
        api_key: str | None = None,
        *,
        timeout: float = DEFAULT_TIMEOUT_SECONDS,
        retries: Retries = Retries(),  # noqa: B008
    ) -> None:
        super().__init__(AsyncPlumbline(base_url, api_key, timeout=timeout, retries=retries), LoopThread())
        self.jobs = Jobs(self._async.jobs, self._thread)

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
        feed = Feed(iter(samples), at_once=min(batch_size, in_flight))
        rows = self._async.evaluate_source(
            feed.next, options=options, in_flight=in_flight, batch_size=batch_size, in_order=in_order
        )
        return self._thread.iterate(rows, feed=feed)

    def close(self) -> None:
        """Close the connections and stop the thread."""
        if self._thread.is_open:
            self._thread.run(self._async.close())
        self._thread.close()

    def __enter__(self) -> Self:
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
        with self._async.submission(
            options=options, name=name, columns=columns, max_cost=max_cost, idempotency_key=idempotency_key
        ) as submission:
            submission.add(source, format)
            return Job(self._thread.run(submission.send()), self._thread)

    def get(self, job_id: str) -> "Job":
        return Job(self._thread.run(self._async.get(job_id)), self._thread)

    def list(self, *, limit: int | None = None) -> Generator["Job", None, None]:
        for job in self._thread.iterate(self._async.list(limit=limit)):
            yield Job(job, self._thread)


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

    def events(self, *, last_event_id: str | None = None) -> Generator[JobEvent, None, None]:
        return self._thread.iterate(self._async.events(last_event_id=last_event_id))

    def results(
        self,
        *,
        after: int | None = None,
        page_size: int = 1000,
        follow: bool = True,
        poll_seconds: float = DEFAULT_POLL_SECONDS,
    ) -> Generator[Row[None], None, None]:
        return self._thread.iterate(
            self._async.results(after=after, page_size=page_size, follow=follow, poll_seconds=poll_seconds)
        )

    pause = _run(AsyncJob.pause)
    resume = _run(AsyncJob.resume)
    cancel = _run(AsyncJob.cancel)
    retry = _run(AsyncJob.retry)
    delete = _run(AsyncJob.delete)
    report = _run(AsyncJob.report)
