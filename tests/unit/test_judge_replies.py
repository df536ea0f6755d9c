"""A careful judge's replies to the prompts, written by hand, are taken whole and cost one call."""

import json

import pytest

from plumbline.ground.concurrency import InlineExecutor
from plumbline.judging.judge.questions import keyed_mark, load_prompts
from plumbline.judging.text.sample import Sample
from plumbline.judging.text.segmented_sample import segment
from plumbline.judging.tiers.llm import LlmTier
from plumbline.judging.tiers.tier import JudgeOptions
from tests.doubles.fakes import ScriptedChat
from tests.making.cases import load_cases


@pytest.mark.parametrize(
    ("contexts", "question", "answer", "reply", "verdicts"), load_cases("judge_replies", "taken_whole")
)
async def test_a_careful_reply_is_taken_whole(
    contexts: tuple[str, ...], question: str, answer: str, reply: str, verdicts: tuple[str, ...]
) -> None:
    chat = ScriptedChat(reply)
    tier = LlmTier({"default": chat}, load_prompts(), InlineExecutor(), mark=keyed_mark(b"test"))

    judgement = await tier.judge(segment(Sample(question, contexts, answer)), JudgeOptions(), seconds=10.0)

    assert [claim.verdict for claim in judgement.claims] == list(verdicts)
    assert judgement.flags == ()
    assert len(chat.requests) == 1
    # A sentence that is one claim is not written out again.
    texts = [item["claim"] for item in json.loads(reply)["sentences"] if "claim" in item]
    assert [claim.text for claim in judgement.claims if claim.text != answer[claim.start : claim.end]] == texts
