"""Providers of chat models, and the endpoints (address, key, model) that the settings name."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import urlsplit

from pydantic import SecretStr

from plumbline.ground.errors import ConfigurationError
from plumbline.ground.judge_settings import DEFAULT_JUDGE, LlmEndpoint
from plumbline.ground.settings import Settings

Structure = Literal["json_schema", "json_object", "plain"]
TokenLimit = Literal["max_tokens", "max_completion_tokens"]


@dataclass(frozen=True, slots=True)
class Provider:
    """Properties of one provider's API.

    Args:
        base_url: None where everybody has their own.
        default_model: None where none can be assumed.
        key_variable: the vendor's own environment variable, read where an endpoint has no key.
        structure: the strictest form of reply that is tried first; what the model refuses is not asked for again.
        temperature: None where models refuse one.
        token_limit: the name of its limit on output tokens.
        thinking_off: fields beyond OpenAI's that keep a model from thinking, sent to this provider alone.
        needs_key: False for servers on one's own machine, which often take none.
        context_tokens: of a request and its reply together, unless the settings say otherwise.
        enumerates_ids: the schema of each request names the ids in it. The server compiles each in milliseconds; APIs
            that take seconds for a new one are sent the same for all.
        quota_is_throttle: its `insufficient_quota` passes within the minute; elsewhere it means an unpaid bill.
    """

    name: str
    base_url: str | None = None
    default_model: str | None = None
    key_variable: str | None = None
    structure: Structure = "plain"
    temperature: float | None = 0.0
    token_limit: TokenLimit = "max_tokens"  # noqa: S105 - a parameter's name
    thinking_off: Mapping[str, object] = field(default_factory=dict, hash=False)
    needs_key: bool = True
    context_tokens: int = 32_768
    enumerates_ids: bool = False
    quota_is_throttle: bool = False


def _dashscope(name: str, base_url: str) -> Provider:
    # Qwen 3.5 and later think unless told not to, and JSON mode and thinking exclude each other there. Schemas work on
    # a short, changing list of models, and degrade silently on others.
    return Provider(
        name,
        base_url,
        "qwen-plus",
        "DASHSCOPE_API_KEY",
        structure="json_object",
        thinking_off={"enable_thinking": False},
        context_tokens=131_072,
        quota_is_throttle=True,
    )


def _openai(name: str, key_variable: str, base_url: str | None = None, default_model: str | None = None) -> Provider:
    # Its reasoning models refuse a temperature and count output under the newer name.
    return Provider(
        name,
        base_url,
        default_model,
        key_variable,
        structure="json_schema",
        temperature=None,
        token_limit="max_completion_tokens",  # noqa: S106 - a parameter's name
        context_tokens=128_000,
    )


def _local(name: str, *, context_tokens: int) -> Provider:
    return Provider(
        name,
        structure="json_schema",
        enumerates_ids=True,
        thinking_off={"chat_template_kwargs": {"enable_thinking": False}},
        needs_key=False,
        context_tokens=context_tokens,
    )


_PROVIDERS = (
    _dashscope("dashscope", "https://dashscope.aliyuncs.com/compatible-mode/v1"),
    _dashscope("dashscope-intl", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1"),
    _openai("openai", "OPENAI_API_KEY", "https://api.openai.com/v1", "gpt-4.1-mini"),
    # Its v1 API, https://<resource>.openai.azure.com/openai/v1: the key as a bearer, no api-version.
    _openai("azure", "AZURE_OPENAI_API_KEY"),
    # Addresses and models as the vendors document them; forms that a model refuses are not asked for again.
    Provider(
        "deepseek",
        "https://api.deepseek.com/v1",
        "deepseek-chat",
        "DEEPSEEK_API_KEY",
        structure="json_object",
        context_tokens=65_536,
    ),
    Provider(
        "gemini",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        "gemini-2.5-flash",
        "GEMINI_API_KEY",
        structure="json_schema",
        thinking_off={"reasoning_effort": "none"},
        context_tokens=131_072,
    ),
    Provider("moonshot", "https://api.moonshot.cn/v1", "moonshot-v1-32k", "MOONSHOT_API_KEY", structure="json_object"),
    Provider(
        "zhipu",
        "https://open.bigmodel.cn/api/paas/v4",
        "glm-4.5-air",
        "ZHIPUAI_API_KEY",
        structure="json_object",
        thinking_off={"thinking": {"type": "disabled"}},
        context_tokens=131_072,
    ),
    _openai("openrouter", "OPENROUTER_API_KEY", "https://openrouter.ai/api/v1", "openai/gpt-4.1-mini"),
    Provider(
        "siliconflow",
        "https://api.siliconflow.cn/v1",
        "Qwen/Qwen2.5-72B-Instruct",
        "SILICONFLOW_API_KEY",
        structure="json_object",
    ),
    _local("vllm", context_tokens=32_768),
    _local("llamacpp", context_tokens=8_192),
    # Its compatible API documents JSON mode and takes no `think`; a longer prompt than it was started for is cut
    # without a word.
    Provider(
        "ollama",
        "http://127.0.0.1:11434/v1",
        structure="json_object",
        thinking_off={"reasoning_effort": "none"},
        needs_key=False,
        context_tokens=8_192,
    ),
    # Nothing is assumed of a server that is not named: no JSON mode, no field beyond the oldest ones.
    Provider("generic", needs_key=False),
)
PROVIDERS: Mapping[str, Provider] = {provider.name: provider for provider in _PROVIDERS}


# Servers on one's own machine often take no key, and some proxies in front of them insist on one.
NO_KEY = "none"
# Calls in flight to a server of vectors or of a detector; one that allows fewer answers 429, which is waited for.
MAX_MODEL_CALLS: Final = 8
CHAT_PATH = "/chat/completions"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A provider with an address, key and model. The key stays out of `repr`; `path` follows the base URL's own."""

    provider: Provider
    base_url: str
    model: str
    api_key: str = field(repr=False)
    context_tokens: int = 32_768
    path: str = CHAT_PATH
    extra_headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    extra_body: Mapping[str, object] = field(default_factory=dict, hash=False)

    @property
    def host(self) -> str:
        return urlsplit(self.base_url).netloc.rpartition("@")[2]

    @property
    def place(self) -> str:
        """Provider, model and host in one line, without the key."""
        return f"{self.provider.name}: {self.model} at {self.host}"

    @property
    def variant(self) -> str:
        """A digest of the extra fields of its requests, which change its answers; empty without any."""
        if not self.extra_body:
            return ""
        return hashlib.sha256(json.dumps(self.extra_body, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def secrets(self) -> tuple[str, ...]:
        """The key and the values of the extra headers."""
        return (*((self.api_key,) if self.api_key != NO_KEY else ()), *(value for _, value in self.extra_headers))


def resolve_judges(settings: Settings) -> dict[str, tuple[Endpoint, ...]]:
    """Return the endpoints of every judge by its name, the preferred one first; empty if no judge is configured.

    Raises:
        ConfigurationError: an endpoint without the base URL, key or model that its provider needs.
    """
    judges: dict[str, tuple[Endpoint, ...]] = {}
    first = resolve_endpoint(settings)
    fallbacks = _listed(settings.llm_fallbacks, "PLUMBLINE_LLM_FALLBACKS", settings)
    if first is not None or fallbacks:
        judges[DEFAULT_JUDGE] = ((first,) if first else ()) + fallbacks
    for name, entries in (settings.llm_judges or {}).items():
        judges[name] = _listed(entries, f"PLUMBLINE_LLM_JUDGES: {name}", settings)
    return judges


def resolve_endpoint(settings: Settings) -> Endpoint | None:
    """Return the endpoint of the simple settings; None if they name no judge.

    Raises:
        ConfigurationError: a key without the base URL or model that the provider needs.
    """
    provider = PROVIDERS[settings.llm_provider]
    entry = LlmEndpoint(
        provider=settings.llm_provider,
        base_url=settings.llm_base_url,
        api_key=settings.llm_api_key,
        model=settings.llm_model,
        extra_headers=settings.llm_extra_headers or {},
        extra_body=settings.llm_extra_body or {},
    )
    if find_key(entry.api_key, provider) is None and (
        provider.needs_key or (entry.base_url or provider.base_url) is None
    ):
        return None
    return _resolve(entry, settings, "PLUMBLINE_LLM_BASE_URL", "PLUMBLINE_LLM_MODEL", "PLUMBLINE_LLM_API_KEY")


def _listed(entries: tuple[LlmEndpoint, ...], variable: str, settings: Settings) -> tuple[Endpoint, ...]:
    return tuple(
        _resolve(entry, settings, *(f"{variable}: {i}.{name}" for name in ("base_url", "model", "api_key")))
        for i, entry in enumerate(entries)
    )


def _resolve(entry: LlmEndpoint, settings: Settings, url_name: str, model_name: str, key_name: str) -> Endpoint:
    provider = PROVIDERS[entry.provider]
    base_url = entry.base_url or provider.base_url
    if base_url is None:
        raise ConfigurationError(f"{url_name}: needed with the provider {provider.name!r}")
    check_http_url(base_url, url_name)
    model = entry.model or provider.default_model
    if model is None:
        raise ConfigurationError(f"{model_name}: needed with the provider {provider.name!r}")
    key = find_key(entry.api_key, provider)
    if key is None:
        if provider.needs_key:
            raise ConfigurationError(f"{key_name}: needed with the provider {provider.name!r}")
        key = NO_KEY
    check_key(key, key_name)
    context_tokens = entry.context_tokens or settings.llm_context_tokens or provider.context_tokens
    headers = tuple((name, value.get_secret_value()) for name, value in entry.extra_headers.items())
    return Endpoint(
        provider, base_url, model, key, context_tokens, extra_headers=headers, extra_body=dict(entry.extra_body)
    )


def check_http_url(text: str, variable: str) -> None:
    """Raise ConfigurationError unless the text is a URL with a host."""
    try:
        parts = urlsplit(text)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError(f"{variable}: expected a URL such as https://host/v1")


def check_key(key: str, variable: str) -> None:
    """Raise ConfigurationError if no HTTP header can carry the key."""
    if not (key.isascii() and key.isprintable()):
        raise ConfigurationError(f"{variable}: the key holds characters that no HTTP header can carry")


def find_key(own: SecretStr | None, provider: Provider) -> str | None:
    """Return the endpoint's own key, or that of its vendor's variable: never one vendor's key to another."""
    vendors = os.environ.get(provider.key_variable, "") if provider.key_variable else ""
    return (own.get_secret_value().strip() if own else "") or vendors.strip() or None
