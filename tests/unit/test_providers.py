"""Which key goes where, and what is said when something is missing."""

from typing import Any

import pytest
from pydantic import SecretStr

from app.backends.providers import PROVIDERS, Endpoint, resolve_endpoint
from app.errors import ConfigurationError
from app.settings import Settings, load_settings

OWN = "own-key-0123456789"
DASHSCOPE = "dashscope-key-0123456789"


def _settings(**values: Any) -> Settings:
    return Settings(**values)


def _resolve(**values: Any) -> Endpoint | None:
    return resolve_endpoint(_settings(**values))


def _key(**values: Any) -> str | None:
    endpoint = _resolve(**values)
    return endpoint.api_key if endpoint else None


@pytest.mark.parametrize("provider", ["dashscope", "dashscope-intl"])
def test_dashscopes_own_variable_serves_its_two_providers(provider: str) -> None:
    assert _key(llm_provider=provider, dashscope_api_key=SecretStr(DASHSCOPE)) == DASHSCOPE


def test_dashscope_is_the_default_provider() -> None:
    endpoint = _resolve(dashscope_api_key=SecretStr(DASHSCOPE))

    assert endpoint is not None
    assert (endpoint.provider.name, endpoint.model, endpoint.host) == (
        "dashscope",
        "qwen-plus",
        "dashscope.aliyuncs.com",
    )


@pytest.mark.parametrize("provider", ["dashscope", "dashscope-intl"])
def test_the_judges_own_key_comes_before_dashscopes(provider: str) -> None:
    values = {"llm_api_key": SecretStr(OWN), "dashscope_api_key": SecretStr(DASHSCOPE)}

    assert _key(llm_provider=provider, **values) == OWN


def test_an_empty_judge_key_counts_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    # What `PLUMBLINE_LLM_API_KEY=${JUDGE_KEY:-}` of a compose file gives.
    monkeypatch.setenv("PLUMBLINE_LLM_API_KEY", "")
    monkeypatch.setenv("DASHSCOPE_API_KEY", DASHSCOPE)

    endpoint = resolve_endpoint(load_settings())

    assert endpoint is not None
    assert endpoint.api_key == DASHSCOPE


def test_openai_never_gets_dashscopes_key() -> None:
    assert _resolve(llm_provider="openai", llm_model="m", dashscope_api_key=SecretStr(DASHSCOPE)) is None


def test_a_generic_server_never_gets_dashscopes_key() -> None:
    values = {"llm_base_url": "http://localhost:8000/v1", "llm_model": "m", "dashscope_api_key": SecretStr(DASHSCOPE)}

    assert _key(llm_provider="generic", **values) == "none"


def test_a_generic_server_gets_the_judges_own_key() -> None:
    values = {"llm_base_url": "http://localhost:8000/v1", "llm_model": "m", "llm_api_key": SecretStr(OWN)}

    assert _key(llm_provider="generic", **values) == OWN


@pytest.mark.parametrize("provider", sorted(PROVIDERS))
def test_without_a_key_and_an_address_no_judge_is_configured(provider: str) -> None:
    assert _resolve(llm_provider=provider) is None


def test_a_key_for_a_generic_server_without_an_address_names_the_variable() -> None:
    with pytest.raises(ConfigurationError, match=r"^PLUMBLINE_LLM_BASE_URL: needed"):
        _resolve(llm_provider="generic", llm_api_key=SecretStr(OWN), llm_model="m")


@pytest.mark.parametrize(
    "values",
    [
        {"llm_provider": "openai", "llm_api_key": SecretStr(OWN)},
        {"llm_provider": "generic", "llm_base_url": "http://localhost:8000/v1"},
    ],
)
def test_a_missing_model_names_the_variable(values: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"^PLUMBLINE_LLM_MODEL: needed"):
        _resolve(**values)


@pytest.mark.parametrize("base_url", ["localhost:8000/v1", "ftp://host/v1", "https://", "host", "https://[::1/v1"])
def test_an_address_that_is_no_http_url_names_the_variable(base_url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^PLUMBLINE_LLM_BASE_URL: "):
        _resolve(llm_base_url=base_url, llm_api_key=SecretStr(OWN))


@pytest.mark.parametrize("key", ["key-with-\u00fcmlaut-012345", "key\nwith-newline-0123"])
def test_a_key_that_no_header_can_carry_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        _resolve(llm_api_key=SecretStr(key))

    assert "newline" not in str(refused.value)
    assert "mlaut" not in str(refused.value)


def test_white_space_around_a_key_is_dropped() -> None:
    assert _key(llm_api_key=SecretStr(f" {OWN}\n")) == OWN


def test_settings_replace_the_providers_address_and_model() -> None:
    endpoint = _resolve(llm_api_key=SecretStr(OWN), llm_base_url="https://proxy.example/v1", llm_model="qwen-max")

    assert endpoint is not None
    assert (endpoint.base_url, endpoint.model) == ("https://proxy.example/v1", "qwen-max")


def test_an_endpoint_shows_neither_its_key_nor_a_password_in_its_address() -> None:
    endpoint = _resolve(llm_api_key=SecretStr(OWN), llm_base_url="https://user:passw0rd@proxy.example:8443/v1")

    assert endpoint is not None
    assert OWN not in repr(endpoint)
    assert endpoint.host == "proxy.example:8443"


def test_thinking_is_switched_off_at_dashscope_alone() -> None:
    assert {name for name, provider in PROVIDERS.items() if provider.extra_body} == {"dashscope", "dashscope-intl"}
    assert PROVIDERS["dashscope"].extra_body == {"enable_thinking": False}


def test_nothing_is_assumed_of_a_generic_server() -> None:
    generic = PROVIDERS["generic"]

    assert (generic.json_mode, generic.token_limit, dict(generic.extra_body)) == (False, "max_tokens", {})
