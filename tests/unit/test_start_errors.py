"""A wrong setting of any kind stops the start: one line that names it, exit code 2, nothing of its value."""

import socket

import pytest

from plumbline.cli.main import main
from plumbline.ground.settings import Settings, unknown_variables, variable_name

# A wrong value for each setting that can be wrong; the values of secrets are planted words.
WRONG = {
    "PLUMBLINE_COMPAT": "tool,planted",
    "PLUMBLINE_API_KEYS": "planted",
    "PLUMBLINE_ALLOW_ANONYMOUS": "planted",
    "PLUMBLINE_MAX_BODY_BYTES": "1",
    "PLUMBLINE_MAX_RETRIEVAL_BODY_BYTES": "1",
    "PLUMBLINE_MAX_BATCH_BODY_BYTES": "1",
    "PLUMBLINE_MAX_BATCH_SAMPLES": "0",
    "PLUMBLINE_MAX_JOB_BODY_BYTES": "planted",
    "PLUMBLINE_BODY_TIMEOUT_SECONDS": "601",
    "PLUMBLINE_PUBLIC_URL": "planted",
    "PLUMBLINE_CACHE_PATH": "/",
    "PLUMBLINE_MAX_CONTEXTS": "0",
    "PLUMBLINE_MAX_CONTEXT_CHARACTERS": "-1",
    "PLUMBLINE_MAX_ANSWER_CHARACTERS": "1.5",
    "PLUMBLINE_MAX_QUESTION_CHARACTERS": "planted",
    "PLUMBLINE_THRESHOLD": "nan",
    "PLUMBLINE_DEADLINE_SECONDS": "inf",
    "PLUMBLINE_ROW_DEADLINE_SECONDS": "0",
    "PLUMBLINE_BATCH_CONCURRENCY": "0",
    "PLUMBLINE_DATABASE_URL": "mysql://u:planted@127.0.0.1/jobs",
    "PLUMBLINE_JOB_CONCURRENCY": "-1",
    "PLUMBLINE_CALIBRATION": "/nowhere/calibration.json",
    "PLUMBLINE_LLM_PROVIDER": "planted",
    "PLUMBLINE_LLM_EXTRA_HEADERS": '{"Host": "planted"}',
    "PLUMBLINE_LLM_EXTRA_BODY": '{"model": "planted"}',
    "PLUMBLINE_LLM_MAX_OUTPUT_TOKENS": "1",
    "PLUMBLINE_LLM_CONTEXT_TOKENS": "1",
    "PLUMBLINE_LLM_FALLBACKS": "[{]",
    "PLUMBLINE_LLM_JUDGES": '{"default": []}',
    "PLUMBLINE_LLM_MAX_CONCURRENCY": "0",
    "PLUMBLINE_LLM_BACKOFF_SECONDS": "0",
    "PLUMBLINE_LLM_RPM": "0",
    "PLUMBLINE_LLM_TPM": "0",
    "PLUMBLINE_LLM_PRICES": '{"m": {"input": -1, "output": 1}}',
    "PLUMBLINE_LLM_MAX_COST": "0",
    "PLUMBLINE_PROMPTS_DIR": "/nowhere",
    "PLUMBLINE_LLM_CONTROLS": "planted",
    "PLUMBLINE_EMBEDDING_LANGUAGES": "en,planted",
    "PLUMBLINE_EMBEDDING_PROVIDER": "planted",
    "PLUMBLINE_EMBEDDING_BASE_URL": "planted",
    "PLUMBLINE_EMBEDDING_DIMENSIONS": "0",
    "PLUMBLINE_EMBEDDING_MAX_TOKENS": "1",
    "PLUMBLINE_EMBEDDING_BACKEND": "planted",
    "PLUMBLINE_EMBEDDING_PRECISION": "planted",
    "PLUMBLINE_EMBEDDING_THREADS": "0",
    "PLUMBLINE_WARM_UP": "planted",
    "PLUMBLINE_DETECTOR": "none.toml",
    "PLUMBLINE_CACHE_TTL_SECONDS": "-1",
    "PLUMBLINE_DRAIN_SECONDS": "0",
    "PLUMBLINE_KEY_CONCURRENCY": "0",
    "PLUMBLINE_MAX_CONCURRENT_REQUESTS": "0",
    "PLUMBLINE_CORS_ORIGINS": "https://app.example/planted",
    "PLUMBLINE_WORKERS": "0",
    "PLUMBLINE_LOG_LEVEL": "planted",
    "PLUMBLINE_TRACING": "planted",
}
# Any text may be right; `/readyz` and the answers say when it was not.
FREE = {
    "PLUMBLINE_DATA_DIR",
    "PLUMBLINE_DETECTOR_API_KEY",
    "PLUMBLINE_DETECTOR_MODEL",
    # Of use with a detector alone.
    "PLUMBLINE_DETECTOR_URL",
    "PLUMBLINE_EMBEDDING_API_KEY",
    "PLUMBLINE_EMBEDDING_MODEL",
    "PLUMBLINE_KEYS_FILE",
    "PLUMBLINE_LLM_API_KEY",
    "PLUMBLINE_LLM_BASE_URL",
    "PLUMBLINE_LLM_MODEL",
}
# Their own words name the file.
_NAMED_BY_FILE = {
    "PLUMBLINE_CALIBRATION": "calibration.json",
    "PLUMBLINE_DETECTOR": "none.toml",
    "PLUMBLINE_PROMPTS_DIR": "verify_claims",
}


