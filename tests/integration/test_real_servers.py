"""Judges behind real servers: each is usable, or the result says in one line why not; never a 500 of ours."""

import json
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from plumbline.cli.main import main
from plumbline.ground.settings import Settings
from tests import making
from tests.doubles.scripted_judge import ScriptedJudge, running_judge
from tests.doubles.scripted_replies import openai_error
from tests.making.cases import load_cases
from tests.running.batch_file_runs import DAM, judged
from tests.running.real_servers import free_port, python_of, server, servers_folder
from tests.running.service import evaluate, plain_settings, running

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(3_000)]
KEY = f"sk-{secrets.token_hex(32)}"
SAMPLE = {"question": "How high?", "contexts": [DAM], "answer": "It is 120 metres high."}


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return servers_folder(tmp_path_factory.mktemp("servers"))


def settings_of(port: int, provider: str, *, path: str = "/v1", **knobs: Any) -> Settings:
    address = {"llm_base_url": f"http://127.0.0.1:{port}{path}", "llm_model": "judge", "llm_api_key": KEY}
    return plain_settings(
        llm_provider=provider, **{**address, "deadline_seconds": 120.0, "cache_ttl_seconds": 0, **knobs}
    )


def outcome_of(result: dict[str, Any]) -> str:
    """`llm`, or the reason of the tier's failure, once its detail is proven to be one line that names the host."""
    if result["tier"] == "llm":
        return "llm"
    (attempt,) = (each for each in result["trace"]["attempts"] if each["tier"] == "llm")
    assert attempt["detail"].count("\n") == 0
    assert 0 < len(attempt["detail"]) < 300
    return str(attempt["reason"])


# --- llama-cpp-python: it answers a schema with 500


@contextmanager
def llama_server(servers: Path, folder: Path, *, tokens: int) -> Iterator[int]:
    python = python_of(servers, "llama-cpp-python", "llama-cpp-python[server]", "gguf")
    model, port = folder / "tiny.gguf", free_port()
    subprocess.run([python, Path(making.__path__[0]) / "tiny_gguf.py", model], check=True)
    command = [str(python), "-m", "llama_cpp.server", "--model", str(model), "--host", "127.0.0.1"]
    with server([*command, "--port", str(port), "--n_ctx", str(tokens)], port=port, log=folder / "log"):
        yield port


@pytest.fixture(scope="session")
def llama(servers: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with llama_server(servers, tmp_path_factory.mktemp("llama"), tokens=16_384) as port:
        yield port


@pytest.fixture
def small_llama(servers: Path, tmp_path: Path) -> Iterator[int]:
    with llama_server(servers, tmp_path, tokens=512) as port:
        yield port


@pytest.mark.parametrize("provider", ["llamacpp", "openai", "vllm", "generic"])
async def test_llama_cpp_python_is_asked_in_a_form_that_it_takes(llama: int, provider: str) -> None:
    settings = settings_of(llama, provider, llm_max_output_tokens=128, llm_context_tokens=16_384)

    async with running(settings) as client:
        outcomes = [outcome_of(await evaluate(client, **SAMPLE, tiers=["llm", "lexical"])) for _ in range(3)]
        ready = (await client.get("/readyz")).json()

    # A model of random weights judges nothing: its replies are rubbish, and read as such.
    assert set(outcomes) <= {"invalid_reply", "truncated_reply", "empty_reply"}
    detail = next(each["detail"] for name, each in ready["tiers"].items() if name == "llm")
    assert f"({'plain' if provider == 'generic' else 'json_object'})" in detail


async def test_llama_cpp_python_with_a_small_window_is_told_in_one_line(small_llama: int) -> None:
    async with running(settings_of(small_llama, "llamacpp", llm_max_output_tokens=128)) as client:
        outcome = outcome_of(await evaluate(client, **SAMPLE, tiers=["llm", "lexical"]))

    assert outcome == "too_long"


# --- LiteLLM's proxy in front of a judge that answers


@pytest.fixture(scope="session")
def litellm(servers: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, ScriptedJudge]]:
    python = python_of(servers, "litellm", "litellm[proxy]")
    folder, port = tmp_path_factory.mktemp("litellm"), free_port()
    with running_judge() as judge:
        behind = {"model": "openai/judge-1", "api_base": judge.base_url, "api_key": "sk-behind"}
        config = {
            "model_list": [{"model_name": "judge", "litellm_params": {**behind, "max_retries": 0}}],
            "router_settings": {"num_retries": 0, "disable_cooldowns": True},
        }
        (folder / "config.yaml").write_text(json.dumps(config))
        program = python.with_name("litellm")
        command = [str(program), "--config", str(folder / "config.yaml"), "--host", "127.0.0.1", "--port", str(port)]
        with server(
            command,
            port=port,
            log=folder / "log",
            env={"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MASTER_KEY": KEY},
        ):
            yield port, judge


