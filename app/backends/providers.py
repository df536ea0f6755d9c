"""What each provider of chat models wants, by name. Addresses and manners only; the client is `chat`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from app.errors import ConfigurationError
from app.settings import Settings


@dataclass(frozen=True, slots=True)
class Provider:
    """The manners of one provider.

    `json_mode`: it takes `response_format={"type": "json_object"}`. `extra_body`: fields beyond OpenAI's, sent to
    this provider alone. `token_limit`: the name of its limit on output tokens. `temperature`: None where models
    refuse one.
    """

    name: str
    base_url: str | None
    default_model: str | None
    json_mode: bool
    temperature: float | None = 0.0
    token_limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"  # noqa: S105 - a parameter's name
    extra_body: Mapping[str, object] = field(default_factory=dict)


def _dashscope(name: str, base_url: str) -> Provider:
    # Qwen 3.5 and later think unless told not to, and JSON mode and thinking exclude each other there.
    return Provider(name, base_url, "qwen-plus", json_mode=True, extra_body={"enable_thinking": False})


PROVIDERS: Mapping[str, Provider] = {
    "dashscope": _dashscope("dashscope", "https://dashscope.aliyuncs.com/compatible-mode/v1"),
    "dashscope-intl": _dashscope("dashscope-intl", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1"),
    # Its reasoning models refuse a temperature and count output under the newer name.
    "openai": Provider(
        "openai",
        "https://api.openai.com/v1",
        None,
        json_mode=True,
        temperature=None,
        token_limit="max_completion_tokens",  # noqa: S106 - a parameter's name
    ),
    # Nothing is assumed of a server that is not named: no JSON mode, no field beyond the oldest ones.
    "generic": Provider("generic", None, None, json_mode=False),
}
# Servers on one's own machine often take no key, and the SDK insists on one.
_NO_KEY = "none"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A provider with the address, key and model to use there. The key stays out of `repr`."""

    provider: Provider
    base_url: str
    model: str
    api_key: str = field(repr=False)

    @property
    def host(self) -> str:
        return urlsplit(self.base_url).netloc.rpartition("@")[2]


def resolve_endpoint(settings: Settings) -> Endpoint | None:
    """The endpoint that the settings ask for; None when no judge is configured.

    Raises:
        ConfigurationError: a key without the base URL or model that the provider needs.
    """
    provider = PROVIDERS[settings.llm_provider]
    base_url = settings.llm_base_url or provider.base_url
    key = _key(settings)
    if key is None:
        if provider.name != "generic" or base_url is None:
            return None
        key = _NO_KEY
    if base_url is None:
        raise ConfigurationError("PLUMBLINE_LLM_BASE_URL: needed with the provider 'generic'")
    if not _is_http_url(base_url):
        raise ConfigurationError("PLUMBLINE_LLM_BASE_URL: expected a URL such as https://host/v1")
    model = settings.llm_model or provider.default_model
    if model is None:
        raise ConfigurationError(f"PLUMBLINE_LLM_MODEL: needed with the provider {provider.name!r}")
    if not (key.isascii() and key.isprintable()):
        raise ConfigurationError("the judge's key holds characters that no HTTP header can carry")
    return Endpoint(provider, base_url, model, key)


def _is_http_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def _key(settings: Settings) -> str | None:
    """The judge's own key, or DashScope's where the provider is DashScope: never one vendor's key to another."""
    keys = [settings.llm_api_key]
    if settings.llm_provider.startswith("dashscope"):
        keys.append(settings.dashscope_api_key)
    return next((text for key in keys if key and (text := key.get_secret_value().strip())), None)
