"""Which key goes where, and what is said when something is missing."""

from typing import Any

import pytest
from pydantic import SecretStr

from plumbline.ground.errors import ConfigurationError
from plumbline.ground.settings import Settings, load_settings
from plumbline.models.chat.chat_models import build_chat_models
from plumbline.models.chat.endpoints import PROVIDERS, Endpoint, resolve_endpoint, resolve_judges
from tests.making.cases import load_cases

OWN = "own-key-0123456789"
DASHSCOPE = "dashscope-key-0123456789"


def _settings(**values: Any) -> Settings:
    return Settings(**values)


def _resolve(**values: Any) -> Endpoint | None:
    return resolve_endpoint(_settings(**values))


def _key(**values: Any) -> str | None:
    endpoint = _resolve(**values)
    return endpoint.api_key if endpoint else None


@pytest.fixture
def dashscope_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DASHSCOPE_API_KEY", DASHSCOPE)


@pytest.mark.usefixtures("dashscope_key")
def test_dashscope_is_the_default_provider() -> None:
    endpoint = _resolve()

    assert endpoint is not None
    assert (endpoint.provider.name, endpoint.model, endpoint.host) == (
        "dashscope",
        "qwen-plus",
        "dashscope.aliyuncs.com",
    )


@pytest.mark.parametrize("provider", ["dashscope", "dashscope-intl"])
@pytest.mark.usefixtures("dashscope_key")
def test_the_judges_own_key_comes_before_dashscopes(provider: str) -> None:
    values = {"llm_api_key": SecretStr(OWN)}

    assert _key(llm_provider=provider, **values) == OWN


def test_an_empty_judge_key_counts_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    # What `PLUMBLINE_LLM_API_KEY=${JUDGE_KEY:-}` of a compose file gives.
    monkeypatch.setenv("PLUMBLINE_LLM_API_KEY", "")
    monkeypatch.setenv("DASHSCOPE_API_KEY", DASHSCOPE)

    endpoint = resolve_endpoint(load_settings())

    assert endpoint is not None
    assert endpoint.api_key == DASHSCOPE


def test_a_generic_server_gets_the_judges_own_key() -> None:
    values = {"llm_base_url": "http://localhost:8000/v1", "llm_model": "m", "llm_api_key": SecretStr(OWN)}

    assert _key(llm_provider="generic", **values) == OWN


@pytest.mark.parametrize(("provider", "variable", "host"), load_cases("providers", "own_variables"))
def test_a_providers_own_variable_is_all_that_it_needs(
    monkeypatch: pytest.MonkeyPatch, provider: str, variable: str, host: str
) -> None:
    monkeypatch.setenv("PLUMBLINE_LLM_PROVIDER", provider)
    monkeypatch.setenv(variable, OWN)

    endpoint = resolve_endpoint(load_settings())

    assert endpoint is not None
    assert (endpoint.host, endpoint.api_key) == (host, OWN)
    assert endpoint.model