@pytest.mark.parametrize("path", ["", "/", "/v1"])
@pytest.mark.parametrize("provider", ["openai", "vllm", "ollama", "generic"])
async def test_a_judge_behind_litellm_is_usable(litellm: tuple[int, ScriptedJudge], provider: str, path: str) -> None:
    port, judge = litellm
    judge.reply_with(judged)

    async with running(settings_of(port, provider, path=path)) as client:
        result = await evaluate(client, **SAMPLE)

    assert (result["tier"], result["faithfulness"]) == ("llm", 1.0)


@pytest.mark.parametrize(("status", "code", "message", "reason"), load_cases("real_servers", "litellm_faults"))
async def test_a_fault_behind_litellm_keeps_its_reason(
    litellm: tuple[int, ScriptedJudge], status: int, code: str, message: str, reason: str
) -> None:
    port, judge = litellm
    judge.reply_with(openai_error(status, code, message))

    async with running(settings_of(port, "generic", deadline_seconds=20.0)) as client:
        outcome = outcome_of(await evaluate(client, **SAMPLE, tiers=["llm", "lexical"]))

    assert outcome == reason


def test_judge_check_reads_a_judge_behind_litellm(
    litellm: tuple[int, ScriptedJudge], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    port, judge = litellm
    judge.reply_with(openai_error(401, "invalid_api_key", "Incorrect API key provided: the words of the provider"))
    address = {"MODEL": "judge", "BASE_URL": f"http://127.0.0.1:{port}", "API_KEY": KEY}
    for name, value in {"PROVIDER": "generic", **address}.items():
        monkeypatch.setenv(f"PLUMBLINE_LLM_{name}", value)

    assert main(["doctor", "judge"]) == 1

    assert "the words of the provider" in capsys.readouterr().out


# --- jev-compatible-server: System One's shape, strict about fields; the first answer of each question is the likeliest

_RUNTIME = """
import sys, uvicorn
from jev_compatible_server.app import create_app
from jev_compatible_server.protocol import DecisionResponse, Usage
from jev_compatible_server.runtime import TokenLogitRuntime

class Runtime(TokenLogitRuntime):
    def decide_batch(self, requests):
        return [self.respond(request) for request in requests]

    def respond(self, request):
        answers = {}
        for name, question in request.questions.items():
            scores = {label: -float(at) for at, label in enumerate(self._labels_for_question(question))}
            answers[name] = self.answer_from_label_scores(question, scores)
        usage = Usage(input_tokens=len(str(request)) // 4, output_tokens=0)
        return DecisionResponse(model=self.model_name, answers=answers, usage=usage)

uvicorn.run(create_app(Runtime(model_name="judge")), host="127.0.0.1", port=int(sys.argv[1]))
"""


async def test_a_decision_server_takes_our_questions_and_its_probabilities_are_read(
    servers: Path, tmp_path: Path
) -> None:
    python, port = python_of(servers, "jev", "jev-compatible-server"), free_port()
    command = [str(python), "-c", _RUNTIME, str(port)]
    metrics = ["answer_relevance", "context_relevance"]

    with server(command, port=port, log=tmp_path / "log"):
        async with running(settings_of(port, "generic", llm_api="systemone", llm_controls=False)) as client:
            result = await evaluate(client, **SAMPLE, tiers=["llm"], metrics=metrics)

    (claim,) = result["claims"]
    # e^0 / (e^0 + e^-1 + e^-2)
    assert claim["support"] == pytest.approx(0.6652, abs=1e-4)
    assert (claim["verdict"], result["passed"]) == ("supported", None)
    assert result["trace"]["judge"]["kind"] == "systemone"
    assert [each["value"] for each in result["metrics"].values()] == [1.0, 1.0]
