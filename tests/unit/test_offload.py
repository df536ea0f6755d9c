"""Small samples are worked on where they are; what is long, or must be looked for, goes to the threads."""

import json
from collections.abc import Callable
from concurrent.futures import Future
from typing import ParamSpec, TypeVar

import pytest

from plumbline.ground.concurrency import InlineExecutor
from plumbline.judging.scoring import Scorer
from plumbline.judging.text.sample import Sample
from plumbline.judging.tiers.cascade import JudgeCascade
from plumbline.judging.tiers.llm import LlmTier, PromptSet
from plumbline.judging.tiers.offload import SMALL_CHARACTERS
from plumbline.judging.tiers.prompts import PromptLibrary
from plumbline.judging.tiers.tier import JudgeOptions
from tests.doubles.fakes import ScriptedChat

P = ParamSpec("P")
T = TypeVar("T")

FACT = "The bridge was opened in 1931."
PROMPTS = PromptSet(PromptLibrary("verify_claims", "v3"), PromptLibrary("check_claims", "v3"))


class CountingExecutor(InlineExecutor):
    """Counts what it is given."""

    def __init__(self) -> None:
        self.given = 0

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        self.given += 1
        return super().submit(fn, *args, **kwargs)


def reply(quote: str, reason: str = "") -> str:
    said = {"claim": FACT, "context_ids": [1], "quotes": [quote], "reason": reason, "verdict": "supported"}
    return json.dumps({"sentences": [{"id": 1, "claims": [said]}]})


async def work_given_away(context: str, *replies: str) -> int:
    """How many pieces of work a sample of tier llm gave to the executor."""
    executor = CountingExecutor()
    tier = LlmTier({"default": ScriptedChat(*replies)}, PROMPTS, executor)
    result = await Scorer(JudgeCascade([tier]), executor).score(
        Sample("", (context,), FACT), JudgeOptions(None, 0.5, 5.0)
    )
    assert result.tier == "llm"
    return executor.given


async def test_a_small_sample_is_worked_on_where_it_is() -> None:
    assert await work_given_away(FACT, reply(FACT)) == 0


async def test_a_long_sample_goes_to_the_threads() -> None:
    assert await work_given_away(f"{FACT} {'x ' * (SMALL_CHARACTERS // 2)}", reply(FACT)) > 0


@pytest.mark.parametrize(
    "said", [reply("the bridge was open in 1931"), reply(FACT, "x" * SMALL_CHARACTERS)], ids=["quote", "reply"]
)
async def test_a_quote_to_be_looked_for_and_a_long_reply_go_to_the_threads(said: str) -> None:
    assert await work_given_away(FACT, said) > 0
