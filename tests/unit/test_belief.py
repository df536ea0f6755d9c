"""Right claims from an honest judge with true quotes: paraphrases, notations, calculations. None is lowered."""

import json

import pytest

from plumbline.ground.concurrency import InlineExecutor
from plumbline.judging.judge.questions import load_prompts
from plumbline.judging.text.verdicts import Verdict
from plumbline.judging.tiers.llm import LlmTier
from plumbline.judging.tiers.tier import JudgeOptions
from tests.doubles.fakes import ScriptedChat, case_of
from tests.making.cases import load_cases

PROMPTS = load_prompts()


async def _calls(sentence: str, context: str, quote: str, reason: str) -> int:
    """Return the calls for a right claim that a judge supports, and supports again where it is asked again."""
    said = {"quotes": [quote], "verdict": "supported", **({"reason": reason} if reason else {})}
    chat = ScriptedChat(json.dumps({"sentences": [{"id": 1, **said}]}), json.dumps({"claims": [{"id": "0.0", **said}]}))
    tier = LlmTier({"default": chat}, PROMPTS, InlineExecutor())

    judgement = await tier.judge(case_of(sentence, context), JudgeOptions(), seconds=5.0)

    assert [claim.verdict for claim in judgement.claims] == [Verdict.SUPPORTED], sentence
    return len(chat.requests)


@pytest.mark.parametrize(
    ("kind", "count", "most_calls"),
    [("once_changed", 9, 9), ("paraphrases", 20, 20), ("notations", 33, 35), ("fresh", 40, 40)],
)
async def test_no_right_verdict_is_lowered_and_hardly_one_is_asked_for_twice(
    kind: str, count: int, most_calls: int
) -> None:
    cases = load_cases("believe", kind)

    calls = [await _calls(*case) for case in cases]

    assert len(cases) == count
    assert sum(calls) <= most_calls, [case[0] for case, asked in zip(cases, calls, strict=True) if asked > 1]


@pytest.mark.parametrize(("claims", "is_whole"), load_cases("belief", "split_sentences", inner=list))
async def test_a_split_sentence_of_which_a_part_is_left_out_is_flagged_and_costs_no_call(
    claims: list[str], *, is_whole: bool
) -> None:
    sentence = "The Marlow Bridge opened in 1931 and carries two tracks for the railway."
    said = [{"id": 1, "claim": claim, "quotes": [sentence], "verdict": "supported"} for claim in claims]
    chat = ScriptedChat(json.dumps({"sentences": said}))
    tier = LlmTier({"default": chat}, PROMPTS, InlineExecutor())

    judgement = await tier.judge(case_of(sentence, sentence), JudgeOptions(), seconds=5.0)

    assert all(("claims_incomplete" in claim.flags) is not is_whole for claim in judgement.claims)
    assert ({claim.verdict for claim in judgement.claims}, len(chat.requests)) == ({Verdict.SUPPORTED}, 1)
