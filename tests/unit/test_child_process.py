"""Work in a process of its own."""

import operator
import os
import time

import pytest

from plumbline.ground.child_process import run_in_child
from plumbline.ground.concurrency import InlineExecutor
from plumbline.ground.errors import InvalidInput
from plumbline.judging.scoring import Scorer
from plumbline.judging.tiers.cascade import JudgeCascade
from plumbline.service.api.message_body import decode_message
from plumbline.service.api.retrieval import run_work


def test_the_result_comes_from_another_process() -> None:
    assert run_in_child(os.getpid, 60.0) != os.getpid()


async def test_a_large_retrieval_body_is_worked_on_there_and_a_small_one_here() -> None:
    scorer = Scorer(JudgeCascade([]), InlineExecutor())

    small, large = [await run_work(scorer, size, os.getpid) for size in (1_000, 9_000_000)]  # type: ignore[arg-type]

    here: object = os.getpid()
    assert (small == here, large == here) == (True, False)


def test_an_error_of_ours_comes_back_with_its_place() -> None:
    with pytest.raises(InvalidInput) as error:
        run_in_child(decode_message, 60.0, b'["a"]', list[int])

    assert error.value.place == "/0"


def test_work_that_breaks_is_told() -> None:
    with pytest.raises(RuntimeError, match="the process of truediv ended with 1"):
        run_in_child(operator.truediv, 60.0, 1, 0)


def test_work_that_does_not_end_is_killed() -> None:
    with pytest.raises(RuntimeError, match=r"sleep did not end within 0\.01 s"):
        run_in_child(time.sleep, 0.01, 600.0)
