"""Calls to decision models over real HTTP: both shapes as the SDK publishes them, and every fault of an answer."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from pydantic import TypeAdapter

from plumbline.ground.errors import FailureReason, TierFailure
from plumbline.ground.judge_settings import ModelPrice
from plumbline.judging.ports.decisions import DecisionQuestion, DecisionReply, DecisionRequest
from plumbline.judging.ports.exchange import Ledger
from plumbline.models.chat.chat_models import FailoverChatModel
from plumbline.models.chat.endpoints import PROVIDERS
from tests.doubles.scripted_decisions import AskedQuestion, answer, decide, lean, read_questions
from tests.doubles.scripted_judge import ScriptedJudge
from tests.doubles.scripted_replies import RecordedRequest, Reply, status
from tests.doubles.scripted_transport import entry, failure_of, transport
from tests.making.cases import load_cases

VERDICTS = ("supported", "contradicted", "not_mentioned")
QUESTIONS = (
    DecisionQuestion("ab-1", "Is it so?", dict.fromkeys(VERDICTS, "says so")),
    DecisionQuestion("ab-2", "Where?", {"c1": "", "c2": "", "none": "nowhere"}),
    DecisionQuestion("ab-3", "Is it true?", {"yes": "", "no": ""}),
)
REQUEST = DecisionRequest("Judge.", [{"id": "c1", "text": "A."}], {"question": "Q?", "answer": []}, QUESTIONS)
SHAPES = ("decisions", "systemone")
NO_CHAT = status(400, {"error": {"message": "Model is no language model. Use POST /v1/systemone or /v1/decisions."}})


def fair(asked: AskedQuestion) -> Mapping[str, float]:
    return lean(asked, asked.values[0], 0.9)


def edited(edit: Callable[[Any], Any], *, shape: str = "") -> Callable[[RecordedRequest], Reply]:
    """A fair model whose answers are changed, in the shape of the operation or in the one that is named."""

    def step(request: RecordedRequest) -> Reply:
        asked = replace(request, path=f"/v1/{shape}") if shape else request
        body = json.loads(answer(asked, [(each, fair(each)) for each in read_questions(request)]).body)
        if details := body["usage"].get("input_tokens_details"):
            details["cached_tokens"] = 8
        return status(200, {**body, "answers": edit(body["answers"])})

    return step


def in_place_of(name: str, other: dict[str, Any]) -> Callable[[Any], Any]:
    """The change of one answer, in either shape."""

    def edit(answers: Any) -> Any:
        if isinstance(answers, dict):
            return {**answers, name: other}
        return [{"name": name, **other} if each["name"] == name else each for each in answers]

    return edit


async def failure(chat: FailoverChatModel, request: DecisionRequest = REQUEST) -> TierFailure:
    with pytest.raises(TierFailure) as failed:
        await decided(chat, request=request)
    return failed.value


async def decided(
    chat: FailoverChatModel, *, ledger: Ledger | None = None, request: DecisionRequest = REQUEST
) -> DecisionReply:
    return await chat.decide(request, seconds=3.0, ledger=ledger or Ledger())


@cache
def published_form() -> TypeAdapter[Any]:
    # A second of import
    from openai.types.decision_create_params import DecisionCreateParams

    return TypeAdapter(DecisionCreateParams)


def consume(value: Any) -> Any:
    """Iterables of the SDK's types are checked as they are read."""
    if isinstance(value, dict):
        return {name: consume(each) for name, each in value.items()}
    return value if isinstance(value, str) or not hasattr(value, "__iter__") else [consume(each) for each in value]


def check_published(request: RecordedRequest) -> None:
    checked = consume(published_form().validate_python(request.json, extra="forbid"))
    assert checked == request.json


@pytest.mark.parametrize("api", SHAPES)
async def test_each_operation_is_asked_in_its_shape_and_both_give_the_same_answers(
    judge: ScriptedJudge, api: str
) -> None:
    judge.reply_with(edited(lambda answers: answers))
    ledger = Ledger()
    price = {"judge-1": ModelPrice(input=1.0, output=0.0, cached=0.5)}

    async with transport(judge, llm_api=api, llm_prices=price) as chat:
        reply = await decided(chat, ledger=ledger)

    (request,) = judge.requests
    assert request.path == f"/v1/{api}"
    assert reply.model == "judge-1"
    assert reply.answers["ab-1"] == pytest.approx({"supported": 0.9, "contradicted": 0.05, "not_mentioned": 0.05})
    assert reply.answers["ab-3"] == {"yes": 0.9, "no": pytest.approx(0.1)}
    if api == "decisions":
        check_published(request)
    else:
        assert list(request.json["state"]) == ["guidance", "contexts", "question", "answer"]
        assert request.json["questions"]["ab-3"]["criteria"] == {"yes": None, "no": None}
    used = len(request.body) // 4
    cached = 8 if api == "decisions" else 0
    assert (ledger.usage.calls, ledger.usage.prompt_tokens, ledger.usage.cached_tokens) == (1, used, cached)
    assert ledger.usage.cost == pytest.approx((used - cached / 2) / 1_000_000)


