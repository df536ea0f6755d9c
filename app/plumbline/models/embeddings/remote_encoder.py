"""The sentence encoder behind an embeddings API: one vector for each text, in batches, and cached."""

import asyncio
import base64
import binascii
import hashlib
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field, ValidationError

from plumbline.ground.concurrency import end_tasks
from plumbline.ground.errors import ConfigurationError, FailureReason, TierFailure
from plumbline.ground.settings import Settings
from plumbline.ground.texts import CodedText
from plumbline.judging.ports.exchange import Ledger, estimate_tokens
from plumbline.judging.ports.observation import NULL_OBSERVER, Observer, Readiness, State
from plumbline.judging.ports.token_vectors import EncoderCounts, TokenizedTexts, TokenVectors
from plumbline.models.chat.call_failures import CallFailure, embedded_failure
from plumbline.models.chat.completions import NO_TOKENS, ReportedTokens, TokenCounts
from plumbline.models.chat.endpoints import PROVIDERS, EmbeddingApi, Endpoint, Provider, build_endpoint
from plumbline.models.chat.resilient_endpoint import ApiRequest, ResilientEndpoint, RetryPolicy, attend_server
from plumbline.models.encoder.model_files import find_preset
from plumbline.models.encoder.packing import CACHE_BYTES, HalfVectors, build_vector_cache, make_key

_PATH: Final = "/embeddings"
_LOCAL_FIRST: Final = "local+"
_TEI: Final = Provider("tei", needs_key=False, embeddings=EmbeddingApi())


@dataclass(frozen=True, slots=True)
class EmbeddingService:
    endpoint: Endpoint
    api: EmbeddingApi
    max_tokens: int
    prefix: str
    languages: frozenset[str] | None
    is_fallback: bool = False

    @property
    def identity(self) -> str:
        return f"{self.endpoint.base_url}\n{self.endpoint.model}\n{self.max_tokens}"

    def body(self, texts: list[str]) -> dict[str, object]:
        fields: dict[str, object] = {"model": self.endpoint.model, "input": texts}
        if self.api.encoding:
            fields["encoding_format"] = self.api.encoding
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
        prefix=preset.prefix,
        languages=frozenset(languages) or preset.languages,
        is_fallback=is_fallback,
    )


_NUMBER_BYTES: Final = 4


class _Item(BaseModel):
    embedding: list[float] | str
    index: int | None = None


class _Body(BaseModel):
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


# The texts have names of fields and brackets around them.
_FRAME_TOKENS: Final = 16
# It bounds the wait for one batch, retries included.
_TIMEOUT_SECONDS: Final = 10.0


