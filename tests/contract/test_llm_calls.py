"""How often tier llm asks, what that costs, and what it asks for: counted by the judge at the other end of the wire."""

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from tests.doubles.scripted_judge import ScriptedJudge
from tests.doubles.scripted_replies import RecordedRequest, Reply, completion
from tests.running.service import JUDGE_KEY, claim, data_of, evaluate, judge_settings, running, verdicts

FACTS = [f"Item {number} weighs {number + 10} kilograms." for number in range(1, 5)]
CONTEXTS = [" ".join(FACTS), "The store opens at nine."]
ANSWER = " ".join(FACTS)


def honest(request: RecordedRequest) -> Reply:
    """Every sentence or claim supported by its own words."""
    return completion(honest_content(data_of(request)), usage=(100, 20))


def honest_content(data: Mapping[str, Any]) -> str:
    if "claims" in data:
        checked = [
            {"id": each["id"], **claim("", "supported", FACTS[int(each["id"][0]) % len(FACTS)])}
            for each in data["claims"]
        ]
        return json.dumps({"claims": checked})
    sentences = [each for each in data["answer"] if "id" in each]
    return verdicts(*([claim("", "supported", each["text"])] for each in sentences))


def spoiled(kind: str, request: RecordedRequest) -> Reply:
    """The first reply with one fault; what is asked after it is answered well."""
    data = data_of(request)
    content = honest_content(data)
    if "claims" in data:
        return honest(request)
    if kind == "cut":
        return completion(content[: content.rindex('{"id"')], finish_reason="length", usage=(100, 20))
    reply = json.loads(content)
    if kind == "missing":
        reply["sentences"].pop()
    elif kind == "invented":
        reply["sentences"][0]["quotes"] = ["weighed by the town's official in March"]
    elif kind == "unreadable":
        return completion("I would say that everything is fine.", usage=(100, 20))
    return completion(json.dumps(reply), usage=(100, 20))


@pytest.mark.parametrize("kind", ["cut", "missing", "invented", "unreadable"])
async def test_one_more_call_mends_a_reply_and_asks_for_nothing_else(judge: ScriptedJudge, kind: str) -> None:
    judge.reply_with(lambda request: spoiled(kind, request))

    async with running(judge_settings(judge)) as client:
        result = await evaluate(client, contexts=CONTEXTS, answer=ANSWER)

    assert (result["tier"], result["faithfulness"]) == ("llm", 1.0)
    assert result["trace"]["usage"]["calls"] == result["trace"]["judge"]["calls"] == judge.calls == 2
    asked = [each["id"] for each in data_of(judge.requests[1])["claims"]]
    assert (
        asked
        == {
            "cut": ["3.0"],
            "missing": ["3.0"],
            "invented": ["0.0"],
            "unreadable": ["0.0", "1.0", "2.0", "3.0"],
        }[kind]
    )
    looked_at = [each["id"] for each in result["claims"] if "second_look" in each["flags"]]
    assert looked_at == asked


# Whole replies, 2 with an invented quote, and one each that is cut, incomplete, unreadable
MIX = ["clean"] * 5 + ["invented", "invented", "cut", "missing", "unreadable"]
JOINED = ["answer_relevance", "context_relevance", "context_precision@2", "context_utilization"]
COMPARING = ["answer_relevance", "context_recall", "correctness", "noise_sensitivity"]


def with_lists(kind: str, request: RecordedRequest) -> Reply:
    """The reply of the mix, with the lists that are asked for beside its sentences, or alone."""
    about: dict[str, list[dict[str, Any]]] = {
        "question_parts": [{"part": "What do they weigh?", "answered_by": [1], "answered": "fully"}],
        "passages": [
            {"context": number, "quote": text[:20], "relevance": "relevant"}
            for number, text in enumerate(CONTEXTS, start=1)
        ],
        "reference_in_answer": [{"reference": 1, "fact": FACTS[0], "stated_by": [1], "in_answer": "stated"}],
        "reference_in_contexts": [{"reference": 1, "fact": FACTS[0], "quote": FACTS[0], "in_contexts": "found"}],
        "claims_by_reference": [
            {"claim_id": each["id"], "quote": "", "by_reference": "not_mentioned"}
            for each in data_of(request).get("claims", [])
        ],
    }
    asked = {name: items for name, items in about.items() if f'- "{name}":' in request.prompt}
    if "You give verdicts on an answer" in request.prompt:
        return completion(json.dumps(asked), usage=(100, 20))
    reply = spoiled(kind, request)
    if kind in ("cut", "unreadable") or not asked:
        return reply
    content = json.loads(json.loads(reply.body)["choices"][0]["message"]["content"])
    return completion(json.dumps({**content, **asked}), usage=(100, 20))


