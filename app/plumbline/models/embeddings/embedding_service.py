"""The embeddings API of the settings: address, key, model, and the limits of its provider."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from plumbline.ground.errors import ConfigurationError
from plumbline.ground.settings import Settings
from plumbline.models.chat.endpoints import NO_KEY, PROVIDERS, Endpoint, Provider, check_http_url, check_key, find_key
from plumbline.models.encoder.model_presets import find_preset

_PATH: Final = "/embeddings"
_TEI: Final = Provider("tei", needs_key=False)


@dataclass(frozen=True, slots=True)
class EmbeddingApi:
    """Properties of one provider's embeddings API.

    Args:
        default_model: None where none can be assumed.
        batch_size: most texts of a call.
        max_tokens: most tokens of a text; beyond it some refuse the call, and others cut without a word.
        encoding: of the vectors, asked for; None where the field is not sent. Base64 is a quarter of the bytes.
    """

    default_model: str | None = None
    batch_size: int = 32
    max_tokens: int = 512
    encoding: Literal["float", "base64"] | None = None


_DASHSCOPE = EmbeddingApi("text-embedding-v4", batch_size=10, max_tokens=8_192, encoding="float")
_APIS: Mapping[str, EmbeddingApi] = {
    "dashscope": _DASHSCOPE,
    "dashscope-intl": _DASHSCOPE,
    "openai": EmbeddingApi("text-embedding-3-small", batch_size=256, max_tokens=8_191, encoding="base64"),
    "azure": EmbeddingApi(batch_size=256, max_tokens=8_191, encoding="base64"),
    "vllm": EmbeddingApi(batch_size=64, encoding="base64"),
    # Its own bound on a client's batch is 32.
    "tei": EmbeddingApi(),
    "llamacpp": EmbeddingApi(),
    "ollama": EmbeddingApi(),
    "generic": EmbeddingApi(),
}


@dataclass(frozen=True, slots=True)
class EmbeddingService:
    """An endpoint that makes vectors, and how it is asked."""

    endpoint: Endpoint
    batch_size: int
    max_tokens: int
    encoding: Literal["float", "base64"] | None
    dimensions: int | None
    prefix: str
    languages: frozenset[str] | None

    @property
    def model(self) -> str:
        """Return the model's name in results; fewer dimensions have another, as they have calibrations of their own."""
        return f"{self.endpoint.model}@{self.dimensions}" if self.dimensions else self.endpoint.model

    @property
    def identity(self) -> str:
        """Return what decides the vector of a text."""
        return f"{self.endpoint.base_url}\n{self.model}\n{self.max_tokens}"

    def body(self, texts: list[str]) -> dict[str, object]:
        """Build the body of a request."""
        fields: dict[str, object] = {"model": self.endpoint.model, "input": texts}
        if self.encoding:
            fields["encoding_format"] = self.encoding
        if self.dimensions:
            fields["dimensions"] = self.dimensions
        return fields


def resolve_embedding_service(settings: Settings) -> EmbeddingService | None:
    """Return the embeddings API of the settings; None where a local model makes the vectors.

    Raises:
        ConfigurationError: the base URL, key or model that its provider needs is missing or wrong.
    """
    name = settings.embedding_provider or ("generic" if settings.embedding_base_url else "local")
    if name == "local":
        if settings.embedding_base_url:
            raise ConfigurationError("PLUMBLINE_EMBEDDING_BASE_URL: of no use with PLUMBLINE_EMBEDDING_PROVIDER=local")
        return None
    provider = _TEI if name == "tei" else PROVIDERS[name]
    api = _APIS[name]
    base_url = settings.embedding_base_url or provider.base_url
    if base_url is None:
        raise ConfigurationError(f"PLUMBLINE_EMBEDDING_BASE_URL: needed with the provider {name!r}")
    check_http_url(base_url, "PLUMBLINE_EMBEDDING_BASE_URL")
    model = settings.embedding_model or api.default_model
    if model is None:
        raise ConfigurationError(f"PLUMBLINE_EMBEDDING_MODEL: needed with the provider {name!r}")
    key = find_key(settings.embedding_api_key, provider.name, settings)
    if key is None and provider.needs_key:
        raise ConfigurationError(f"PLUMBLINE_EMBEDDING_API_KEY: needed with the provider {name!r}")
    check_key(key or NO_KEY, "PLUMBLINE_EMBEDDING_API_KEY")
    preset = find_preset(model)
    return EmbeddingService(
        Endpoint(provider, base_url, model, key or NO_KEY, path=_PATH),
        batch_size=settings.embedding_batch_size or api.batch_size,
        max_tokens=settings.embedding_max_tokens or api.max_tokens,
        encoding=api.encoding,
        dimensions=settings.embedding_dimensions,
        prefix=preset.prefix,
        languages=frozenset(settings.embedding_languages) or preset.languages,
    )