def build_remote_encoder(
    service: EmbeddingService,
    settings: Settings,
    policy: RetryPolicy | None = None,
    *,
    timeout_seconds: float = _TIMEOUT_SECONDS,
    observer: Observer = NULL_OBSERVER,
) -> "RemoteEncoder":
    """Build the encoder of an embeddings API; `policy` replaces the limits of the settings."""
    endpoint = attend_server(service.endpoint, settings, policy=policy, observer=observer)
    cache_bytes = -(-CACHE_BYTES // settings.workers)
    return RemoteEncoder(service, endpoint, timeout_seconds=timeout_seconds, cache_bytes=cache_bytes)


class RemoteEncoder:
    """A `SentenceEncoder` with one vector for each text in place of one for each token. For one event loop.

    `timeout_seconds`: for one batch, retries included.
    """

    def __init__(
        self,
        service: EmbeddingService,
        endpoint: ResilientEndpoint,
        *,
        timeout_seconds: float,
        cache_bytes: int,
    ) -> None:
        self._service = service
        self.model, self.languages = service.endpoint.model, service.languages
        self._endpoint = endpoint
        self._timeout_seconds = timeout_seconds
        self._cache = build_vector_cache(cache_bytes)
        # Those of the first reply.
        self._dimensions: int | None = None
        self._failure: TierFailure | None = None
        self._counts: Counter[str] = Counter()

    async def warm_up(self) -> None:
        """Ask for one vector, so that a wrong key, address or model shows; a failure is kept for `readiness`."""
        try:
            await self.encode(await self.read(["warm"], seconds=0.0), seconds=self._timeout_seconds)
        except TierFailure as failure:
            self._failure = failure

    async def read(self, texts: Sequence[str], *, seconds: float) -> TokenizedTexts:
        """Return the texts as bytes, with the model's prefix, cut to what it reads by an estimate from above."""
        whole = [self._service.prefix + text for text in texts]
        read = [_cut(text, self._service.max_tokens) for text in whole]
        return TokenizedTexts(
            tokens=[list(text.encode()) for text in read],
            counts=[estimate_tokens(text) for text in whole],
            unknown=[0] * len(whole),
            is_overlong=[len(one) < len(other) for one, other in zip(read, whole, strict=True)],
        )

    async def encode(
        self,
        reading: TokenizedTexts,
        *,
        seconds: float,
        scope: str = "",
        ledger: Ledger | None = None,
    ) -> TokenVectors:
        """Return one vector for each text, as `SentenceEncoder.encode`; cached ones are not shared between scopes."""
        secret = hashlib.sha256(f"{scope}\n{self._service.identity}".encode()).digest()
        texts = {make_key(tokens, secret): bytes(tokens).decode() for tokens in reading.tokens}
        try:
            async with asyncio.timeout(max(0.0, seconds)) as limit:
                known = {key: half for key in texts if (half := self._cache.get(key)) is not None}
                new = {key: text for key, text in texts.items() if key not in known}
                self._counts.update(cache_hits=len(known), cache_misses=len(new))
                found = known | await self._fetch(new, time.monotonic() + seconds, ledger or Ledger())
        except TimeoutError:
            if not limit.expired():
                raise
            raise TierFailure(
                FailureReason.TIMEOUT, CodedText("host_sent_no_vectors", host=self._endpoint.endpoint.host)
            ) from None
        rows = [found[make_key(tokens, secret)] for tokens in reading.tokens]
        vectors = np.concatenate(rows, dtype=np.float32) if rows else np.empty((0, 0), dtype=np.float32)
        return TokenVectors(vectors, np.arange(len(rows) + 1))

    def counts(self) -> EncoderCounts:
        return EncoderCounts(**self._counts, cache_bytes=self._cache.bytes)

    def readiness(self) -> Readiness:
        """Return UNAVAILABLE while a breaker is open, or nothing has worked since the first call failed."""
        detail = self._endpoint.guard.describe()
        if self._failure is not None and not self._endpoint.guard.is_shut:
            detail = f"{detail}, {self._failure.detail}"
        size = f", {self._dimensions} dimensions" if self._dimensions else ""
        is_down = self._endpoint.guard.is_shut or self._failure is not None
        return Readiness(State.UNAVAILABLE if is_down else State.READY, f"{detail}{size}")

    async def aclose(self) -> None:
        await self._endpoint.close()

    async def _fetch(self, texts: Mapping[bytes, str], until: float, ledger: Ledger) -> dict[bytes, HalfVectors]:
        """Ask for all texts, in batches side by side; raise what the first batch raises that fails."""
        keys, size = list(texts), self._service.api.batch_size
        batches = [keys[start : start + size] for start in range(0, len(keys), size)]
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(self._ask({key: texts[key] for key in batch}, until, ledger)) for batch in batches]
        try:
            found = await asyncio.gather(*tasks)
        finally:
            await end_tasks(tasks)
        return {key: half for halves in found for key, half in halves.items()}

    async def _ask(self, texts: Mapping[bytes, str], until: float, ledger: Ledger) -> dict[bytes, HalfVectors]:
        sent = list(texts.values())
        prompt = sum(map(estimate_tokens, sent)) + _FRAME_TOKENS
        parse = partial(parse_embeddings, wanted=len(sent), dimensions=self._dimensions)
        seconds = max(0.0, min(self._timeout_seconds, until - time.monotonic()))
        request = ApiRequest(self._service.body(sent), parse, prompt)
        vectors = await self._endpoint.ask(request, seconds=seconds, ledger=ledger)
        self._failure = None
        self._dimensions = vectors.shape[1]
        self._counts.update(texts=len(sent), tokens=prompt)
        # Two dimensions: a vector is a text of one token.
        halves = dict(zip(texts, np.split(vectors.astype(np.float16), len(sent)), strict=True))
        for key, half in halves.items():
            self._cache.put(key, half)
        return halves


def _cut(text: str, tokens: int) -> str:
    while (found := estimate_tokens(text)) > tokens:
        text = text[: max(1, len(text) * tokens // found - 1)]
    return text
