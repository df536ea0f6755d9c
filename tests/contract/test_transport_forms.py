"""What is sent to each kind of provider, proven against the published schema, and what a refusal of a field teaches."""

import json
from dataclasses import replace
from functools import cache
from typing import Any, get_args

import pytest
from pydantic import TypeAdapter

from plumbline.ground.judge_settings import ProviderName
from plumbline.models.chat.endpoints import PROVIDERS
from tests.doubles.scripted_judge import ScriptedJudge
from tests.doubles.scripted_replies import RecordedRequest, Step, completion, openai_error, status
from tests.doubles.scripted_transport import REQUEST, SCHEMA, ask, entry, failure_of, transport
from tests.making.cases import load_cases

GOOD = completion('{"ok": true}')
OLDEST_FIELDS = {"model", "messages", "max_tokens", "temperature"}
SCHEMA_FORMAT = {"type": "json_schema", "json_schema": {"name": "verdict", "strict": True, "schema": SCHEMA}}
OBJECT_FORMAT = {"type": "json_object"}
# Fields that one provider takes and OpenAI does not publish.
OWN_FIELDS: dict[str, dict[str, object]] = {
    "dashscope": {"enable_thinking": False},
    "dashscope-intl": {"enable_thinking": False},
    "vllm": {"chat_template_kwargs": {"enable_thinking": False}},
    "llamacpp": {"chat_template_kwargs": {"enable_thinking": False}},
    "sglang": {"chat_template_kwargs": {"enable_thinking": False}},
    "zhipu": {"thinking": {"type": "disabled"}},
}


@cache
def published_form() -> TypeAdapter[Any]:
    # A second of import
    from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming

    return TypeAdapter(CompletionCreateParamsNonStreaming)


def published_part(request: RecordedRequest, provider: str) -> dict[str, Any]:
    """The fields of the request that OpenAI publishes, once they are proven to be as published, and no other."""
    own = OWN_FIELDS.get(provider, {})
    assert {name: request.json[name] for name in own} == own
    fields = {name: value for name, value in request.json.items() if name not in own}
    published_form().validate_json(json.dumps(fields), extra="forbid")
    return fields


def formats(judge: ScriptedJudge) -> list[str]:
    return [request.json.get("response_format", {}).get("type", "plain") for request in judge.requests]


FORMS = {
    **dict.fromkeys(("dashscope", "dashscope-intl", "ollama"), OBJECT_FORMAT),
    **dict.fromkeys(("openai", "azure", "vllm", "llamacpp"), SCHEMA_FORMAT),
    "generic": None,
}


@pytest.mark.parametrize("provider", get_args(ProviderName))
async def test_every_request_is_as_published_in_the_strictest_form_that_is_known(
    judge: ScriptedJudge, provider: str
) -> None:
    judge.reply_with(GOOD)

    async with transport(judge, llm_provider=provider) as chat:
        await ask(chat)

    (request,) = judge.requests
    fields = published_part(request, provider)
    assert (fields["model"], request.path) == ("judge-1", "/v1/chat/completions")
    assert [message["role"] for message in fields["messages"]] == ["system", "user"]
    assert provider not in FORMS or fields.get("response_format") == FORMS[provider]
    assert "stream" not in fields


async def test_a_generic_provider_is_sent_the_oldest_fields_alone(judge: ScriptedJudge) -> None:
    judge.reply_with(GOOD)

    async with transport(judge) as chat:
        await ask(chat)
        await ask(chat, request=replace(REQUEST, temperature=0.7))

    assert [set(request.json) for request in judge.requests] == [OLDEST_FIELDS] * 2
    assert [request.json["temperature"] for request in judge.requests] == [0.0, 0.7]


@pytest.mark.parametrize("provider", ["openai", "azure"])
async def test_openais_models_get_the_newer_limit_and_a_temperature_only_when_asked(
    judge: ScriptedJudge, provider: str
) -> None:
    judge.reply_with(GOOD)

    async with transport(judge, llm_provider=provider) as chat:
        await ask(chat)
        await ask(chat, request=replace(REQUEST, temperature=0.7))

    first, second = (request.json for request in judge.requests)
    assert set(first) == {"model", "messages", "max_completion_tokens", "response_format"}
    assert second["temperature"] == 0.7