def test_every_setting_is_tried_or_free() -> None:
    assert {variable_name(name) for name in Settings.model_fields} - FREE == WRONG.keys()


@pytest.mark.parametrize("variable", WRONG)
def test_a_wrong_value_stops_the_start(
    variable: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(variable, WRONG[variable])

    code = main(["serve", "--port", "0"])

    said = capsys.readouterr().err
    assert code == 2
    assert said.startswith("plumbline: ")
    assert said.count("\n") == 1
    assert _NAMED_BY_FILE.get(variable, variable) in said
    assert "planted" not in said


@pytest.mark.parametrize(
    ("mistyped", "meant"),
    [
        ("PLUMBLINE_TRESHOLD", "PLUMBLINE_THRESHOLD"),
        ("PLUMBLINE_API_KEY", "PLUMBLINE_API_KEYS"),
        ("PLUMBLINE_LLM_URL", "PLUMBLINE_LLM_"),
        ("PLUMBLINE_DATADIR", "PLUMBLINE_DATA_DIR"),
    ],
)
def test_a_mistyped_setting_stops_the_start(
    mistyped: str, meant: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A service that forgets its threshold or its keys is worse than none."""
    monkeypatch.setenv(mistyped, "planted")

    code = main(["serve", "--port", "0"])

    said = capsys.readouterr().err
    assert (code, said.count("\n")) == (2, 1)
    assert said.startswith(f"plumbline: unknown setting {mistyped}; did you mean {meant}")
    assert "planted" not in said


@pytest.mark.parametrize(
    ("removed", "advice"),
    [
        ("PLUMBLINE_CPU_THREADS", "it has one value now, which fits all; unset it"),
        ("PLUMBLINE_EMBEDDING_RPM", "calls wait as the server's 429 and Retry-After ask; unset it"),
        ("PLUMBLINE_KEY_TOKENS_PER_DAY", "a gateway in front limits callers; unset it"),
    ],
)
def test_a_setting_that_is_gone_stops_the_start_with_what_to_do(
    removed: str, advice: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(removed, "1")

    assert main(["serve", "--port", "0"]) == 2
    assert capsys.readouterr().err == f"plumbline: {removed} is no setting since 0.3: {advice}\n"


def test_the_settings_are_at_most_65() -> None:
    assert len(Settings.model_fields) <= 65


def test_what_kubernetes_makes_of_a_services_name_is_no_mistake() -> None:
    made = ["PLUMBLINE_SERVICE_HOST", "PLUMBLINE_SERVICE_PORT", "PLUMBLINE_PORT_8000_TCP_ADDR", "PLUMBLINE_PORT"]

    assert unknown_variables([*made, "PLUMBLINE_THRESHOLD", "PATH"]) == sorted(made)


def test_a_port_in_use_ends_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code = main(["serve", "--port", str(port)])

    said = capsys.readouterr().err
    assert (code, said.count("\n")) == (2, 1)
    assert said.startswith(f"plumbline: cannot listen on 127.0.0.1 port {port}: ")
