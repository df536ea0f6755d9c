"""The settings as the environment gives them."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from plumbline.ground.errors import ConfigurationError
from plumbline.ground.processor import has_bf16_instructions
from plumbline.ground.settings import Settings, load_settings
from tests.making.cases import load_cases

KEY = "k" * 16


def _load(monkeypatch: pytest.MonkeyPatch, **variables: str) -> Settings:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return load_settings()


def _keys(settings: Settings) -> list[str]:
    return [key.get_secret_value() for key in settings.api_keys]


def test_without_variables_the_defaults_hold() -> None:
    settings = load_settings()

    assert settings.api_keys == ()
    assert (settings.llm_provider, settings.threshold, settings.allow_anonymous) == ("dashscope", None, False)


def test_numbers_flags_and_paths_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = _load(
        monkeypatch,
        PLUMBLINE_MAX_BODY_BYTES="2048",
        PLUMBLINE_THRESHOLD="0.75",
        PLUMBLINE_ALLOW_ANONYMOUS="true",
        PLUMBLINE_CALIBRATION="/etc/calibration.json",
    )

    assert (settings.max_body_bytes, settings.threshold, settings.allow_anonymous) == (2048, 0.75, True)
    assert settings.calibration == Path("/etc/calibration.json")


@pytest.mark.parametrize(("value", "keys"), load_cases("settings", "keys", inner=list))
def test_keys_are_separated_by_commas(monkeypatch: pytest.MonkeyPatch, value: str, keys: list[str]) -> None:
    assert _keys(_load(monkeypatch, PLUMBLINE_API_KEYS=value)) == keys


@pytest.mark.parametrize("value", ["short-secret", f"{KEY},short-secret", "short-secret,"])
def test_a_short_key_is_refused_without_being_shown(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        _load(monkeypatch, PLUMBLINE_API_KEYS=value)

    assert str(refused.value).startswith("PLUMBLINE_API_KEYS: ")
    assert "16 characters" in str(refused.value)
    assert "short-secret" not in str(refused.value)
    assert refused.value.__suppress_context__


def test_keys_are_not_shown_by_the_settings_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = _load(
        monkeypatch,
        PLUMBLINE_API_KEYS="first-secret-key-0001",
        PLUMBLINE_LLM_API_KEY="second-secret-key-0002",
    )

    assert "secret-key" not in repr(settings)
    assert "secret-key" not in settings.model_dump_json()


def test_every_wrong_variable_is_named_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError) as refused:
        _load(monkeypatch, PLUMBLINE_THRESHOLD="2", PLUMBLINE_MAX_CONTEXTS="0")

    assert "PLUMBLINE_THRESHOLD" in str(refused.value)
    assert "PLUMBLINE_MAX_CONTEXTS" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        load_settings().threshold = 0.9  # type: ignore[misc]


def test_a_field_of_every_setting_has_help() -> None:
    assert [name for name, field in Settings.model_fields.items() if not field.description] == []


@pytest.mark.parametrize(("cpu_description", "expected"), load_cases("settings", "cpu_flags"))
def test_bf16_is_known_by_the_flags_of_the_cpu(cpu_description: str, *, expected: bool) -> None:
    assert has_bf16_instructions(cpu_description) is expected


def test_the_precision_is_chosen_for_the_cpu_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PLUMBLINE_EMBEDDING_PRECISION")

    chosen = load_settings().embedding_precision

    # What shares the settings computes alike, whatever its own CPU.
    assert chosen in ("fp32", "bf16")
    assert _load(monkeypatch, PLUMBLINE_EMBEDDING_PRECISION="bf16").embedding_precision == "bf16"
