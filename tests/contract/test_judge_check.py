"""`plumbline doctor judge`: what it shows of an address, what it advises, and its exit code."""

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from plumbline.cli.main import main
from tests.doubles.scripted_decisions import always, copies, decide
from tests.doubles.scripted_embeddings import embeddings
from tests.doubles.scripted_judge import ScriptedJudge, running_judge
from tests.doubles.scripted_replies import RecordedRequest, Reply, completion, openai_error, raw_body
from tests.making.cases import load_cases
from tests.running.service import data_of

KEY = "sk-check-key-000001"
HEADER = "gateway-secret-0001"


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedJudge]:
    with running_judge() as each:
        settings = {"PROVIDER": "openai", "BASE_URL": each.base_url, "MODEL": "m", "API_KEY": KEY}
        for name, value in settings.items():
            monkeypatch.setenv(f"PLUMBLINE_LLM_{name}", value)
        monkeypatch.setenv("PLUMBLINE_LLM_EXTRA_HEADERS", json.dumps({"X-Gateway": HEADER}))
        yield each


@pytest.fixture
def closed_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def honest(request: RecordedRequest) -> Reply:
    return _reply(request, {1: "supported", 2: "contradicted", 3: "not_mentioned"})


def won_over(request: RecordedRequest) -> Reply:
    return _reply(request, dict.fromkeys((1, 2, 3), "supported"))


def _reply(request: RecordedRequest, verdicts: dict[int, str]) -> Reply:
    data = data_of(request)
    quote = data["contexts"][0]["text"]

    def said(number: int) -> dict[str, object]:
        quotes = [] if verdicts[number] == "not_mentioned" else [quote]
        return {"quotes": quotes, "reason": "", "verdict": verdicts[number]}

    if "claims" in data:
        items = [{"id": each["id"], **said(int(each["sentence"]))} for each in data["claims"]]
        return completion(json.dumps({"claims": items}))
    sentences = [{"id": each["id"], "claims": [said(each["id"])]} for each in data["answer"] if "id" in each]
    return completion(json.dumps({"sentences": sentences}), usage=(1_200, 80))


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_judge_that_is_right_is_usable(
    language: str, judge: ScriptedJudge, capsys: pytest.CaptureFixture[str]
) -> None:
    judge.reply_with(honest)

    code = main(["doctor", "judge", "--language", language])

    out = capsys.readouterr().out
    assert code == 0
    assert f"default: openai: m at {judge.base_url.split('/')[2]}" in out
    assert f"POST {judge.base_url}/chat/completions, reply as json_schema" in out
    assert "supported (right), contradicted (right), not_mentioned (right)" in out
    assert "1200 tokens in, 80 out" in out
    assert "usable, replies as json_schema" in out
    assert KEY not in out
    assert HEADER not in out


@pytest.mark.parametrize("language", ["en", "zh"])
def test_an_address_of_decision_models_is_found_out_and_usable(
    language: str, judge: ScriptedJudge, capsys: pytest.CaptureFixture[str]
) -> None:
    judge.reply_with(decide(copies))

    code = main(["doctor", "judge", "--language", language])

    out = capsys.readouterr().out
    assert code == 0
    assert f"POST {judge.base_url}/chat/completions" in out
    assert "Use POST /v1/systemone" in out
    assert f"POST {judge.base_url}/systemone, reply as systemone" in out
    assert "usable, replies as systemone" in out


