"""Metrics on cases worked by hand, with a judge that gives the lists written there: tests/data/metrics.jsonl."""

import json
from pathlib import Path
from typing import Any

import pytest

from plumbline.ground.concurrency import InlineExecutor
from plumbline.ground.judge_settings import JudgeKind
from plumbline.judging.judge.metrics import find_metrics
from plumbline.judging.judge.questions import load_prompts
from plumbline.judging.ports.exchange import ChatReply, ChatRequest, Ledger
from plumbline.judging.ports.observation import Readiness, State
from plumbline.judging.scoring import Scorer
from plumbline.judging.text.sample import Sample
from plumbline.judging.tiers.cascade import JudgeCascade
from plumbline.judging.tiers.llm import LlmTier
from plumbline.judging.tiers.tier import JudgeOptions
from tests.doubles.request_ids import with_request_ids

PROMPTS = load_prompts()
CASES = [
    json.loads(line) for line in (Path(__file__).parents[1] / "data" / "metrics.jsonl").read_text("utf-8").splitlines()
]


def formed(reply: dict[str, Any], form: str) -> str:
    """The reply as a weaker judge would write it."""
    text = json.dumps(reply, ensure_ascii=False)
    forms = {
        "plain": text,
        "fenced": f"Sure, here it is:\n```json\n{text}\n```\nLet me know!",
        "single quotes": str(reply),
        "lists first": json.dumps(dict(reversed(reply.items())), ensure_ascii=False),
        "wrapped": json.dumps({"result": reply}, ensure_ascii=False),
        "two objects": "\n".join(json.dumps({key: value}, ensure_ascii=False) for key, value in reply.items()),
        "trailing commas": text.replace("}]", "},]"),
        "cut": text[:-4],
    }
    return forms[form]


class CaseJudge:
    """A ChatModel that judges sentences by one rule and gives the lists of a case in turn, request by request."""

    name, model, variant, context_tokens = "default", "scripted", "", 32_768
    kind: JudgeKind = "chat"

    def __init__(self, case: dict[str, Any]) -> None:
        self.requests: list[ChatRequest] = []
        self._replies = list(case["replies"])
        self._form = case.get("form", "plain")
        self._verdicts = case.get("claims", {})

    async def complete(self, request: ChatRequest, *, seconds: float, ledger: Ledger) -> ChatReply:
        self.requests.append(request)
        ledger.add_call(prompt_tokens=11, completion_tokens=7, cached_tokens=None, cost=None)
        reply: dict[str, Any] = {}
        if request.schema_name == "verify_claims":
            said = {
                shown_id: self._verdicts.get(str(number), {"verdict": "not_mentioned"})
                for number, shown_id in enumerate(request.ids["id"], start=1)
            }
            reply["sentences"] = [{"id": number, "claims": [claim]} for number, claim in said.items()]
        elif request.schema_name == "check_claims":
            reply["claims"] = [{"id": each, "verdict": "not_mentioned"} for each in request.ids["id"]]
        if request.schema_name == "check_claims" or not self._replies:
            return ChatReply(json.dumps(reply), "scripted-1")
        text = with_request_ids(formed({**reply, **self._replies.pop(0)}, self._form), request.user)
        return ChatReply(text, "scripted-1", is_truncated=self._form == "cut")

    def readiness(self) -> Readiness:
        return Readiness(State.READY, "scripted: nowhere")


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
async def test_the_values_are_those_worked_by_hand(case: dict[str, Any]) -> None:
    sample = Sample(case["question"], tuple(case["contexts"]), case["answer"], case.get("reference"))
    judge = CaseJudge(case)
    executor = InlineExecutor()
    scorer = Scorer(JudgeCascade([LlmTier({"default": judge}, PROMPTS, executor)]), executor)

    result = await scorer.score(sample, JudgeOptions(metrics=find_metrics(list(case["values"]))))

    found: dict[str, Any] = {}
    for metric in result.metrics:
        has_value = metric.value is not None
        assert has_value == (metric.status.value in {"judged", "uncalibrated"})
        assert has_value == (metric.reason is None)
        found[metric.name] = round(metric.value, 6) if metric.value is not None else f"{metric.status}: {metric.reason}"
    assert found == case["values"]
    assert sum(request.schema_name != "check_claims" for request in judge.requests) == case["calls"]


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
async def test_the_verdicts_on_claims_are_those_without_metrics(case: dict[str, Any]) -> None:
    sample = Sample(case["question"], tuple(case["contexts"]), case["answer"], case.get("reference"))
    executor = InlineExecutor()
    results = []
    for names, replies in ((list(case["values"]), case["replies"]), ([], [])):
        judge = CaseJudge({**case, "replies": replies})
        scorer = Scorer(JudgeCascade([LlmTier({"default": judge}, PROMPTS, executor)]), executor)
        results.append(await scorer.score(sample, JudgeOptions(metrics=find_metrics(names))))

    beside, alone = results
    assert (beside.claims, beside.scores, beside.passed) == (alone.claims, alone.scores, alone.passed)
