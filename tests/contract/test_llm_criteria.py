"""Criteria of a caller's own over HTTP: judged in the same call, each with a status and its quote checked."""

import json
from typing import Any

import pytest

from tests.contract.test_llm_metrics import PARTS, PASSAGES, SAMPLE, values_of, whole
from tests.doubles.scripted_judge import ScriptedJudge
from tests.doubles.scripted_replies import Scripted, completion
from tests.making.cases import load_cases
from tests.running.service import evaluate, judge_settings, plain_settings, running

TONE = {"name": "formal", "question": 'Is the "tone" formal?', "labels": {"yes": 1.0, "partly": 0.25, "no": 0.0}}
NAMED = {
    "name": "names_year",
    "question": "Does it name a year?",
    "labels": {"yes": 1, "no": 0},
    "quote_from": "answer",
}
BACKED = {**NAMED, "name": "backed", "quote_from": "contexts"}


def said(name: str, label: str, **members: str) -> dict[str, Any]:
    return {f"criterion_{name}": [{**members, f"label_{name}": label}]}


async def judged(judge: ScriptedJudge, criteria: list[dict[str, Any]], *steps: Scripted, **more: Any) -> dict[str, Any]:
    judge.reply_with(*steps)
    async with running(judge_settings(judge, deadline_seconds=3.0)) as client:
        return await evaluate(client, **{**SAMPLE, "criteria": criteria, **more})


async def test_criteria_and_metrics_take_one_call(judge: ScriptedJudge) -> None:
    reply = whole(PARTS, said("formal", "Partly"), said("names_year", "yes", quote="opened in 1931"))

    result = await judged(judge, [TONE, NAMED], completion(reply), metrics=["answer_relevance"])

    assert values_of(result) == {"answer_relevance": 0.5, "criterion_formal": 0.25, "criterion_names_year": 1.0}
    assert result["faithfulness"] == 0.75
    assert result["metrics"]["criterion_names_year"]["verdicts"][0]["evidence"][0]["quote"] == "opened in 1931"
    assert len(judge.requests) == 1
    told = judge.requests[0].prompt
    assert json.dumps(TONE["question"]) in told
    assert '"labels": ["yes", "partly", "no"]' in told


async def test_a_reply_to_three_of_five_questions_costs_one_short_call_for_the_other_two(judge: ScriptedJudge) -> None:
    lists = {"formal": said("formal", "yes"), "names_year": said("names_year", "yes", quote="opened in 1931")}
    backed = said("backed", "yes", quote="opened in 1931")

    result = await judged(
        judge,
        [TONE, NAMED, BACKED],
        completion(whole(PARTS, PASSAGES, backed)),
        completion(json.dumps({**lists["formal"], **lists["names_year"]})),
        metrics=["answer_relevance", "context_relevance"],
    )

    assert {metric["status"] for metric in result["metrics"].values()} == {"judged"}
    first, second = judge.requests
    asked = ["question_parts", "passages", *map("criterion_{}".format, (*lists, "backed"))]
    assert [name for name in asked if f'"{name}"' in first.prompt] == asked
    assert [name for name in asked if f'"{name}"' in second.prompt] == ["criterion_formal", "criterion_names_year"]
    assert len(second.body) < len(first.body) / 2


async def test_without_a_quote_that_is_found_the_lowest_label_counts_after_one_more_ask(judge: ScriptedJudge) -> None:
    made_up = said("backed", "yes", quote="opened in 1950")

    result = await judged(judge, [BACKED], completion(whole(made_up)), completion(json.dumps(made_up)))

    metric = result["metrics"]["criterion_backed"]
    assert (metric["value"], metric["status"]) == (0.0, "judged")
    assert metric["verdicts"][0]["flags"] == ["evidence_unverified"]
    assert len(judge.requests) == 2


async def test_a_label_that_is_none_costs_the_criterion_alone(judge: ScriptedJudge) -> None:
    broken = said("formal", "somewhat")

    result = await judged(judge, [TONE], completion(whole(broken)), completion(json.dumps(broken)))

    metric = result["metrics"]["criterion_formal"]
    assert (metric["value"], metric["status"], metric["reason"]) == (None, "not_judged", "invalid_reply")
    assert result["faithfulness"] == 0.75


async def test_a_tier_without_a_judge_cannot_tell() -> None:
    async with running(plain_settings()) as client:
        result = await evaluate(client, **{**SAMPLE, "criteria": [TONE], "tiers": ["lexical"]})

    assert result["metrics"]["criterion_formal"]["reason"] == "not_by_tier_lexical"


@pytest.mark.parametrize(("criteria", "told"), load_cases("llm_criteria", "refused", inner=list))
async def test_what_is_no_criterion_is_refused(criteria: list[dict[str, Any]], told: str) -> None:
    async with running(plain_settings()) as client:
        answer = await client.post("/v1/evaluations", json={**SAMPLE, "criteria": criteria})

    assert answer.status_code == 422
    assert told in answer.text


async def test_the_cache_knows_one_wording_from_another(judge: ScriptedJudge) -> None:
    other = {**TONE, "question": "Is it a poem?"}
    judge.reply_with(completion(whole(said("formal", "yes"))), completion(whole(said("formal", "no"))))

    async with running(judge_settings(judge)) as client:
        values = [
            values_of(await evaluate(client, **{**SAMPLE, "criteria": [each]}))["criterion_formal"]
            for each in (TONE, other, TONE)
        ]

    assert values == [1.0, 0.0, 1.0]
    assert len(judge.requests) == 2
