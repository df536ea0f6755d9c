"""The deadline of work in threads."""

import asyncio
import math
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from plumbline.ground.concurrency import within_deadline, work_deadline
from plumbline.ground.errors import FailureReason, TierFailure
from plumbline.judging.tiers import offload


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
