"""A wrong setting of any kind stops the start: one line that names it, exit code 2, nothing of its value."""

import socket

import pytest

from plumbline.cli.main import main
from plumbline.ground.settings import Settings, unknown_variables, variable_name
from tests.making.cases import load_cases

# A wrong value for each setting that can be wrong; the values of secrets are planted words.
WRONG = load_cases("start_errors", "wrong")
# Any text may be right; `/readyz` and the answers say when it was not.
FREE = {
    "PLUMBLINE_DATA_DIR",
    "PLUMBLINE_DETECTOR_MODEL",
    # Of use with a detector alone.
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


@pytest.mark.parametrize(("mistyped", "meant"), load_cases("start_errors", "a_mistyped_setting_stops_the_start"))
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
    "removed", ["PLUMBLINE_CPU_THREADS", "PLUMBLINE_EMBEDDING_RPM", "PLUMBLINE_KEY_TOKENS_PER_DAY"]
)
def test_a_setting_that_is_gone_stops_the_start_with_what_to_do(
    removed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(removed, "1")

    assert main(["serve", "--port", "0"]) == 2
    said = f"plumbline: {removed} is no setting since 0.3; unset it, the changelog says what to use\n"
    assert capsys.readouterr().err == said


def test_the_settings_are_at_most_66() -> None:
    assert len(Settings.model_fields) <= 66


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