def test_a_decision_model_that_supports_everything_is_wrong_whatever_code_finds(
    judge: ScriptedJudge, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PLUMBLINE_LLM_API", "decisions")
    judge.reply_with(decide(always("supported")))

    assert main(["doctor", "judge"]) == 1

    assert "supported (right), supported (wrong), supported (wrong)" in capsys.readouterr().out


def test_an_address_that_takes_no_chat_says_so_where_chat_is_set(
    judge: ScriptedJudge, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PLUMBLINE_LLM_API", "chat")
    judge.reply_with(decide(copies))

    assert main(["doctor", "judge"]) == 1

    assert "is a decision model and takes no chats: leave PLUMBLINE_LLM_API empty" in capsys.readouterr().out


def test_a_judge_that_supports_everything_is_wrong(judge: ScriptedJudge, capsys: pytest.CaptureFixture[str]) -> None:
    judge.reply_with(won_over)

    assert main(["doctor", "judge"]) == 1

    assert "(wrong)" in capsys.readouterr().out


def test_the_providers_own_words_are_shown_without_our_secrets(
    judge: ScriptedJudge, capsys: pytest.CaptureFixture[str]
) -> None:
    judge.reply_with(openai_error(401, "invalid_api_key", f"Incorrect key {KEY} from {HEADER}\x1b[2J"))

    assert main(["doctor", "judge"]) == 1

    out = capsys.readouterr().out
    assert "HTTP 401" in out
    assert "Incorrect key *** from ***" in out
    assert "check the key" in out
    assert "\x1b" not in out
    assert KEY not in out
    assert HEADER not in out


@pytest.mark.parametrize("case", load_cases("judge_check", "errors"))
def test_the_advice_is_that_for_the_providers_own_error(
    case: tuple[str, int, str, str],
    judge: ScriptedJudge,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    provider, status, body, advised = case
    monkeypatch.setenv("PLUMBLINE_LLM_PROVIDER", provider)
    judge.reply_with(raw_body(body.encode(), status=status))

    assert main(["doctor", "judge"]) == 1

    assert advised in capsys.readouterr().out.partition("  do ")[2]


def test_a_form_that_is_refused_is_shown_with_the_one_that_works(
    judge: ScriptedJudge, capsys: pytest.CaptureFixture[str]
) -> None:
    judge.reply_with(honest)
    judge.reply_when(
        lambda request: request.json.get("response_format", {}).get("type") == "json_schema",
        openai_error(400, None, "response_format json_schema is not supported here"),
    )
    judge.reply_when(
        lambda request: request.json["messages"][0]["role"] == "system",
        openai_error(400, None, "no instructions by the system"),
    )

    assert main(["doctor", "judge", "--full"]) == 0

    out = capsys.readouterr().out
    assert "response_format json_schema is not supported here" in out
    assert "usable, replies as json_object, without system role\n" in out
    assert "The Marlow lighthouse" in out


def test_every_address_of_every_judge_is_asked(
    judge: ScriptedJudge, closed_port: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    judge.reply_with(honest)
    dead = {"provider": "generic", "base_url": f"http://127.0.0.1:{closed_port}/v1", "model": "gone"}
    monkeypatch.setenv("PLUMBLINE_LLM_FALLBACKS", json.dumps([dead]))

    assert main(["doctor", "judge", "default"]) == 1

    out = capsys.readouterr().out
    assert "usable" in out
    assert f"no connection to 127.0.0.1:{closed_port}" in out
    assert "check the base URL" in out


@pytest.mark.parametrize("arguments", [["nobody"], []])
def test_a_judge_that_is_not_configured_is_an_error_of_the_user(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("DASHSCOPE_API_KEY", raising=False)
    if arguments:
        monkeypatch.setenv("DASHSCOPE_API_KEY", KEY)

    assert main(["doctor", "judge", *arguments]) == 2

    assert capsys.readouterr().err.count("\n") == 1


@pytest.fixture
def trial(judge: ScriptedJudge, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ScriptedJudge:
    """A judge, an embeddings API that is not there, and a folder for jobs."""
    monkeypatch.setenv("PLUMBLINE_EMBEDDING_MODEL", str(tmp_path / "no-model"))
    monkeypatch.setenv("PLUMBLINE_DATA_DIR", str(tmp_path / "jobs"))
    judge.reply_with(honest)
    return judge


def test_the_doctor_names_what_works_and_what_does_not_with_what_to_do(
    trial: ScriptedJudge, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["doctor"])

    out = capsys.readouterr().out
    assert code == 1
    assert f"ok     judge default: openai: m at {trial.base_url.split('/')[2]}: key accepted" in out
    assert "replies as json_schema" in out
    assert "FAILED embedding: " in out
    assert "do pip install 'plumbline-rag[offline]'" in out
    assert f"ok     jobs: {os.environ['PLUMBLINE_DATA_DIR']} can be written" in out
    assert KEY not in out
    trial.reply_with(openai_error(401, "invalid_api_key", f"Incorrect key {KEY}"))
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "FAILED judge default: " in out
    assert "do check the key" in out
    assert KEY not in out


def test_the_doctor_tries_nothing_else_where_a_setting_is_wrong(
    trial: ScriptedJudge, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLUMBLINE_TRESHOLD", "0.5")

    assert main(["doctor"]) == 1

    out = capsys.readouterr().out
    assert "FAILED settings: unknown setting PLUMBLINE_TRESHOLD; did you mean PLUMBLINE_THRESHOLD?" in out
    assert trial.requests == []


def test_the_doctor_reads_the_error_of_an_embeddings_api_too(
    trial: ScriptedJudge, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {"PROVIDER": "dashscope", "BASE_URL": trial.base_url, "MODEL": "v", "API_KEY": KEY}.items():
        monkeypatch.setenv(f"PLUMBLINE_EMBEDDING_{name}", value)
    trial.reply_when(lambda request: "input" in request.json, openai_error(401, "invalid_api_key"))

    assert main(["doctor"]) == 1

    assert "set PLUMBLINE_EMBEDDING_PROVIDER=dashscope-intl" in capsys.readouterr().out


def test_the_doctor_offers_and_tries_an_api_for_what_the_local_model_does_not_read(
    trial: ScriptedJudge, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DASHSCOPE_API_KEY", KEY)
    main(["doctor"])
    offered = capsys.readouterr().out
    for name, value in {"PROVIDER": "local+dashscope", "BASE_URL": trial.base_url}.items():
        monkeypatch.setenv(f"PLUMBLINE_EMBEDDING_{name}", value)
    trial.reply_when(lambda request: "input" in request.json, embeddings())
    main(["doctor"])

    assert "do PLUMBLINE_EMBEDDING_PROVIDER=local+dashscope has text-embedding-v4 read it" in offered
    assert "ok     embedding, other languages: dashscope: text-embedding-v4 at 127.0.0.1" in capsys.readouterr().out