# --- what refusals teach


def refusing(*fields: str, message: str = "Unsupported parameter: '{}'", code: int = 400) -> Any:
    """A step that refuses requests with one of these fields, and names it; `response_format.type` for a kind of it."""

    def step(request: RecordedRequest) -> Step:
        kind = request.json.get("response_format", {}).get("type")
        for field in fields:
            if field in request.json or field == kind:
                return openai_error(code, None, message.format(field))
        return GOOD

    return step


@pytest.mark.parametrize("code", [400, 422])
async def test_the_form_of_a_reply_is_stepped_down_and_remembered(judge: ScriptedJudge, code: int) -> None:
    judge.reply_with(refusing("json_schema", "json_object", message="{} is not supported", code=code))

    async with transport(judge, llm_provider="openai") as chat:
        before = chat.readiness().detail
        for _ in range(3):
            await ask(chat)
        after = chat.readiness().detail

    assert formats(judge) == ["json_schema", "json_object", "plain", "plain", "plain"]
    assert before.endswith("(json_schema)")
    assert after.endswith("(plain)")


@pytest.mark.parametrize(
    "fault",
    [
        openai_error(400, None, "temperature and response_format and max_tokens are unsupported, use instead"),
        status(422, {"detail": [{"loc": ["body", "enable_thinking"], "msg": "Extra inputs are not permitted"}]}),
    ],
)
async def test_a_provider_that_refuses_whatever_is_left_out_is_not_asked_for_ever(
    judge: ScriptedJudge, fault: Step
) -> None:
    judge.reply_with(fault)

    async with transport(judge, llm_provider="dashscope") as chat:
        for _ in range(3):
            assert (await failure_of(chat)).reason == "rejected"
        before = judge.calls
        assert (await failure_of(chat)).reason == "rejected"
        assert chat.readiness().detail.endswith("(json_object)")

    assert before <= 3 * 6
    assert judge.calls == before + 1


WITH_IDS = replace(
    REQUEST,
    ids={"id": [1, 2], "mark": ["0f3a9c1e"]},
    schema={
        "type": "object",
        "properties": {
            "mark": {"type": "string"},
            "claims": {"items": {"anyOf": [{"properties": {"id": {"type": "integer"}}}]}},
        },
    },
)


@pytest.mark.parametrize(("provider", "has_ids"), [("vllm", True), ("llamacpp", True), ("openai", False)])
async def test_servers_that_compile_each_schema_are_told_the_ids(
    judge: ScriptedJudge, provider: str, has_ids: bool
) -> None:
    judge.reply_with(GOOD)

    async with transport(judge, llm_provider=provider) as chat:
        await ask(chat, request=WITH_IDS)

    members = judge.requests[0].json["response_format"]["json_schema"]["schema"]["properties"]
    item = members["claims"]["items"]["anyOf"][0]["properties"]
    assert (members["mark"].get("enum"), item["id"].get("enum")) == (
        (["0f3a9c1e"], [1, 2]) if has_ids else (None, None)
    )
    assert "enum" not in str(WITH_IDS.schema)


async def test_a_server_that_takes_schemas_and_no_ids_in_them_keeps_its_schema(judge: ScriptedJudge) -> None:
    judge.reply_with(GOOD)
    judge.reply_when(
        lambda request: "enum" in str(request.json.get("response_format")),
        openai_error(400, None, "json_schema: enum is not supported"),
    )

    async with transport(judge, llm_provider="vllm") as chat:
        for _ in range(3):
            await ask(chat, request=WITH_IDS)
        assert chat.readiness().detail.endswith("(json_schema)")

    assert formats(judge) == ["json_schema"] * 4


TOO_LONG = load_cases("transport_forms", "too_long")


@pytest.mark.parametrize("message", TOO_LONG.values(), ids=TOO_LONG)
async def test_a_window_that_the_provider_tells_holds_for_the_next_call(judge: ScriptedJudge, message: str) -> None:
    judge.reply_with(openai_error(400, "context_length_exceeded", message))

    async with transport(judge, llm_provider="openai") as chat:
        assert (await failure_of(chat)).reason == "too_long"
        assert chat.context_tokens == 8_192
        failure = await failure_of(chat, request=replace(REQUEST, user="word " * 7_000))

    assert "reads 8192" in str(failure)
    assert judge.calls == 1