async def test_openai_is_asked_with_a_cache_breakpoint_behind_the_contexts(judge: ScriptedJudge) -> None:
    judge.reply_with(decide(fair))

    async with transport(judge, llm_provider="openai", llm_api="decisions") as chat:
        await decided(chat)

    (request,) = judge.requests
    check_published(request)
    contexts, rest = request.json["input"][1]["content"]
    assert contexts["prompt_cache_breakpoint"] == {"mode": "explicit"}
    assert "prompt_cache_breakpoint" not in rest
    assert '"contexts"' in contexts["text"]
    assert '"answer"' in rest["text"]


async def test_a_server_that_knows_no_breakpoint_is_asked_without_it(judge: ScriptedJudge) -> None:
    refusal = status(400, {"error": {"message": "Unknown parameter: 'prompt_cache_breakpoint'."}})
    judge.reply_with(refusal, decide(fair))

    async with transport(judge, llm_provider="openai", llm_api="decisions") as chat:
        await decided(chat)
        await decided(chat)

    marked = ["breakpoint" in request.body.decode() for request in judge.requests]
    assert marked == [True, False, False]


@pytest.mark.parametrize("provider", ["openai", "dashscope", "vllm", "llamacpp", "sglang", "litellm", "generic"])
async def test_a_chat_that_is_refused_says_what_the_address_serves(judge: ScriptedJudge, provider: str) -> None:
    judge.reply_when(lambda request: request.path.endswith("/completions"), NO_CHAT)
    judge.reply_with(decide(fair))

    async with transport(judge, llm_provider=provider) as chat:
        before = chat.kind
        await failure_of(chat)
        reply = await decided(chat)

    expected = PROVIDERS[provider].decisions.kind
    assert (before, chat.kind) == ("chat", expected)
    assert [request.path for request in judge.requests] == ["/v1/chat/completions", f"/v1/{expected}"]
    assert len(reply.answers) == len(QUESTIONS)
    assert f"({expected})" in chat.readiness().detail


@pytest.mark.parametrize("code", [400, 404, 405, 422])
async def test_the_refusal_may_have_any_status_of_a_wrong_operation(judge: ScriptedJudge, code: int) -> None:
    judge.reply_with(status(code, {"error": {"message": "This model only serves POST /v1/systemone"}}))

    async with transport(judge) as chat:
        await failure_of(chat)

    assert chat.kind == "systemone"
    assert judge.calls == 1


async def test_a_kind_that_the_settings_name_stays(judge: ScriptedJudge) -> None:
    judge.reply_with(NO_CHAT)

    async with transport(judge, llm_api="chat") as chat:
        failure = await failure_of(chat)

    assert chat.kind == "chat"
    assert failure.reason is FailureReason.REJECTED


async def test_judges_have_kinds_of_their_own_and_fallbacks_answer_for_their_kind_alone(judge: ScriptedJudge) -> None:
    judge.reply_when(lambda request: request.path.endswith("/decisions"), status(503))
    judge.reply_with(decide(fair))
    fallbacks = (entry(judge, api="chat"), entry(judge, api="systemone"))

    async with transport(judge, llm_api="decisions", llm_fallbacks=fallbacks) as chat:
        reply = await decided(chat)

    assert len(reply.answers) == len(QUESTIONS)
    assert {request.path for request in judge.requests} == {"/v1/decisions", "/v1/systemone"}


@pytest.mark.parametrize(("path", "shape"), [("decisions", "systemone"), ("systemone", "decisions")])
async def test_an_answer_is_read_by_its_shape_and_not_by_the_path(judge: ScriptedJudge, path: str, shape: str) -> None:
    judge.reply_with(edited(lambda answers: answers, shape=shape))

    async with transport(judge, llm_api=path) as chat:
        reply = await decided(chat)

    assert len(reply.answers) == len(QUESTIONS)


