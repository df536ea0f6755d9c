"""The deadline of work in threads."""

import asyncio
import math
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from threading import Event
from types import FrameType, SimpleNamespace

import pytest

from benchmarks.hostile_families import FAMILIES
from plumbline.ground import deadline
from plumbline.ground.concurrency import InlineExecutor
from plumbline.ground.deadline import within_deadline, work_deadline
from plumbline.ground.errors import FailureReason, TierFailure
from plumbline.judging.text import offload
from plumbline.judging.text.sample import Sample
from plumbline.judging.text.segmented_sample import segment
from plumbline.judging.tiers.calibration import load_calibrations
from plumbline.judging.tiers.lexical import LexicalTier
from tests.making.cases import load_cases

FACT = "The Marlow Bridge was opened in 1931."
CHARACTERS = 5_000
# Of functions, for each character of the text; a microsecond each, at most.
CALLS_BETWEEN_LOOKS = 5


def test_work_without_a_deadline_goes_through_all_pieces() -> None:
    assert list(within_deadline(range(3))) == [0, 1, 2]


def test_work_gives_up_before_the_first_piece_after_its_deadline() -> None:
    with work_deadline(time.monotonic() + 0.05):
        pieces = within_deadline(range(3))
        first = next(pieces)
        time.sleep(0.06)
        with pytest.raises(TierFailure) as failure:
            next(pieces)

    assert (first, failure.value.reason) == (0, FailureReason.TIMEOUT)


def test_an_inner_deadline_does_not_extend_the_outer_one() -> None:
    with work_deadline(0.0), work_deadline(math.inf), pytest.raises(TierFailure):
        next(within_deadline("a"))


async def test_work_in_a_thread_has_the_deadline_of_its_caller() -> None:
    with ThreadPoolExecutor(1) as executor, work_deadline(0.0), pytest.raises(TierFailure):
        await offload.run(lambda: list(within_deadline("ab")), executor, inline=False)


async def test_a_deadline_ends_with_its_block() -> None:
    with work_deadline(0.0):
        await asyncio.sleep(0)

    assert list(within_deadline("ab")) == ["a", "b"]


def longest_stretch(work: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> int:
    """The most calls of functions that a work makes without a look at its deadline."""
    calls = last = longest = 0

    def count(_: FrameType, event: str, __: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    def look() -> float:
        nonlocal last, longest
        longest, last = max(longest, calls - last), calls
        return 0.0

    monkeypatch.setattr(deadline, "time", SimpleNamespace(monotonic=look))
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
        look()
    finally:
        sys.setprofile(before)
    return longest


@pytest.mark.parametrize(
    ("family", "place"), load_cases("deadline", "no_long_stretch_of_work_goes_without_a_look_at_the_deadline")
)
def test_no_long_stretch_of_work_goes_without_a_look_at_the_deadline(
    family: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile = FAMILIES[family](CHARACTERS)[:CHARACTERS]
    sample = Sample("", (FACT,), hostile) if place == "answer" else Sample("", (hostile,), FACT)
    tier = LexicalTier(load_calibrations(None), InlineExecutor())

    def work() -> None:
        case = segment(sample)
        if case.needs_judge:
            tier.judge_now(case)

    assert longest_stretch(work, monkeypatch) < CALLS_BETWEEN_LOOKS * CHARACTERS


async def test_a_thread_whose_caller_was_cancelled_ends_at_its_next_piece() -> None:
    started, may_go_on = Event(), Event()

    def work() -> None:
        for _ in within_deadline(count()):
            started.set()
            may_go_on.wait()

    async def caller() -> None:
        with work_deadline(math.inf):
            await offload.run(work, executor, inline=False)

    with ThreadPoolExecutor(1) as executor:
        task = asyncio.create_task(caller())
        await asyncio.to_thread(started.wait)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        may_go_on.set()
        # The pool's end waits for the thread