async def test_a_window_in_a_field_of_the_error_is_learnt(judge: ScriptedJudge) -> None:
    error = {"code": 400, "type": "exceed_context_size_error", "message": "too long", "n_prompt_tokens": 9_411}
    judge.reply_with(status(400, {"error": {**error, "n_ctx": 4_096}}))

    async with transport(judge, llm_provider="llamacpp") as chat:
        await failure_of(chat)
        assert chat.context_tokens == 4_096


@pytest.mark.parametrize(("said", "asked"), load_cases("transport_forms", "sample_words"))
async def test_the_words_of_a_sample_and_a_few_tokens_make_no_window_smaller(
    judge: ScriptedJudge, said: str, asked: str
) -> None:
    judge.reply_with(openai_error(400, "context_length_exceeded", said.format(asked)))

    async with transport(judge, llm_provider="openai") as chat:
        await failure_of(chat, request=replace(REQUEST, user=f"It says: {asked}"))
        assert chat.context_tokens == 128_000


async def test_a_form_that_was_answered_once_is_kept(judge: ScriptedJudge) -> None:
    judge.reply_with(GOOD)
    judge.reply_when(
        lambda request: "hostile" in request.prompt, refusing("json_schema", message="{} is not supported")
    )

    async with transport(judge, llm_provider="vllm") as chat:
        await ask(chat)
        for _ in range(5):
            await ask(chat, request=replace(REQUEST, user="hostile"))
        assert chat.readiness().detail.endswith("(json_schema)")


@pytest.mark.parametrize("error", load_cases("transport_forms", "no_lessons"))
async def test_the_words_of_a_sample_teach_nothing(judge: ScriptedJudge, error: dict[str, str]) -> None:
    judge.reply_with(status(400, {"error": error}))
    request = replace(REQUEST, user="The temperature in the response_format is 3.", temperature=0.7)

    async with transport(judge, llm_provider="openai") as chat:
        assert (await failure_of(chat, request=request)).reason == "rejected"
        assert chat.readiness().detail.endswith("(json_schema)")


async def test_what_one_model_refuses_says_nothing_of_another(judge: ScriptedJudge) -> None:
    judge.reply_with(refusing("json_schema", message="{} is not supported"))
    judge.reply_when(lambda request: request.json["model"] == "judge-2", GOOD)
    judge.reply_when(lambda request: request.json["model"] == "judge-3", status(500))

    async with transport(
        judge,
        llm_provider="openai",
        llm_model="judge-3",
        llm_fallbacks=(entry(judge, provider="openai"), entry(judge, provider="openai", model="judge-2")),
    ) as chat:
        await ask(chat)
        await ask(chat)
        detail = chat.readiness().detail

    assert "judge-1" in detail
    assert [part.rpartition("(")[2].partition(")")[0] for part in detail.split("; then ")] == [
        "json_schema",
        "json_object",
        "json_schema",
    ]


# --- DashScope


async def test_dashscopes_quota_passes(judge: ScriptedJudge) -> None:
    judge.reply_with(openai_error(429, "insufficient_quota", "You exceeded your current quota"), GOOD)

    async with transport(judge, llm_provider="dashscope") as chat:
        await ask(chat)

    assert judge.calls == 2


async def test_openais_quota_does_not(judge: ScriptedJudge) -> None:
    judge.reply_with(openai_error(429, "insufficient_quota", "You exceeded your current quota"), GOOD)

    async with transport(judge, llm_provider="openai") as chat:
        assert (await failure_of(chat)).reason == "rate_limited"
        assert (await failure_of(chat)).reason == "circuit_open"

    assert judge.calls == 1


async def test_dashscopes_unpaid_account_is_not_asked_again(judge: ScriptedJudge) -> None:
    judge.reply_with(status(400, {"code": "Arrearage", "message": "Access denied, please make sure your account"}))

    async with transport(judge, llm_provider="dashscope") as chat:
        assert (await failure_of(chat)).detail.endswith(": HTTP 400 (Arrearage)")
        assert (await failure_of(chat)).reason == "circuit_open"


def test_every_provider_of_the_settings_has_its_manners() -> None:
    assert set(PROVIDERS) == set(get_args(ProviderName))
