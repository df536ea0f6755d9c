"""Where chat models are: addresses, keys and models, as the settings name them. No request can name one."""

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from plumbline.ground.errors import ConfigurationError
from plumbline.ground.settings import DEFAULT_JUDGE, LlmEndpoint, Settings
from plumbline.models.chat.providers import PROVIDERS, Provider

# Servers on one's own machine often take no key, and the SDK insists on one.
_NO_KEY = "none"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A provider with the address, key and model to use there. The key stays out of `repr`."""

    provider: Provider
    base_url: str
    model: str
    api_key: str = field(repr=False)
    context_tokens: int = 32_768

    @property
    def host(self) -> str:
        return urlsplit(self.base_url).netloc.rpartition("@")[2]

    @property
    def place(self) -> str:
        """Provider, model and host in one line, without a key."""
        return f"{self.provider.name}: {self.model} at {self.host}"


def resolve_judges(settings: Settings) -> dict[str, tuple[Endpoint, ...]]:
    """The endpoints of every judge by its name, the preferred one first; empty when no judge is configured.

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
    """The endpoint of the simple settings; None when they name no judge.

    Raises:
        ConfigurationError: a key without the base URL or model that the provider needs.
    """
    provider = PROVIDERS[settings.llm_provider]
    entry = LlmEndpoint(
        provider=settings.llm_provider,
        base_url=settings.llm_base_url,
        api_key=settings.llm_api_key,
        model=settings.llm_model,
    )
    if _key(entry, settings) is None and (provider.needs_key or settings.llm_base_url is None):
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
    if not _is_http_url(base_url):
        raise ConfigurationError(f"{url_name}: expected a URL such as https://host/v1")
    model = entry.model or provider.default_model
    if model is None:
        raise ConfigurationError(f"{model_name}: needed with the provider {provider.name!r}")
    key = _key(entry, settings)
    if key is None:
        if provider.needs_key:
            raise ConfigurationError(f"{key_name}: needed with the provider {provider.name!r}")
        key = _NO_KEY
    if not (key.isascii() and key.isprintable()):
        raise ConfigurationError(f"{key_name}: the judge's key holds characters that no HTTP header can carry")
    context_tokens = entry.context_tokens or settings.llm_context_tokens or provider.context_tokens
    return Endpoint(provider, base_url, model, key, context_tokens)


def _is_http_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def _key(entry: LlmEndpoint, settings: Settings) -> str | None:
    """The endpoint's own key, or DashScope's where the provider is DashScope: never one vendor's key to another."""
    keys = [entry.api_key]
    if entry.provider.startswith("dashscope"):
        keys.append(settings.dashscope_api_key)
    return next((text for key in keys if key and (text := key.get_secret_value().strip())), None)
