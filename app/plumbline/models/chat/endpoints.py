"""Providers of chat models, and the endpoints (address, key, model) that the settings name."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal
from urllib.parse import urlsplit

from pydantic import SecretStr, TypeAdapter

from plumbline.ground.errors import ConfigurationError
from plumbline.ground.judge_settings import DEFAULT_JUDGE, JudgeKind, LlmEndpoint
from plumbline.ground.phrases import load_data
from plumbline.ground.settings import Settings

Structure = Literal["json_schema", "json_object", "plain"]
TokenLimit = Literal["max_tokens", "max_completion_tokens"]


@dataclass(frozen=True, slots=True)
class EmbeddingApi:
    """Properties of one provider's embeddings API.

    `batch_size`: most texts of a call; 32 is what text-embeddings-inference takes. `max_tokens`: of a text; beyond it
    some refuse the call, and others cut silently. `encoding`: asked for; Base64 is a quarter of the bytes.
    """

    default_model: str | None = None
    batch_size: int = 32
    max_tokens: int = 512
    encoding: Literal["float", "base64"] | None = None


@dataclass(frozen=True, slots=True)
class DecisionApi:
    """Properties of one provider's API of decision models.

    `questions`: most of one request, as the provider advises; 16 is the least that one names. `context_tokens`: None
    where a chat model's are meant. `has_breakpoints`: its prompt cache takes a mark behind what requests share.
    """

    kind: JudgeKind = "systemone"
    default_model: str | None = None
    questions: int = 16
    context_tokens: int | None = None
    has_breakpoints: bool = False


@dataclass(frozen=True, slots=True)
class Provider:
    """Properties of one provider's API.

    Args:
        key_variable: the vendor's own environment variable, read where an endpoint has no key.
        structure: the strictest form of reply that is tried first.
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
    takes_temperature: bool = True
    token_limit: TokenLimit = "max_tokens"  # noqa: S105 - a parameter's name
    thinking_off: Mapping[str, object] = field(default_factory=dict, hash=False)
    needs_key: bool = True
    context_tokens: int = 32_768
    enumerates_ids: bool = False
    quota_is_throttle: bool = False
    embeddings: EmbeddingApi | None = None
    decisions: DecisionApi = field(default_factory=DecisionApi)


PROVIDERS: Final[Mapping[str, Provider]] = TypeAdapter(dict[str, Provider]).validate_python(
    {name: {"name": name, **fields} for name, fields in load_data("models/chat/providers").items()}
)


