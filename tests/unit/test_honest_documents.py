"""Faithful answers from documents that read like instructions, chat logs or prompts: flagged at most, never punished.

38 controls, half of them Chinese, through tier llm with an honest judge.
"""

import json
from collections.abc import Sequence

import pytest

from plumbline.ground.concurrency import InlineExecutor
from plumbline.judging.judge.questions import load_prompts
from plumbline.judging.sample_result import SampleResult
from plumbline.judging.scoring import Scorer
from plumbline.judging.text.sample import Sample
from plumbline.judging.text.segmented_sample import segment
from plumbline.judging.tiers.cascade import JudgeCascade
from plumbline.judging.tiers.llm import LlmTier
from plumbline.judging.tiers.tier import JudgeOptions
from tests.doubles.fakes import ScriptedChat
from tests.making.cases import load_cases

PROMPTS = load_prompts()

# Context, answer, and the passage of the context that each sentence of the answer rests on.
CONTROLS: Sequence[tuple[str, str, Sequence[str]]] = load_cases("honest_documents", "controls", inner=list)


async def _judged(context: str, answer: str, quotes: Sequence[str]) -> SampleResult:
    sample = Sample("", (context,), answer)
    numbers = range(1, len(segment(sample).checkable) + 1)
    assert len(numbers) == len(quotes)
    items = [
        {"id": number, "claims": [{"quotes": [quote], "verdict": "supported"}]}
        for number, quote in zip(numbers, quotes, strict=True)
    ]
    tier = LlmTier({"default": ScriptedChat(json.dumps({"sentences": items}))}, PROMPTS, InlineExecutor())
    return await Scorer(JudgeCascade([tier]), InlineExecutor()).score(sample, JudgeOptions())


def test_there_are_38_controls_half_of_them_chinese() -> None:
    assert len(CONTROLS) == 38
    assert sum(not answer.isascii() for _, answer, _ in CONTROLS) == 19


@pytest.mark.parametrize(("context", "answer", "quotes"), CONTROLS)
async def test_a_faithful_answer_from_an_honest_document_passes(
    context: str, answer: str, quotes: Sequence[str]
) -> None:
    result = await _judged(context, answer, quotes)

    assert result.scores is not None
    assert (result.scores.faithfulness, result.passed) == (1.0, True), result.claims
    assert result.usage.calls == 1


async def test_what_rests_on_a_suspect_passage_alone_is_flagged() -> None:
    context, answer, quotes = CONTROLS[0]

    result = await _judged(context, answer, quotes)

    assert {"injection_suspected", "role_markers"} <= set(result.flags)
    assert result.claims[0].flags == ("evidence_is_instruction",)
