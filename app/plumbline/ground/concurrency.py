"""Work on many items, a bounded number at a time, none of it left behind; and in threads, as part of what asked."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, ParamSpec, TypeVar

T = TypeVar("T")
R = TypeVar("R")
P = ParamSpec("P")


class Threads(ThreadPoolExecutor):
    """Threads whose work sees the context variables of whoever asked for it.

    `asyncio.to_thread` does that and `run_in_executor` does not; a line logged there would lack the request's id.
    """

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        context = copy_context()
        work: Callable[..., Any] = context.run
        return super().submit(work, fn, *args, **kwargs)


async def worked_through(
    items: Iterable[T], work: Callable[[T], Awaitable[R]], *, at_once: int, in_order: bool = False
) -> AsyncGenerator[R, None]:
    """What `work` returns for each item, in order of completion, or of the items where `in_order`.

    Items are begun only as results are taken: those under way and those done that nobody took yet are never more than
    `at_once` together. Close it (`contextlib.aclosing`) when not all is taken: what is under way is then cancelled and
    has ended when the call returns. What `work` raises ends it likewise.
    """
    pending = iter(items)
    begun: dict[asyncio.Task[R], None] = {}
    done: asyncio.Queue[asyncio.Task[R]] = asyncio.Queue()

    async def run(item: T) -> R:
        return await work(item)

    try:
        is_exhausted = False
        while True:
            while not is_exhausted and len(begun) < at_once:
                try:
                    task = asyncio.create_task(run(next(pending)))
                except StopIteration:
                    is_exhausted = True
                else:
                    begun[task] = None
                    task.add_done_callback(done.put_nowait)
            if not begun:
                return
            if in_order:
                task = next(iter(begun))
                await asyncio.wait({task})
            else:
                task = await done.get()
            del begun[task]
            yield task.result()
    finally:
        for task in begun:
            task.cancel()
        await asyncio.gather(*begun, return_exceptions=True)