# Servers on one's own machine often take no key, and some proxies in front of them insist on one.
NO_KEY = "none"
# Calls in flight to a server of vectors or of a detector; one that allows fewer answers 429, which is waited for.
MAX_MODEL_CALLS: Final = 8
CHAT_PATH = "/chat/completions"
DECISIONS_PATH: Final = "/decisions"
# The operation that a judge of each kind is asked with.
PATHS: Final[Mapping[JudgeKind, str]] = {"chat": CHAT_PATH, "decisions": DECISIONS_PATH, "systemone": "/systemone"}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A provider with an address, key and model. The key stays out of `repr`; `path` follows the base URL's own.

    `api`: what it is asked with; None: with chat completions, until it refuses them and names another.
    """

    provider: Provider
    base_url: str
    model: str
    api_key: str = field(repr=False)
    context_tokens: int = 32_768
    path: str = CHAT_PATH
    api: JudgeKind | None = None
    extra_headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    extra_body: Mapping[str, object] = field(default_factory=dict, hash=False)

    @property
    def host(self) -> str:
        return urlsplit(self.base_url).netloc.rpartition("@")[2]

    @property
    def place(self) -> str:
        """Return provider, model and host in one line, without the key."""
        return f"{self.provider.name}: {self.model} at {self.host}"

    @property
    def variant(self) -> str:
        """Return a digest of the extra fields of its requests, which change its answers; empty without any."""
        if not self.extra_body:
            return ""
        return hashlib.sha256(json.dumps(self.extra_body, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def secrets(self) -> tuple[str, ...]:
        return (*((self.api_key,) if self.api_key != NO_KEY else ()), *(value for _, value in self.extra_headers))


def resolve_judges(settings: Settings) -> dict[str, tuple[Endpoint, ...]]:
    """Return the endpoints of every judge by its name, the preferred one first; raise ConfigurationError."""
    first = resolve_endpoint(settings)
    default = ((first,) if first else ()) + _resolve_list(settings.llm_fallbacks, "PLUMBLINE_LLM_FALLBACKS", settings)
    named = (settings.llm_judges or {}).items()
    others = {name: _resolve_list(entries, f"PLUMBLINE_LLM_JUDGES: {name}", settings) for name, entries in named}
    return {**({DEFAULT_JUDGE: default} if default else {}), **others}


def resolve_endpoint(settings: Settings) -> Endpoint | None:
    """Return the endpoint of the simple settings, None if they name no judge; raise ConfigurationError."""
    provider = PROVIDERS[settings.llm_provider]
    entry = LlmEndpoint(
        provider=settings.llm_provider,
        base_url=settings.llm_base_url,
        api_key=settings.llm_api_key,
        model=settings.llm_model,
        api=settings.llm_api,
        extra_headers=settings.llm_extra_headers or {},
        extra_body=settings.llm_extra_body or {},
    )
    has_place = not provider.needs_key and (entry.base_url or provider.base_url) is not None
    if find_key(entry.api_key, provider) is None and not has_place:
        return None
    return _resolve(entry, settings, "PLUMBLINE_LLM_BASE_URL", "PLUMBLINE_LLM_MODEL", "PLUMBLINE_LLM_API_KEY")


def _resolve_list(entries: tuple[LlmEndpoint, ...], variable: str, settings: Settings) -> tuple[Endpoint, ...]:
    return tuple(
        _resolve(entry, settings, *(f"{variable}: {i}.{name}" for name in ("base_url", "model", "api_key")))
        for i, entry in enumerate(entries)
    )


def _resolve(entry: LlmEndpoint, settings: Settings, url_name: str, model_name: str, key_name: str) -> Endpoint:
    provider = PROVIDERS[entry.provider]
    is_decision = entry.api not in (None, "chat")
    model = entry.model or (provider.decisions if is_decision else provider).default_model
    names = (url_name, model_name, key_name)
    endpoint = build_endpoint(provider, entry.base_url, model, entry.api_key, names=names)
    usual = (provider.decisions.context_tokens if is_decision else None) or provider.context_tokens
    context_tokens = entry.context_tokens or settings.llm_context_tokens or usual
    headers = tuple((name, value.get_secret_value()) for name, value in entry.extra_headers.items())
    extra_body = dict(entry.extra_body)
    return replace(endpoint, context_tokens=context_tokens, api=entry.api, extra_headers=headers, extra_body=extra_body)


def build_endpoint(
    provider: Provider,
    base_url: str | None,
    model: str | None,
    key: SecretStr | None,
    *,
    names: tuple[str, str, str],
    path: str = CHAT_PATH,
) -> Endpoint:
    """Build an endpoint; `names` are its settings of base URL, model and key, for ConfigurationError."""
    base_url = base_url or provider.base_url
    secret = find_key(key, provider) or (None if provider.needs_key else NO_KEY)
    if base_url is not None:
        check_http_url(base_url, names[0])
    if base_url is None or model is None or secret is None:
        name = next(name for name, value in zip(names, (base_url, model, secret), strict=True) if value is None)
        raise ConfigurationError(f"{name}: needed with the provider {provider.name!r}")
    check_key(secret, names[2])
    return Endpoint(provider, base_url, model, secret, path=path)


def check_http_url(text: str, variable: str) -> None:
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
