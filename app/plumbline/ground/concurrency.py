"""Bounded concurrency over many items, a thread pool with context variables, and pauses after failures."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, Final, ParamSpec, TypeVar

T = TypeVar("T")
R = TypeVar("R")
P = ParamSpec("P")


class Threads(ThreadPoolExecutor):
    """Thread pool that propagates contextvars, as `asyncio.to_thread` does: lines logged in it have a request's id."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        context = copy_context()
        work: Callable[..., Any] = context.run
        return super().submit(work, fn, *args, **kwargs)


class InlineExecutor(Executor):
    """Executor that runs work in the caller's thread: two busy threads would only fight over the interpreter."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


async def map_concurrently(
    fn: Callable[[T], Awaitable[R]], items: Iterable[T], *, limit: int, in_order: bool = False
) -> AsyncGenerator[R, None]:
    """Yield `fn(item)` for each item, with at most `limit` calls in flight or waiting to be taken.

    Results come in order of completion, or in the order of the items if `in_order`. A call starts only when a result
    is taken, so a slow consumer slows down the work. `aclose` (or an exception of `fn`) cancels the calls in flight and
    waits for their end.
    """
    pending = iter(items)
    running: dict[asyncio.Task[R], None] = {}
    done: asyncio.Queue[asyncio.Task[R]] = asyncio.Queue()

    async def run(item: T) -> R:
        return await fn(item)

    try:
        is_exhausted = False
        while True:
            while not is_exhausted and len(running) < limit:
                try:
                    task = asyncio.create_task(run(next(pending)))
                except StopIteration:
                    is_exhausted = True
                else:
                    running[task] = None
                    task.add_done_callback(done.put_nowait)
            if not running:
                return
            if in_order:
                task = next(iter(running))
                await asyncio.wait({task})
            else:
                task = await done.get()
            del running[task]
            yield task.result()
    finally:
        await end_tasks(running)


async def end_tasks(tasks: Iterable["asyncio.Task[Any]"]) -> None:
    """Cancel the tasks and wait until they have ended; their exceptions are dropped."""
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


_REST_SECONDS: Final = 5.0


class Rest:
    """Pause after a failure: nothing is tried for some seconds, then a single try decides."""

    def __init__(self, seconds: float = _REST_SECONDS) -> None:
        self._seconds = seconds
        self._until = 0.0

    def may_try(self) -> bool:
        now = time.monotonic()
        if now < self._until:
            return False
        if self._until:
            self._until = now + self._seconds
        return True

    def fail(self) -> None:
        self._until = time.monotonic() + self._seconds

    def end(self) -> None:
        self._until = 0.0