@pytest.mark.parametrize(
    ("metrics", "reference", "calls"),
    [([], None, 15), (["faithfulness", *JOINED], None, 15 + 2), (["faithfulness", *COMPARING], FACTS[0], 15 + 10)],
    ids=["faithfulness", "five metrics", "five with a reference"],
)
async def test_a_fault_of_a_reply_costs_one_more_call(
    judge: ScriptedJudge, metrics: list[str], reference: str | None, calls: int
) -> None:
    sample: dict[str, Any] = {"question": "What do they weigh?", "contexts": CONTEXTS, "answer": ANSWER}
    if reference:
        sample["reference"] = reference
    async with running(judge_settings(judge, cache_ttl_seconds=0)) as client:
        for kind in MIX:
            judge.reply_with(partial(with_lists, kind))
            result = await evaluate(client, **sample, **({"metrics": metrics} if metrics else {}))
            assert (result["tier"], result["faithfulness"]) == ("llm", 1.0)
            assert {each["status"] for each in result.get("metrics", {}).values()} <= {"judged"}

    assert judge.calls == calls


async def test_numbers_add_up_to_what_the_provider_counted(judge: ScriptedJudge) -> None:
    prices = {"judge-1": {"input": 2.0, "output": 10.0}}
    judge.reply_with(lambda request: spoiled("missing", request))

    async with running(judge_settings(judge, llm_prices=prices)) as client:
        results = [await evaluate(client, contexts=CONTEXTS, answer=f"{ANSWER} {FACTS[each]}") for each in range(3)]

    usages = [result["trace"]["usage"] for result in results]
    assert sum(usage["calls"] for usage in usages) == judge.calls == 6
    assert sum(usage["prompt_tokens"] for usage in usages) == judge.tokens_served.prompt == 600
    assert sum(usage["completion_tokens"] for usage in usages) == judge.tokens_served.completion == 120
    assert [usage["cost"] for usage in usages] == pytest.approx([(200 * 2 + 40 * 10) / 1e6] * 3)


async def test_what_a_failed_tier_spent_is_in_the_usage(judge: ScriptedJudge) -> None:
    judge.reply_with(completion("nothing of use", usage=(50, 5)))

    async with running(judge_settings(judge)) as client:
        result = await evaluate(client, contexts=CONTEXTS, answer=ANSWER)

    assert result["tier"] != "llm"
    assert result["trace"]["judge"]["calls"] == 0
    assert result["trace"]["attempts"][0]["calls"] == result["trace"]["usage"]["calls"] == judge.calls == 2
    assert (result["trace"]["usage"]["prompt_tokens"], result["trace"]["usage"]["completion_tokens"]) == (100, 10)


# --- the cache


async def test_an_identical_second_batch_costs_no_call(judge: ScriptedJudge) -> None:
    judge.reply_with(honest)
    answers = [f"{ANSWER} {fact}" for fact in FACTS]

    async with running(judge_settings(judge)) as client:
        first = [await evaluate(client, contexts=CONTEXTS, answer=answer) for answer in answers]
        second = [await evaluate(client, contexts=CONTEXTS, answer=answer) for answer in answers]

    assert judge.calls == len(answers)
    assert [result["trace"]["judge"]["cache"] for result in first + second] == ["miss"] * 4 + ["hit"] * 4
    assert [result["trace"]["usage"]["calls"] for result in second] == [0] * 4
    for before, after in zip(first, second, strict=True):
        assert before["claims"] == after["claims"]
        assert before["faithfulness"] == after["faithfulness"]


async def test_verdicts_are_not_shared_between_keys(judge: ScriptedJudge) -> None:
    judge.reply_with(honest)
    keys = ("first-key-of-sixteen", "second-key-of-sixteen")

    async with running(judge_settings(judge, api_keys=keys)) as client:
        for key in (*keys, keys[0]):
            client.headers["x-api-key"] = key
            await evaluate(client, contexts=CONTEXTS, answer=ANSWER)

    assert judge.calls == 2


# --- several judges


def second_judge(judge: ScriptedJudge) -> dict[str, list[dict[str, str]]]:
    endpoint = {"provider": "generic", "base_url": judge.base_url, "model": "judge-2", "api_key": JUDGE_KEY}
    return {"second": [endpoint], "third": [{**endpoint, "model": "judge-3"}]}


def of_model(model: str) -> Any:
    return lambda request: request.json["model"] == model


