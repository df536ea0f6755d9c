"""Right claims in tricky form, and wrong ones of the same kinds, from a judge that calls all of them supported."""

import json
from pathlib import Path
from typing import Any

from plumbline.ground.concurrency import InlineExecutor
from plumbline.judging.judge.questions import load_prompts
from plumbline.judging.text.verdicts import Judgement, Verdict
from plumbline.judging.tiers.llm import LlmTier
from plumbline.judging.tiers.tier import JudgeOptions
from tests.doubles.fakes import ScriptedChat, case_of

LINES = (Path(__file__).parents[1] / "data" / "tricky_claims.jsonl").read_text(encoding="utf-8").splitlines()
CLAIMS: list[dict[str, Any]] = [json.loads(line) for line in LINES]
PROMPTS = load_prompts()


async def _judge(row: dict[str, Any]) -> tuple[Judgement, int]:
    """Return the judgement of a judge that calls it supported, twice where it is asked twice, and the calls."""
    said = {"claim": row["claim"], "quotes": [row["context"]], "verdict": "supported"}
    first = json.dumps({"sentences": [{"id": 1, "claims": [said]}]})
    chat = ScriptedChat(first, json.dumps({"claims": [{"id": "0.0", **said}]}))
    tier = LlmTier({"default": chat}, PROMPTS, InlineExecutor())
    judgement = await tier.judge(case_of(row["claim"], row["context"]), JudgeOptions(), seconds=5.0)
    return judgement, len(chat.requests)


def test_half_of_the_claims_are_chinese_and_100_are_right() -> None:
    counts = {(row["right"], row["language"]): 0 for row in CLAIMS}
    for row in CLAIMS:
        counts[row["right"], row["language"]] += 1

    assert counts == {(True, "en"): 50, (True, "zh"): 50, (False, "en"): 30, (False, "zh"): 30}


async def test_no_tricky_right_claim_is_lowered_and_few_are_asked_twice() -> None:
    judged = [await _judge(row) for row in CLAIMS if row["right"]]

    assert all(claim.verdict is Verdict.SUPPORTED for judgement, _ in judged for claim in judgement.claims)
    assert sum(calls for _, calls in judged) <= 114


async def test_a_judge_is_believed_on_wrong_claims_too_and_most_of_them_are_flagged() -> None:
    judged = [(await _judge(row))[0] for row in CLAIMS if not row["right"]]

    assert all(claim.verdict is Verdict.SUPPORTED for judgement in judged for claim in judgement.claims)
    assert sum(any(claim.flags for claim in judgement.claims) for judgement in judged) >= 50
