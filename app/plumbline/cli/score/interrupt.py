"""Ctrl-C during a run: the first one lets what is under way finish, the second one cuts it off."""

import asyncio
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

from plumbline.cli.score.scorers import Halt

T = TypeVar("T")


def run_interruptibly(work: Callable[[], Coroutine[None, None, T]], halt: Halt) -> T | None:
    """What the work returns; None when it was cut off. SIGTERM counts as Ctrl-C does."""

    async def attended() -> T:
        task = asyncio.current_task()
        with _signals(halt, asyncio.get_running_loop(), lambda: task is not None and task.cancel()):
            return await work()

    try:
        return asyncio.run(attended())
    except asyncio.CancelledError:
        return None


@contextmanager
def _signals(halt: Halt, loop: asyncio.AbstractEventLoop, cut_off: Callable[[], object]) -> Iterator[None]:
    def interrupted() -> None:
        if halt.is_called:
            cut_off()
            return
        halt.call("interrupted")
        sys.stderr.write("plumbline: rows under way are finished, then it stops; interrupt again to stop at once\n")

    def handle(_: int, __: FrameType | None) -> None:
        loop.call_soon_threadsafe(interrupted)

    if threading.current_thread() is not threading.main_thread():
        # Signals are the main thread's
        yield
        return
    before = {each: signal.signal(each, handle) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