@pytest.mark.parametrize(("shape", "said", "is_read"), load_cases("decisions", "answers", inner=list))
async def test_a_broken_answer_costs_its_question_alone(
    judge: ScriptedJudge, shape: str, said: dict[str, Any], is_read: bool
) -> None:
    judge.reply_with(edited(in_place_of("ab-1", said)))

    async with transport(judge, llm_api=shape) as chat:
        reply = await decided(chat)

    assert ("ab-1" in reply.answers) == is_read
    assert {"ab-2", "ab-3"} <= reply.answers.keys()
    assert not reply.refused


@pytest.mark.parametrize("api", SHAPES)
async def test_a_refused_question_is_told_apart(judge: ScriptedJudge, api: str) -> None:
    judge.reply_with(edited(in_place_of("ab-2", {"type": "refusal"})))

    async with transport(judge, llm_api=api) as chat:
        reply = await decided(chat)

    assert reply.refused == {"ab-2"}
    assert reply.answers.keys() == {"ab-1", "ab-3"}


async def test_answers_without_names_are_read_in_the_order_of_the_questions_if_none_is_missing(
    judge: ScriptedJudge,
) -> None:
    judge.reply_with(
        edited(lambda answers: [{**each, "name": None} for each in answers]),
        edited(lambda answers: [{**each, "name": None} for each in answers[1:]]),
    )

    async with transport(judge, llm_api="decisions") as chat:
        whole, cut = await decided(chat), await failure(chat)

    assert len(whole.answers) == len(QUESTIONS)
    assert cut.reason is FailureReason.FOREIGN_REPLY


async def test_answers_to_other_questions_are_dropped(judge: ScriptedJudge) -> None:
    judge.reply_with(edited(lambda answers: [{**answers[0], "name": "other"}, *answers[1:], answers[2]]))

    async with transport(judge, llm_api="decisions") as chat:
        reply = await decided(chat)

    # The third is answered twice.
    assert reply.answers.keys() == {"ab-2"}


async def test_a_reply_to_another_request_is_asked_for_on_a_new_connection(judge: ScriptedJudge) -> None:
    judge.reply_with(edited(lambda answers: [{**each, "name": "xx-1"} for each in answers]), decide(fair))

    async with transport(judge, llm_api="decisions") as chat:
        reply = await decided(chat)

    assert len(reply.answers) == len(QUESTIONS)
    assert (judge.calls, judge.connections) == (2, 2)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"answers": "none"}, FailureReason.INVALID_REPLY),
        ({"choices": [{"message": {"content": "{}"}}]}, FailureReason.INVALID_REPLY),
        (b"<html>", FailureReason.INVALID_REPLY),
        ({"error": {"code": "model_not_found"}}, FailureReason.REJECTED),
    ],
)
async def test_what_has_no_answers_is_a_failure(judge: ScriptedJudge, body: Any, reason: FailureReason) -> None:
    judge.reply_with(status(200, body))

    async with transport(judge, llm_api="systemone") as chat:
        failed = await failure(chat)

    assert failed.reason is reason


@pytest.mark.parametrize(
    ("said", "most"),
    [("questions: at most 16", 16), ("at most 8 questions", 8), ("questions[7]: no instructions", 400)],
)
async def test_a_bound_on_questions_is_learnt_from_its_refusal(judge: ScriptedJudge, said: str, most: int) -> None:
    judge.reply_with(status(400, {"error": {"message": said}}))
    many = replace(REQUEST, questions=tuple(replace(QUESTIONS[0], name=f"ab-{number}") for number in range(40)))

    async with transport(judge, llm_provider="openai", llm_api="decisions") as chat:
        before = chat.questions
        await failure(chat, many)

    assert (before, chat.questions) == (400, most)


async def test_a_state_beyond_the_window_is_not_sent(judge: ScriptedJudge) -> None:
    long = replace(REQUEST, contexts=[{"id": "c1", "text": "word " * 5_000}])

    async with transport(judge, llm_api="systemone", llm_context_tokens=4_096) as chat:
        failed = await failure(chat, long)

    assert failed.reason is FailureReason.TOO_LONG
    assert judge.calls == 0


async def test_the_budget_of_a_sample_bounds_decisions_too(judge: ScriptedJudge) -> None:
    judge.reply_with(decide(fair))
    price = {"judge-1": ModelPrice(input=1_000.0, output=0.0)}

    async with transport(judge, llm_api="systemone", llm_prices=price) as chat:
        with pytest.raises(TierFailure) as failed:
            await decided(chat, ledger=Ledger(max_cost=0.001))

    assert failed.value.reason is FailureReason.OVER_BUDGET
    assert judge.calls == 0