def test_azure_takes_its_own_variable_with_the_address_of_the_resource(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", OWN)
    monkeypatch.setenv("OPENAI_API_KEY", "another-key")

    assert _key(llm_provider="azure", llm_base_url="https://r.openai.azure.com/openai/v1", llm_model="m") == OWN


def test_a_vendors_variable_configures_no_judge_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", OWN)
    monkeypatch.setenv("DEEPSEEK_API_KEY", OWN)

    assert resolve_judges(load_settings()) == {}


@pytest.mark.parametrize("provider", sorted(PROVIDERS.keys() - {"ollama"}))
def test_without_a_key_and_an_address_no_judge_is_configured(provider: str) -> None:
    assert _resolve(llm_provider=provider) is None


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


def test_settings_replace_the_providers_address_and_model() -> None:
    endpoint = _resolve(llm_api_key=SecretStr(OWN), llm_base_url="https://proxy.example/v1", llm_model="qwen-max")

    assert endpoint is not None
    assert (endpoint.base_url, endpoint.model) == ("https://proxy.example/v1", "qwen-max")


def test_an_endpoint_shows_neither_its_key_nor_a_password_in_its_address() -> None:
    endpoint = _resolve(llm_api_key=SecretStr(OWN), llm_base_url="https://user:passw0rd@proxy.example:8443/v1")

    assert endpoint is not None
    assert OWN not in repr(endpoint)
    assert endpoint.host == "proxy.example:8443"


@pytest.mark.parametrize(("own", "tokens"), [({}, 131_072), ({"llm_context_tokens": 9_000}, 9_000)])
def test_the_length_that_a_model_reads_is_its_provider_s_usual_one_or_ours(own: dict[str, Any], tokens: int) -> None:
    endpoint = _resolve(llm_api_key=SecretStr(OWN), **own)

    assert endpoint is not None
    assert endpoint.context_tokens == tokens


# --- several

LIST = """[
    {"provider": "dashscope-intl", "api_key": "first-key-0123456789"},
    {"provider": "vllm", "base_url": "http://localhost:8000/v1", "model": "qwen3", "context_tokens": 4096}
]"""


def test_fallbacks_follow_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DASHSCOPE_API_KEY", DASHSCOPE)
    monkeypatch.setenv("PLUMBLINE_LLM_FALLBACKS", LIST)

    judges = resolve_judges(load_settings())

    assert list(judges) == ["default"]
    assert [(each.provider.name, each.model, each.api_key, each.context_tokens) for each in judges["default"]] == [
        ("dashscope", "qwen-plus", DASHSCOPE, 131_072),
        ("dashscope-intl", "qwen-plus", "first-key-0123456789", 131_072),
        ("vllm", "qwen3", "none", 4_096),
    ]


def test_further_judges_have_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUMBLINE_LLM_JUDGES", f'{{"strict": {LIST}, "quick-1": {LIST}}}')

    judges = resolve_judges(load_settings())

    assert {name: [each.provider.name for each in endpoints] for name, endpoints in judges.items()} == {
        "strict": ["dashscope-intl", "vllm"],
        "quick-1": ["dashscope-intl", "vllm"],
    }


def test_without_a_judge_there_are_no_chat_models() -> None:
    assert build_chat_models(Settings()) == {}


@pytest.mark.parametrize("name", ["default", "", "a b", "-a", "é", "x" * 65, "a/b"])
def test_a_name_that_no_request_can_write_is_refused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("PLUMBLINE_LLM_JUDGES", f'{{"{name}": {LIST}}}')

    with pytest.raises(ConfigurationError, match=r"^PLUMBLINE_LLM_JUDGES: a judge's name"):
        load_settings()


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [*load_cases("providers", "wrong_lists"), ("FALLBACKS", "[" * 100_000, "expected JSON")],
)
def test_a_wrong_list_is_named_by_its_place_and_not_shown(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, said: str
) -> None:
    monkeypatch.setenv(f"PLUMBLINE_LLM_{variable}", value)

    with pytest.raises(ConfigurationError) as refused:
        load_settings()

    assert str(refused.value).startswith(f"PLUMBLINE_LLM_{variable}: ")
    assert said in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(("entry", "said"), load_cases("providers", "lacking"))
def test_an_endpoint_that_lacks_something_is_named(monkeypatch: pytest.MonkeyPatch, entry: str, said: str) -> None:
    monkeypatch.setenv("PLUMBLINE_LLM_FALLBACKS", f"[{entry}]")

    with pytest.raises(ConfigurationError) as refused:
        resolve_judges(load_settings())

    assert str(refused.value).startswith(said)


def test_keys_of_lists_are_not_shown_by_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUMBLINE_LLM_FALLBACKS", LIST)
    monkeypatch.setenv("PLUMBLINE_LLM_JUDGES", f'{{"a": {LIST}}}')
    settings = load_settings()

    assert "first-key" not in f"{settings!r} {settings.model_dump_json()} {resolve_judges(settings)!r}"
