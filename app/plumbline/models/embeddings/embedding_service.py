"""The embeddings API of the settings (address, key, model, limits of its provider), and its replies."""

import base64
import binascii
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from plumbline.ground.errors import ConfigurationError, FailureReason
from plumbline.ground.settings import Settings
from plumbline.ground.texts import CodedText
from plumbline.models.chat.call_failures import CallFailure, embedded_failure
from plumbline.models.chat.completions import NO_TOKENS, ReportedTokens, TokenCounts
from plumbline.models.chat.endpoints import PROVIDERS, EmbeddingApi, Endpoint, Provider, build_endpoint
from plumbline.models.encoder.model_files import find_preset

_PATH: Final = "/embeddings"
_LOCAL_FIRST: Final = "local+"
_TEI: Final = Provider("tei", needs_key=False, embeddings=EmbeddingApi())


@dataclass(frozen=True, slots=True)
class EmbeddingService:
    endpoint: Endpoint
    api: EmbeddingApi
    max_tokens: int
    dimensions: int | None
    prefix: str
    languages: frozenset[str] | None
    is_fallback: bool = False

    @property
    def model(self) -> str:
        """Return the model's name in results; fewer dimensions have another, as they have calibrations of their own."""
        return f"{self.endpoint.model}@{self.dimensions}" if self.dimensions else self.endpoint.model

    @property
    def identity(self) -> str:
        return f"{self.endpoint.base_url}\n{self.model}\n{self.max_tokens}"

    def body(self, texts: list[str]) -> dict[str, object]:
        fields: dict[str, object] = {"model": self.endpoint.model, "input": texts}
        if self.api.encoding:
            fields["encoding_format"] = self.api.encoding
        if self.dimensions:
            fields["dimensions"] = self.dimensions
        return fields


def resolve_embedding_service(settings: Settings) -> EmbeddingService | None:
    """Return the embeddings API of the settings, None for a local model; raise ConfigurationError if one is missing."""
    name = settings.embedding_provider or ("generic" if settings.embedding_base_url else "local")
    if name == "local":
        if settings.embedding_base_url:
            raise ConfigurationError("PLUMBLINE_EMBEDDING_BASE_URL: of no use with PLUMBLINE_EMBEDDING_PROVIDER=local")
        return None
    is_fallback = name.startswith(_LOCAL_FIRST)
    provider = _TEI if name == "tei" else PROVIDERS[name.removeprefix(_LOCAL_FIRST)]
    api = provider.embeddings or EmbeddingApi()
    # The local model's are not the server's
    named, languages = (None, ()) if is_fallback else (settings.embedding_model, settings.embedding_languages)
    model = named or api.default_model
    names = ("PLUMBLINE_EMBEDDING_BASE_URL", "PLUMBLINE_EMBEDDING_MODEL", "PLUMBLINE_EMBEDDING_API_KEY")
    key = settings.embedding_api_key
    endpoint = build_endpoint(provider, settings.embedding_base_url, model, key, names=names, path=_PATH)
    preset = find_preset(endpoint.model)
    return EmbeddingService(
        endpoint,
        api,
        max_tokens=settings.embedding_max_tokens or api.max_tokens,
        dimensions=settings.embedding_dimensions,
        prefix=preset.prefix,
        languages=frozenset(languages) or preset.languages,
        is_fallback=is_fallback,
    )


_NUMBER_BYTES: Final = 4


class _Item(BaseModel):
    embedding: list[float] | str
    index: int | None = None


class _Body(BaseModel):
    model_config = ConfigDict(extra="ignore")
    data: list[_Item] | None = None
    tokens: ReportedTokens = Field(NO_TOKENS, validation_alias="usage")
    error: object = None


@dataclass(frozen=True, slots=True)
class EmbeddingsReply:
    body: _Body
    wanted: int
    dimensions: int | None

    is_truncated = False

    @property
    def tokens(self) -> TokenCounts:
        return self.body.tokens

    def reply(self, endpoint: Endpoint) -> NDArray[np.float32]:
        """Return one vector of length 1 for each text, in the texts' order: shape (texts, d); raise CallFailure."""
        data = self.body.data
        if not data and self.body.error:
            raise embedded_failure(self.body.error, endpoint)
        if data is None:
            raise _invalid(CodedText("embeddings_no_list"))
        if len(data) != self.wanted:
            raise _invalid(CodedText("embeddings_miscounted", found=len(data), wanted=self.wanted))
        item_by_number = {place if item.index is None else item.index: item for place, item in enumerate(data)}
        if set(item_by_number) != set(range(self.wanted)):
            raise _invalid(CodedText("embeddings_misnumbered"))
        found = [_numbers(item_by_number[number].embedding) for number in range(self.wanted)]
        if len(sizes := {len(vector) for vector in found}) != 1:
            raise _invalid(CodedText("embeddings_of_several_sizes"))
        (size,) = sizes
        if not size or (self.dimensions and size != self.dimensions):
            raise _invalid(CodedText("embeddings_of_wrong_size", found=size, wanted=self.dimensions or 1))
        vectors = np.stack(found)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not (np.isfinite(lengths).all() and lengths.all()):
            raise _invalid(CodedText("embeddings_no_numbers"))
        return np.asarray(vectors / lengths, dtype=np.float32)


def parse_embeddings(body: bytes, *, wanted: int, dimensions: int | None) -> EmbeddingsReply:
    """Parse the reply on `wanted` texts, of `dimensions` or any; raise CallFailure if it is no list of embeddings."""
    try:
        return EmbeddingsReply(_Body.model_validate_json(body), wanted, dimensions)
    except ValidationError as error:
        raise _invalid(CodedText("embeddings_no_list")) from error


def _numbers(embedding: list[float] | str) -> NDArray[np.float64]:
    if not isinstance(embedding, str):
        return np.array(embedding, dtype=np.float64)
    try:
        data = base64.b64decode(embedding, validate=True)
    except binascii.Error as error:
        raise _invalid(CodedText("embeddings_no_base64")) from error
    if len(data) % _NUMBER_BYTES:
        raise _invalid(CodedText("embeddings_cut"))
    return np.frombuffer(data, dtype="<f4").astype(np.float64)


def _invalid(flaw: CodedText) -> CallFailure:
    return CallFailure(FailureReason.INVALID_REPLY, flaw)
