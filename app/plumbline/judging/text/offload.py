"""Placement of CPU work: small pieces on the event loop, all others in the thread pool, which yields to the loop."""

import asyncio
import gc
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from contextvars import copy_context
from typing import Final, TypeVar

from plumbline.judging.text.sample import Sample

T = TypeVar("T")

# A hop to a thread and back costs more than most samples: 0.1 to 0.2 ms each, as both hold the interpreter in turns.
# A step over this many characters takes 1 to 3 ms of prose, English or Chinese, and 5 ms of the worst that we could
# write; the loop, which answers /healthz, is not held longer.
SMALL_CHARACTERS: Final = 2_000
# Longer samples keep a thread busy for a tenth of a second and more.
LONG_CHARACTERS: Final = 20_000


def are_small(texts: Iterable[str]) -> bool:
    """Return True if working on these texts does not block the event loop noticeably."""
    return sum(map(len, texts)) <= SMALL_CHARACTERS


def is_small(sample: Sample) -> bool:
    return count_characters(sample) <= SMALL_CHARACTERS


def count_characters(sample: Sample) -> int:
    return sum(map(len, (sample.question, sample.answer, sample.reference or "", *sample.contexts)))


async def run(work: Callable[[], T], executor: Executor, *, inline: bool) -> T:
    """Run `work` on the event loop if `inline`, else in `executor`, within the caller's `work_deadline`."""
    if inline:
        return work()
    return await asyncio.get_running_loop().run_in_executor(executor, copy_context().run, work)


_SHORT_TURN_SECONDS = 0.001
# Collections of younger objects before one of the old: seven million more objects than before, some hundred megabytes.
_RARE_COLLECTIONS = 1_000


class SharedInterpreter:
    """Lets the event loop have the interpreter more often while a thread works on long texts."""

    def __init__(self) -> None:
        self._usual_intervals = (sys.getswitchinterval(), gc.get_threshold()[2])
        self._long_works = 0

    @contextmanager
    def yield_often(self, size: int) -> Iterator[None]:
        """Let the event loop have its turns soon while a text of this size is worked on in a thread.

        It takes the interpreter back several times a request, and waits this long each time: at the usual 5 ms another
        request takes 50 to 100 ms. It costs a tenth of the throughput, which short texts keep. Old objects are left to
        be collected afterwards: walking the quarter of a million sentences of a text takes 0.2 s, time and again.
        """
        is_long = size > LONG_CHARACTERS
        self._long_works += is_long
        self._set_switch_interval()
        try:
            yield
        finally:
            self._long_works -= is_long
            self._set_switch_interval()

    def _set_switch_interval(self) -> None:
        seconds, rareness = (_SHORT_TURN_SECONDS, _RARE_COLLECTIONS) if self._long_works else self._usual_intervals
        sys.setswitchinterval(seconds)
        gc.set_threshold(*gc.get_threshold()[:2], rareness)
