"""A decision model first, a chat judge for what it leaves undecided, and metrics as questions beside the verdicts."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.test_decision_judge import CONTEXTS, RIGHT, honest, refusing
from tests.doubles.scripted_decisions import FAULTS, AskedQuestion, always, decide, lean, read_questions
from tests.doubles.scripted_judge import ScriptedJudge, running_judge
from tests.doubles.scripted_replies import RecordedRequest, Reply, completion
from tests.running.service import evaluate, judge_settings, running, shown_data_of

RED = "It is red."
TONE = {"name": "tone", "question": "Is it polite?", "labels": {"polite": 1.0, "rude": 0.0}}


@pytest.fixture
def chat() -> Iterator[ScriptedJudge]:
    """A chat judge that supports what it is asked about, but for what stands nowhere."""

    def answer(request: RecordedRequest) -> Reply:
        data = shown_data_of(request)
        name, asked = ("claims", data["claims"]) if "claims" in data else ("sentences", data["answer"])
        items = [{"id": each["id"], **_said(each["text"])} for each in asked if "id" in each]
        return completion(json.dumps({name: items}), usage=(1_000, 100))

    with running_judge() as judge:
        judge.reply_with(answer)
        yield judge


def _said(text: str) -> dict[str, Any]:
    is_there = text == RED or any(text.rstrip(".") in context for context in CONTEXTS)
    verdict = "supported" if is_there else "not_mentioned"
    return {
        "quotes": ["The Marlow Bridge was opened in 1931."] if is_there else [],
        "reason": "So.",
        "verdict": verdict,
    }


async def judged(decisions: ScriptedJudge, chat: ScriptedJudge | None = None, **sample: Any) -> dict[str, Any]:
    settings: dict[str, Any] = {"llm_api": "systemone", "llm_controls": True, "cache_ttl_seconds": 0}
    settings["llm_prices"] = {"judge-1": {"input": 1, "output": 0}, "chat-1": {"input": 5, "output": 20}}
    settings |= sample.pop("settings", {})
    if chat is not None:
        entry = {"provider": "generic", "base_url": chat.base_url, "model": "chat-1", "api_key": "none"}
        settings |= {"llm_judges": {"chat": [entry]}, "llm_escalation": "chat"}
    async with running(judge_settings(decisions, **settings)) as client:
        return await evaluate(client, **{"contexts": CONTEXTS, "answer": RIGHT, "tiers": ["llm"], **sample})


def unsure_of(words: str, probability: float) -> Any:
    """An honest model that gives support this probability where a statement has these words."""

    def oracle(asked: AskedQuestion) -> Any:
        if asked.is_verdict and words in asked.statement and "not true" not in asked.statement:
            return lean(asked, "supported", probability)
        return honest()(asked)

    return oracle


async def test_what_lies_between_the_bounds_goes_to_the_chat_judge_and_the_result_says_who_decided(
    judge: ScriptedJudge, chat: ScriptedJudge
) -> None:
    judge.reply_with(decide(unsure_of("red", 0.6)))

    alone = await judged(judge, answer=f"{RIGHT} {RED}")
    result = await judged(judge, chat, answer=f"{RIGHT} {RED}")

    assert (alone["passed"], alone["decision"]["rule"]) == (None, "unsure")
    assert "undecided" in alone["claims"][2]["flags"]
    assert (result["passed"], chat.calls) == (True, 1)
    asked = shown_data_of(chat.requests[0])
    assert RED in {each["text"] for each in asked["claims"]}
    assert len(asked["claims"]) == 3, "the undecided sentence, and two controls"
    assert [each.get("judge") for each in result["claims"]] == ["judge-1", "judge-1", "chat-1"]
    assert "escalated" in result["claims"][2]["flags"]
    assert {"escalated", "uncalibrated"} <= set(result["flags"])
    # 1,000 tokens in and 100 out of the chat judge, and those of the decision model.
    decisions = len(judge.requests[-1].body) // 4
    assert result["trace"]["usage"]["cost"] == pytest.approx((decisions + 5_000 + 2_000) / 1e6)


async def test_bounds_of_the_model_replace_the_defaults_and_no_other_models(
    judge: ScriptedJudge, chat: ScriptedJudge
) -> None:
    judge.reply_with(decide(unsure_of("412", 0.6)))
    bounds = {"judge-1": {"fails": 0.1, "passes": 0.55}, "other": {"fails": 0.1, "passes": 0.99}}

    result = await judged(judge, chat, settings={"llm_bounds": bounds})

    assert (result["passed"], result["claims"][1]["support"], chat.calls) == (True, 0.6, 0)
    assert result["flags"] == []


@pytest.mark.parametrize("fault", [None, "all_refused", "server_error"])
async def test_the_chat_judge_answers_where_the_decision_model_fails(
    judge: ScriptedJudge, chat: ScriptedJudge, fault: str | None
) -> None:
    # Without a fault: it supports everything, and fails its controls.
    judge.reply_with(decide(always("supported"), fault=fault))

    alone = await judged(judge, contexts=CONTEXTS)
    result = await judged(judge, chat)

    assert alone["status"] == "not_judged"
    assert fault is not None or alone["trace"]["attempts"][0]["reason"] == "controls_failed"
    assert (result["tier"], result["passed"]) == ("llm", True)
    assert {"escalated", "incomplete"} <= set(result["flags"])


async def test_a_refused_question_alone_is_escalated(judge: ScriptedJudge, chat: ScriptedJudge) -> None:
    judge.reply_with(refusing("412", is_verdict=True))

    result = await judged(judge, chat)

    assert (result["passed"], chat.calls) == (True, 1)
    assert [each["judge"] for each in result["claims"]] == ["judge-1", "chat-1"]
    assert "question_refused" in result["claims"][1]["flags"]


async def test_metrics_and_criteria_are_questions_in_the_same_request(judge: ScriptedJudge) -> None:
    def oracle(asked: AskedQuestion) -> Any:
        for value in ("fully", "polite"):
            if value in asked.values:
                return lean(asked, value, 0.8)
        if "relevant" in asked.values:
            return lean(asked, "relevant" if asked.instructions.endswith("c1") else "irrelevant", 0.8)
        return honest()(asked)

    judge.reply_with(decide(oracle))

    result = await judged(
        judge,
        question="When was the Marlow Bridge opened?",
        reference="In 1931.",
        metrics=["answer_relevance", "context_relevance", "context_precision@2", "correctness"],
        criteria=[TONE, {**TONE, "name": "quoted", "quote_from": "answer"}],
    )

    assert judge.calls == 1
    found = {name: (each["value"], each.get("reason")) for name, each in result["metrics"].items()}
    assert found == {
        "answer_relevance": (1.0, None),
        "context_relevance": (pytest.approx(1 / 3, abs=1e-5), None),
        "context_precision@2": (1.0, None),
        "criterion_tone": (1.0, None),
        # What takes quotes or a comparison of two texts is not asked.
        "correctness": (None, "not_by_decision_model"),
        "criterion_quoted": (None, "not_by_decision_model"),
    }


async def test_metrics_without_room_beside_the_sentences_take_a_request_of_their_own(judge: ScriptedJudge) -> None:
    def oracle(asked: AskedQuestion) -> Any:
        return lean(asked, "relevant", 0.8) if "relevant" in asked.values else honest()(asked)

    judge.reply_with(decide(oracle, most_questions=16))
    facts = [f"The bridge number {number} was painted green in the year {1950 + number}." for number in range(7)]

    result = await judged(
        judge,
        question="Which bridge was painted green?",
        contexts=facts,
        answer=" ".join(facts),
        metrics=["context_relevance"],
    )

    assert [len(read_questions(each)) for each in judge.requests] == [16, 7]
    assert result["metrics"]["context_relevance"]["value"] == 1.0


@pytest.mark.parametrize("fault", FAULTS)
async def test_no_fault_makes_a_wrong_answer_pass_or_costs_a_row_behind_a_chat_judge(
    judge: ScriptedJudge, chat: ScriptedJudge, fault: str
) -> None:
    judge.reply_with(decide(honest(), fault=fault))

    right = await judged(judge, chat)
    wrong = await judged(judge, chat, answer="The Marlow Bridge was opened in 1931. It is 500 metres long.")

    assert (right["status"], right["passed"]) == ("judged", True)
    assert (wrong["status"], wrong["passed"]) == ("judged", False)
