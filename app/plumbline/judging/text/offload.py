"""Placement of CPU work: small pieces on the event loop, all others in the thread pool."""

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
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
