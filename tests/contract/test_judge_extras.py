"""Extra headers and fields of a judge's requests: sent as the settings say, secret where they are secrets."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from plumbline.ground.concurrency import InlineExecutor
from plumbline.ground.errors import ConfigurationError
from plumbline.ground.judge_settings import LlmEndpoint
from plumbline.ground.settings import load_settings
from plumbline.ground.version import USER_AGENT
from plumbline.judging.judge.questions import load_prompts
from plumbline.judging.tiers.llm import LlmTier
from plumbline.judging.tiers.tier import JudgeOptions
from plumbline.models.chat.chat_models import build_chat_models
from tests.doubles.scripted_judge import ScriptedJudge
from tests.doubles.scripted_replies import completion, openai_error
from tests.doubles.scripted_transport import KEY, ask, entry, failure_of, transport, transport_settings
from tests.making.cases import load_cases
from tests.running.batch_file_runs import ROWS, a_run
from tests.unit.test_llm_tier import CASE

GOOD = completion('{"ok": true}')
SECRET = "gateway-secret-0001"
PROMPTS = load_prompts()


async def test_extra_headers_go_out_beside_ours_or_in_their_place(judge: ScriptedJudge) -> None:
    judge.reply_with(GOOD)
    extra = {"X-DashScope-DataInspection": SecretStr('{"input": "cip"}'), "authorization": SecretStr(SECRET)}

    async with transport(judge, llm_extra_headers=extra) as chat:
        await ask(chat)

    headers = judge.requests[0].headers
    assert headers["x-dashscope-datainspection"] == '{"input": "cip"}'
    assert headers["authorization"] == SECRET
    assert headers["content-type"] == "application/json"


async def test_no_variable_of_the_sdk_has_an_effect_and_it_says_nothing_of_this_machine(
    judge: ScriptedJudge, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge.reply_with(GOOD)
    variables = {
        **dict.fromkeys(("API_KEY", "ADMIN_KEY", "ORG_ID", "PROJECT_ID", "WEBHOOK_SECRET", "API_TYPE"), SECRET),
        "BASE_URL": "http://127.0.0.1:9/v1",
        "CUSTOM_HEADERS": f"X-Custom: {SECRET}\nAuthorization: Bearer {SECRET}",
        "API_VERSION": "2020-01-01",
    }
    for name, value in variables.items():
        monkeypatch.setenv(f"OPENAI_{name}", value)

    async with transport(judge) as chat:
        await ask(chat)

    (request,) = judge.requests
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["user-agent"] == USER_AGENT
    assert set(request.headers) == {
        *("host", "accept", "accept-encoding", "authorization", "connection"),
        *("content-length", "content-type", "user-agent"),
    }
    assert SECRET not in f"{request.headers} {request.path}"


def test_the_sdk_s_own_log_stays_off_whatever_the_variable_says() -> None:
    code = """
import logging
from plumbline.models.chat.api_client import ApiClient
from plumbline.models.chat.endpoints import PROVIDERS, Endpoint
ApiClient(Endpoint(PROVIDERS["generic"], "http://judge.example/v1", "judge-1", "key"))
print(logging.getLogger().handlers, logging.getLogger("openai").isEnabledFor(logging.INFO))
"""
    environment = {**os.environ, "OPENAI_LOG": "debug"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)

    assert (done.stdout.strip(), done.stderr) == ("[] False", "")


async def test_extra_fields_go_out_beside_ours_or_in_their_place_and_null_takes_one_out(judge: ScriptedJudge) -> None:
    judge.reply_with(GOOD)
    extra = {"seed": 7, "reasoning_effort": "low", "max_tokens": 99, "temperature": None}

    async with transport(judge, llm_extra_body=extra) as chat:
        await ask(chat)

    body = judge.requests[0].json
    assert (body["seed"], body["reasoning_effort"], body["max_tokens"]) == (7, "low", 99)
    assert "temperature" not in body


async def test_each_address_has_extras_of_its_own(judge: ScriptedJudge) -> None:
    judge.reply_with(openai_error(401, "invalid_api_key"), GOOD)
    second = entry(judge, model="judge-2", extra_headers={"X-Route": "b"}, extra_body={"seed": 2})

    async with transport(judge, llm_extra_body={"seed": 1}, llm_fallbacks=(second,)) as chat:
        await ask(chat)

    assert [request.json["seed"] for request in judge.requests] == [1, 2]
    assert [request.headers.get("x-route") for request in judge.requests] == [None, "b"]


async def test_the_value_of_an_extra_header_is_never_shown(judge: ScriptedJudge) -> None:
    judge.reply_with(openai_error(400, SECRET))
    settings = transport_settings(judge, llm_extra_headers={"X-Gateway": SecretStr(SECRET)})

    async with transport(judge, llm_extra_headers={"X-Gateway": SecretStr(SECRET)}) as chat:
        failure = await failure_of(chat)
        shown = f"{failure!r} {chat.readiness()}"

    assert judge.requests[0].headers["x-gateway"] == SECRET
    assert SECRET not in f"{shown} {settings!r} {settings.model_dump_json()}"


@pytest.mark.parametrize(("variable", "value", "said"), load_cases("judge_extras", "refused"))
def test_what_is_ours_or_cannot_be_sent_is_refused_at_the_start(
    variable: str, value: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"PLUMBLINE_LLM_EXTRA_{variable}", value)

    with pytest.raises(ConfigurationError, match=said) as refused:
        load_settings()

    assert "secret" not in str(refused.value)


def identity(**knobs: Any) -> str:
    chats = build_chat_models(transport_settings(llm_base_url="http://judge.example/v1", **knobs))
    return LlmTier(chats, PROMPTS, InlineExecutor()).identity(CASE, JudgeOptions())


def test_verdicts_are_kept_apart_by_extra_fields_and_not_by_headers() -> None:
    plain = identity()

    assert identity(llm_extra_headers={"X-Gateway": SecretStr(SECRET)}) == plain
    assert identity(llm_extra_body={"seed": 1}) != plain
    assert identity(llm_extra_body={"seed": 1}) != identity(llm_extra_body={"seed": 2})
    assert identity(llm_fallbacks=(LlmEndpoint(provider="generic", base_url="http://b/v1", model="m"),)) == plain


def test_batch_files_hold_the_extra_fields_and_are_sent_with_the_headers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with a_run(tmp_path, monkeypatch) as run:
        monkeypatch.setenv("PLUMBLINE_LLM_EXTRA_BODY", '{"seed": 3}')
        monkeypatch.setenv("PLUMBLINE_LLM_EXTRA_HEADERS", json.dumps({"X-Gateway": SECRET}))
        run.prepare(*ROWS)
        run.submit()
        run.collect()

        assert {line["body"]["seed"] for line in run.requests()} == {3}
        assert {request.headers["x-gateway"] for request in run.judge.requests} == {SECRET}
        assert [row["result"]["tier"] for row in run.results()[:2]] == ["llm", "llm"]
        assert SECRET not in run.manifest.read_text()
        assert KEY not in run.manifest.read_text()