async def test_three_judges_vote_and_their_agreement_is_the_confidence(judge: ScriptedJudge) -> None:
    def strict(request: RecordedRequest) -> Reply:
        refuted = [{"id": each["id"], **claim("", "not_mentioned")} for each in data_of(request)["claims"]]
        return completion(json.dumps({"claims": refuted}))

    judge.reply_with(honest)
    judge.reply_when(of_model("judge-3"), strict)
    async with running(judge_settings(judge, llm_judges=second_judge(judge))) as client:
        agreed = await evaluate(client, contexts=CONTEXTS, answer=ANSWER, judges=["default", "second"])
        disputed = await evaluate(client, contexts=CONTEXTS, answer=ANSWER, judges=["default", "second", "third"])

    assert (agreed["faithfulness"], agreed["confidence"]) == (1.0, 0.75)
    assert (disputed["faithfulness"], disputed["confidence"]) == (1.0, 0.6)
    assert all("disputed" in each["flags"] for each in disputed["claims"])
    assert [request.json["model"] for request in judge.requests[:2]] == ["judge-1", "judge-2"]
    assert disputed["trace"]["usage"]["calls"] == 3


@pytest.mark.parametrize(
    ("disputed", "first", "passed", "rule"),
    [
        ("lower", "supported", False, "all_supported"),
        ("unsure", "supported", None, "unsure"),
        ("unsure", "not_mentioned", False, "all_supported"),
    ],
)
async def test_a_second_judge_is_asked_where_it_can_turn_the_decision_and_leaves_it_open_if_asked_to(
    judge: ScriptedJudge, disputed: str, first: str, passed: bool | None, rule: str
) -> None:
    def strict(request: RecordedRequest) -> Reply:
        refuted = [{"id": each["id"], **claim("", "not_mentioned")} for each in data_of(request)["claims"]]
        return completion(json.dumps({"claims": refuted}))

    judge.reply_with(completion(verdicts(*([claim("", first, fact)] for fact in FACTS))))
    judge.reply_when(of_model("judge-2"), strict)
    sample = {"contexts": CONTEXTS, "answer": ANSWER, "escalation": "second", "disputed": disputed}
    async with running(judge_settings(judge, llm_judges=second_judge(judge))) as client:
        result, again = [await evaluate(client, **sample) for _ in range(2)]

    assert (result["passed"], result["decision"]["rule"]) == (passed, rule)
    assert (again["passed"], again["trace"]["judge"]["cache"]) == (passed, "hit")
    assert ("tiers_disagree" in result["flags"]) == (first == "supported")
    assert [request.json["model"] for request in judge.requests] == ["judge-1", "judge-2"]


@pytest.mark.parametrize("field", [{"judges": ["nobody"]}, {"escalation": "nobody"}])
async def test_a_judge_that_is_not_configured_is_refused_by_name(judge: ScriptedJudge, field: dict[str, Any]) -> None:
    async with running(judge_settings(judge, llm_judges=second_judge(judge))) as client:
        response = await client.post("/v1/evaluations", json={"contexts": CONTEXTS, "answer": ANSWER, **field})

    assert response.status_code == 422
    assert "no judge is named 'nobody'; known are default, second, third" in response.json()["detail"]
    assert judge.calls == 0


# --- long input


async def test_half_a_megabyte_of_context_is_read_by_a_small_model(judge: ScriptedJudge) -> None:
    filler = "The store was open on that day and many people came to it. " * 220
    contexts = [*(f"{number} {filler}" for number in range(38)), CONTEXTS[0]]

    def reader(request: RecordedRequest) -> Reply:
        data = data_of(request)
        if "Item 1 weighs" in " ".join(piece["text"] for piece in data["contexts"]):
            return honest(request)
        reply = json.loads(honest_content(data))
        for item in reply.get("claims") or reply["sentences"]:
            item.update(verdict="not_mentioned", quotes=[])
        return completion(json.dumps(reply))

    judge.reply_with(reader)
    assert sum(map(len, contexts)) > 490_000
    async with running(judge_settings(judge, llm_context_tokens=32_768)) as client:
        result = await evaluate(client, contexts=contexts, answer=ANSWER)

    assert (result["tier"], result["faithfulness"]) == ("llm", 1.0)
    assert result["trace"]["windows"] > 4
    assert result["contexts_used"] == [38]
    shown = {piece["id"]: "" for request in judge.requests for piece in data_of(request)["contexts"]}
    assert len(shown) == len(contexts)
    assert max(len(request.body) for request in judge.requests) < 32_768 * 3
