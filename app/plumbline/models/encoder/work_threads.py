"""Threads of low priority for long computations."""

import contextlib
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from typing import Final, TypeVar

from threadpoolctl import threadpool_limits

LOADER: Final = "model-loader"
T = TypeVar("T")

# Of the scheduler, 0 to 19: the loop that answers requests gets a core at once, the model what is left of them.
_NICENESS = 10


class WorkThreads:
    """`count` threads that each run `work` until it returns."""

    def __init__(self, count: int, work: Callable[[], None]) -> None:
        self.threads = [
            threading.Thread(target=in_background, args=(work,), name=f"encoder-{number}", daemon=True)
            for number in range(count)
        ]
        for thread in self.threads:
            thread.start()

    def join(self) -> None:
        """Wait until all have returned."""
        for thread in self.threads:
            thread.join()


def in_background(work: Callable[[], None]) -> None:
    """Run `work` at low priority; for a dedicated thread, as there is no way back on Linux."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
    work()


def make_in_background(make: Callable[[], T], made: "Future[T]") -> None:
    """Run `make` in a low-priority thread; threads that it starts inherit that. The caller may end `made` itself.

    A process that ends meanwhile should not wait for the thread, named `LOADER`: it cannot be interrupted.
    """

    def work() -> None:
        with contextlib.suppress(InvalidStateError):
            try:
                made.set_result(make())
            except InvalidStateError:
                raise
            except BaseException as error:  # raised again in the caller
                made.set_exception(error)

    threading.Thread(target=in_background, args=(work,), name=LOADER, daemon=True).start()


def single_threaded_algebra() -> None:
    """Make numpy's products run in the calling thread, everywhere in this process.

    Theirs are small, and a pool that waits for the next one by spinning takes the model's cores: 16 ms of them for a
    product of 1 ms.
    """
    threadpool_limits(1, user_api="blas")


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
