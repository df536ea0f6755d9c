"""Clients of other services, unmodified and from their registries, with nothing changed but the address and the key."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.running.peers import CONTEXT, KEY, RIGHT, WRONG, live_service, pinned
from tests.running.real_servers import free_port, npm_program, python_of, server, servers_folder

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return servers_folder(tmp_path_factory.mktemp("peers"))


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with live_service(tmp_path_factory.mktemp("service")) as url:
        yield url


def test_promptfoos_webhook_works_with_only_its_address_changed(service: str, folder: Path, tmp_path: Path) -> None:
    package = pinned("promptfoo").replace("==", "@")
    # Its optional packages are a gigabyte; it starts with this one.
    program = npm_program(folder, package, "promptfoo", "@libsql/linux-x64-gnu@0.5.29", "--omit=optional")
    url = service.replace("://", f"://:{KEY}@") + "/v1/compat/promptfoo?contexts=docs&question=q"
    variables = [{"docs": [CONTEXT], "q": "How old is it?", "answer": each} for each in (RIGHT, WRONG)]
    tests = [{"vars": each, "assert": [{"type": "webhook", "value": url}]} for each in variables]
    config = {"prompts": ["{{answer}}"], "providers": ["echo"], "tests": tests}
    (tmp_path / "promptfooconfig.json").write_text(json.dumps(config))
    quiet = {"PROMPTFOO_DISABLE_TELEMETRY": "1", "PROMPTFOO_DISABLE_UPDATE": "1"}
    environment = {**os.environ, **quiet, "PROMPTFOO_CONFIG_DIR": str(tmp_path / "promptfoo"), "HOME": str(tmp_path)}
    options = ["--config", "promptfooconfig.json", "--no-cache", "--no-table", "--output", "out.json"]

    done = subprocess.run(
        [program, "eval", *options], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )

    assert (tmp_path / "out.json").exists(), done.stderr[-4_000:]
    results = json.loads((tmp_path / "out.json").read_text())["results"]["results"]
    assert {each["vars"]["answer"]: each["success"] for each in results} == {RIGHT: True, WRONG: False}
    assert any("1932" in each["gradingResult"]["reason"] for each in results)


@pytest.fixture(scope="module")
def litellm(service: str, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    """A client of LiteLLM's proxy with the guardrail, in front of two models that answer always the same."""
    place, port = tmp_path_factory.mktemp("litellm"), free_port()
    python = python_of(folder, "litellm-proxy", pinned("litellm", "[proxy]"))
    models = {"right": RIGHT, "wrong": WRONG}
    guardrail = {
        "guardrail": "generic_guardrail_api",
        "mode": ["pre_call", "post_call"],
        "default_on": True,
        "api_base": f"{service}/v1/compat/litellm",
        "api_key": KEY,
        "streaming_end_of_stream_only": True,
    }
    config = {
        "model_list": [
            {"model_name": name, "litellm_params": {"model": "openai/x", "api_key": "x", "mock_response": answer}}
            for name, answer in models.items()
        ],
        "guardrails": [{"guardrail_name": "faithfulness", "litellm_params": guardrail}],
    }
    (place / "config.yaml").write_text(json.dumps(config))
    command = [python.with_name("litellm"), "--config", place / "config.yaml", "--host", "127.0.0.1", "--port", port]
    master = "sk-0123456789abcdef0123456789abcdef"
    environment = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MASTER_KEY": master, "HOME": str(place)}
    with (
        server([str(each) for each in command], port=port, log=place / "log", env=environment),
        httpx2.Client(base_url=f"http://127.0.0.1:{port}", headers={"Authorization": f"Bearer {master}"}) as client,
    ):
        yield client


TOOL = [
    {"role": "user", "content": "How old is it?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "1", "type": "function", "function": {"name": "lookup", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "1", "content": CONTEXT},
]
PROMPT = [{"role": "user", "content": f"Rely on this: <context>{CONTEXT}</context> How old is it?"}]


@pytest.mark.parametrize("messages", [TOOL, PROMPT], ids=["tool", "prompt"])
@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "stream"])
def test_litellms_guardrail_works_with_only_its_address_changed(
    litellm: httpx2.Client, messages: list[object], is_stream: bool
) -> None:
    body = {"messages": messages, "stream": is_stream}

    right, wrong = (
        litellm.post("/v1/chat/completions", json={**body, "model": name}, timeout=60) for name in ("right", "wrong")
    )

    assert right.status_code == 200
    assert "error" not in right.text
    assert wrong.status_code == (200 if is_stream else 400)
    assert "in no context: 1932" in wrong.text
