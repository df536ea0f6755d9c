"""Detectors on a server, without torch: `/predict` of text-embeddings-inference, `/classify` of vLLM, chat models."""

import asyncio
import math
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Annotated, Final, Literal

from pydantic import AliasPath, BaseModel, Field, FiniteFloat, TypeAdapter, ValidationError

from plumbline.ground.errors import ConfigurationError, FailureReason, TierFailure
from plumbline.ground.settings import Settings
from plumbline.judging.ports.exchange import DetectorFinding, DetectorReading, Ledger, Passage, estimate_tokens
from plumbline.judging.ports.observation import NULL_OBSERVER, Observer, Readiness, State
from plumbline.models.chat.call_failures import CallFailure
from plumbline.models.chat.completions import Completion, TokenCounts, read_completion
from plumbline.models.chat.endpoint_guard import ModelHealth
from plumbline.models.chat.endpoints import CHAT_PATH, NO_KEY, Endpoint, Provider, check_http_url, check_key
from plumbline.models.chat.resilient_endpoint import ApiRequest, ResilientEndpoint, RetryPolicy, Tariff
from plumbline.models.detectors.description import Description, check_probe, resolve_labels
from plumbline.models.detectors.pair_reader import PairReader, estimating_tokenizer

_PROVIDER: Final = Provider("detector", needs_key=False)
_PREDICT: Final = "/predict"
# Of vLLM, where the URL ends so: one text each, and shares by the labels' numbers.
_CLASSIFY: Final = "/classify"
# The server's own bound on a client's batch.
_BATCH: Final = 32
_NUMBERED: Final = re.compile(r"LABEL_(\d+)")


class _Label(BaseModel):
    label: str
    score: FiniteFloat


class _Classified(BaseModel):
    index: int
    probs: list[Annotated[float, Field(ge=0, le=1.0001)]]


class _Classification(BaseModel):
    data: list[_Classified]


_REPLY: Final = TypeAdapter(list[list[_Label]])


@dataclass(frozen=True, slots=True)
class _Reply:
    body: list[list[_Label]]
    wanted: int

    tokens = TokenCounts()
    is_truncated = False

    def reply(self, endpoint: Endpoint) -> list[dict[str, float]]:
        """Return the share of each label by its name, one for each question."""
        if len(self.body) != self.wanted or not all(self.body):
            raise _invalid(f"has {len(self.body)} lists for {self.wanted} texts")
        return [{each.label: each.score for each in labels} for labels in self.body]


def build_remote_detector(
    description: Description, settings: Settings, url: str, *, observer: Observer = NULL_OBSERVER
) -> "RemoteDetector":
    """Build the detector behind a URL.

    Raises:
        ConfigurationError: the URL or key is none, or a server cannot run this kind of head.
    """
    if description.head != "sequence" or description.activation != "softmax" or description.over:
        raise ConfigurationError(
            f"PLUMBLINE_DETECTOR_URL: {description.name} cannot be read from a server; head `sequence` with all its "
            "labels can, and chat models"
        )
    base, is_classify = url.rstrip("/"), url.rstrip("/").endswith(_CLASSIFY)
    if is_classify and description.template is None:
        raise ConfigurationError(
            f"PLUMBLINE_DETECTOR_URL: {description.name} reads a pair of texts, and {_CLASSIFY} takes one; "
            "write `template` with the model's own separator between them"
        )
    path = _CLASSIFY if is_classify else _PREDICT
    return RemoteDetector(
        description, build_endpoint(description, settings, base.removesuffix(path), path, observer=observer)
    )


def build_endpoint(
    description: Description, settings: Settings, url: str, path: str, *, observer: Observer
) -> ResilientEndpoint:
    """Build the connection to a detector's server; raise ConfigurationError for a URL or key that is none."""
    check_http_url(url, "PLUMBLINE_DETECTOR_URL")
    key = settings.detector_api_key.get_secret_value() if settings.detector_api_key else NO_KEY
    check_key(key, "PLUMBLINE_DETECTOR_API_KEY")
    policy = RetryPolicy(
        max_concurrency=settings.embedding_max_concurrency, backoff_seconds=settings.llm_backoff_seconds
    )
    tariff = Tariff((settings.llm_prices or {}).get(description.model))
    at = Endpoint(_PROVIDER, url, description.model, key, path=path)
    return ResilientEndpoint(at, ModelHealth(_PROVIDER), tariff, policy, observer=observer)


class RemoteDetector:
    """A detector behind an endpoint, which retries, and rests where it fails. For one event loop."""

    def __init__(self, description: Description, endpoint: ResilientEndpoint) -> None:
        self._description = description
        self._endpoint = endpoint
        self._reader = PairReader(estimating_tokenizer(), description, specials=())
        self._proving = asyncio.Lock()
        self._is_proven = False
        self._failure: TierFailure | None = None
        self.model = description.name
        self.languages: frozenset[str] | None = frozenset(description.languages) or None
        self.unit: Literal["sentence", "answer"] = description.unit
        self.marks_words = description.marks_words

    def readiness(self) -> Readiness:
        """Return IDLE until the probe was answered, UNAVAILABLE where it was answered otherwise."""
        if self._failure is not None:
            return Readiness(State.UNAVAILABLE, self._failure.detail)
        state = State.UNAVAILABLE if self._endpoint.guard.is_shut else State.READY if self._is_proven else State.IDLE
        return Readiness(state, self._endpoint.guard.describe())

    async def aclose(self) -> None:
        await self._endpoint.close()

    async def warm_up(self, *, seconds: float = 30.0) -> None:
        """Ask the probe; a failure is told by `readiness` and the next request."""
        try:
            await self._prove(time.monotonic() + seconds)
        except TierFailure as failure:
            if self._failure is None and failure.reason is FailureReason.DETECTOR_PROBE_FAILED:
                self._failure = failure

    async def read(
        self,
        passages: Sequence[Passage],
        question: str,
        claims: Sequence[str],
        *,
        seconds: float,
        scope: str = "",
        can_wait: bool = False,
        ledger: Ledger | None = None,
    ) -> DetectorReading:
        """Return the support of each claim, as `LocalDetector.read`; nothing is kept, and `scope` has no effect.

        Calls of chat models are in the ledger; classifiers have no tokens to count.
        """
        until = time.monotonic() + seconds
        await self._prove(until)
        return await self._read(passages, question, claims, until, ledger or Ledger())

    async def _read(
        self, passages: Sequence[Passage], question: str, claims: Sequence[str], until: float, ledger: Ledger
    ) -> DetectorReading:
        kept = [self._reader.fit_claim(claim) for claim in claims]
        asked = [
            [self._description.premise(window, question, claim) for window in windows]
            for claim in kept
            for windows in [self._reader.windows(passages, question, claim)]
        ]
        findings = await self._findings(asked, kept, until, ledger)
        return DetectorReading(findings, 1.0 - sum(map(len, kept)) / max(1, sum(map(len, claims))))

    async def _findings(
        self, asked: Sequence[Sequence[tuple[str, str | None]]], claims: Sequence[str], until: float, ledger: Ledger
    ) -> list[DetectorFinding]:
        """Return the finding of each claim by its questions, one for each part of the premise."""
        texts = [[each for each in pair if each is not None] for pairs in asked for pair in pairs]
        batches = [texts[start : start + _BATCH] for start in range(0, len(texts), _BATCH)]
        replies = await asyncio.gather(*(self._ask(batch, until) for batch in batches))
        shares = iter([each for reply in replies for each in reply])
        findings = []
        for pairs in asked:
            read = [self._support(next(shares)) for _ in pairs]
            support, denied = max(each[0] for each in read), max(each[1] for each in read)
            findings.append(DetectorFinding(support, is_denied=denied > max(0.5, support)))
        return findings

    async def _ask(self, texts: Sequence[Sequence[str]], until: float) -> list[dict[str, float]]:
        def parse(body: bytes) -> _Reply:
            try:
                return _Reply(_classes(body) if is_classify else _REPLY.validate_json(body), len(texts))
            except ValidationError as error:
                raise _invalid("is no list of labels") from error

        is_classify = self._endpoint.endpoint.path == _CLASSIFY
        body: dict[str, object] = {"inputs": texts, "raw_scores": False, "truncate": False}
        if is_classify:
            body = {"model": self._endpoint.endpoint.model, "input": [text for text, *_ in texts]}
        request = ApiRequest(body, parse, sum(self._reader.count(text) for pair in texts for text in pair))
        return await self._endpoint.ask(request, seconds=max(0.0, until - time.monotonic()), ledger=Ledger())

    def _support(self, share_by_label: Mapping[str, float]) -> tuple[float, float]:
        """Return support and denial, both in [0, 1]; servers give labels by name, in any order."""
        numbered = {name: _NUMBERED.fullmatch(name) for name in share_by_label}
        if all(numbered.values()):
            names = {int(found[1]): name for name, found in numbered.items() if found}
        elif isinstance(self._description.positive, int):
            listed = ", ".join(share_by_label)
            raise TierFailure(
                FailureReason.INVALID_REPLY,
                f"{self.model} has labels by name ({listed}); write `positive` as one of them",
            )
        else:
            names = dict(enumerate(sorted(share_by_label)))
        try:
            labels = resolve_labels(self._description, names)
        except ConfigurationError as error:
            raise TierFailure(FailureReason.INVALID_REPLY, str(error)) from error
        found = share_by_label[names[labels.over[labels.positive]]]
        denied = 0.0 if labels.contradicted is None else share_by_label[names[labels.over[labels.contradicted]]]
        return 1.0 - found if labels.inverted else found, denied

    async def _prove(self, until: float) -> None:
        async with self._proving:
            if self._failure is not None:
                raise self._failure
            if self._is_proven:
                return
            for number, probe in enumerate(self._description.probe, start=1):
                passage = Passage(0, probe.premise, ((0, len(probe.premise)),))
                reading = await self._read([passage], probe.question, [probe.claim], until, Ledger())
                try:
                    check_probe(self._description, number, reading.findings[0].support)
                except TierFailure as failure:
                    self._failure = failure
                    raise
            self._is_proven = True


def _invalid(what: str) -> CallFailure:
    return CallFailure(FailureReason.INVALID_REPLY, f"the detector's reply {what}")


def _classes(body: bytes) -> list[list[_Label]]:
    """Return the shares by the labels' numbers, one list for each text, in order."""
    data = sorted(_Classification.model_validate_json(body).data, key=lambda each: each.index)
    return [[_Label(label=f"LABEL_{number}", score=share) for number, share in enumerate(each.probs)] for each in data]


_TOP_LOGPROBS: Final = 5
_FENCE: Final = re.compile(r"```(?:json)?\s*(.*?)\s*```", re.DOTALL)


class _Candidate(BaseModel):
    token: str
    logprob: FiniteFloat = Field(le=0.0)


class _FirstToken(BaseModel):
    candidates: list[_Candidate] = Field(
        min_length=1, validation_alias=AliasPath("choices", 0, "logprobs", "content", 0, "top_logprobs")
    )


class _Span(BaseModel):
    text: str = Field(min_length=1)


class _Spans(BaseModel):
    hallucinated_spans: list[_Span]


def build_chat_detector(
    description: Description, settings: Settings, url: str, *, observer: Observer = NULL_OBSERVER
) -> "ChatDetector":
    """Build the detector behind the base URL of a server; raise ConfigurationError if the URL or key is none."""
    return ChatDetector(description, build_endpoint(description, settings, url, CHAT_PATH, observer=observer))


@dataclass(frozen=True, slots=True)
class _Body:
    """One reply. Support is read for each character of the claim, the same for all where no words are marked."""

    completion: Completion
    raw: bytes
    description: Description
    claim: str

    @property
    def tokens(self) -> TokenCounts:
        return self.completion.tokens

    @property
    def is_truncated(self) -> bool:
        return self.completion.is_truncated

    def reply(self, endpoint: Endpoint) -> list[float]:
        content = self.completion.reply(endpoint).content
        if self.description.head == "chat_spans":
            return _unmarked(content, self.claim)
        share = self._share() if self.description.head == "chat_logprob" else self._mark(content)
        return [1.0 - share if self.description.inverted else share]

    def _share(self) -> float:
        """Return the probability of the positive word as first token, in whatever case."""
        try:
            first = _FirstToken.model_validate_json(self.raw)
        except ValidationError as error:
            raise _invalid("has no logprobs") from error
        positive = str(self.description.positive or "yes").casefold()
        words = {positive, *(str(each).casefold() for each in self.description.over or ("yes", "no"))}
        found = [(each.token.strip().casefold(), math.exp(each.logprob)) for each in first.candidates]
        if not any(word in words for word, _ in found):
            raise _invalid(f"starts with none of {', '.join(sorted(words))}")
        return min(1.0, sum(share for word, share in found if word == positive))

    def _mark(self, content: str) -> float:
        allowed = {str(each).casefold() for each in self.description.over}
        found = {mark.casefold() for mark in re.findall(self.description.pattern or "", content)}
        if len(found) != 1 or not found <= allowed:
            raise _invalid(f"has {len(found)} marks, expected one of {', '.join(sorted(allowed))}")
        return float(found == {str(self.description.positive).casefold()})


class ChatDetector(RemoteDetector):
    """A detector behind a chat model; each question is a call."""

    async def _findings(
        self, asked: Sequence[Sequence[tuple[str, str | None]]], claims: Sequence[str], until: float, ledger: Ledger
    ) -> list[DetectorFinding]:
        questions = [(text, claim) for pairs, claim in zip(asked, claims, strict=True) for text, _ in pairs]
        replies = iter(await asyncio.gather(*(self._ask_chat(text, claim, until, ledger) for text, claim in questions)))
        findings = []
        for pairs in asked:
            # Each character is as well supported as by the part that supports it most.
            supports = [max(parts) for parts in zip(*(next(replies) for _ in pairs), strict=True)]
            words = tuple(_runs(supports)) if self.marks_words else ()
            findings.append(DetectorFinding(min(supports, default=1.0), words=words))
        return findings

    async def _ask_chat(self, text: str, claim: str, until: float, ledger: Ledger) -> list[float]:
        described = self._description
        is_word = described.head == "chat_logprob"
        system = [{"role": "system", "content": described.system}] if described.system else []
        body: dict[str, object] = {
            "model": self._endpoint.endpoint.model,
            "messages": [*system, {"role": "user", "content": text}],
            "max_tokens": 1 if is_word else described.reply_tokens,
            "temperature": 0.0,
        }
        if is_word:
            body |= {"logprobs": True, "top_logprobs": _TOP_LOGPROBS}
        request = ApiRequest(
            body,
            lambda raw: _Body(read_completion(raw), raw, described, claim),
            estimate_tokens(text) + estimate_tokens(described.system or ""),
            1 if is_word else described.reply_tokens,
        )
        return await self._endpoint.ask(request, seconds=max(0.0, until - time.monotonic()), ledger=ledger)


def _unmarked(content: str, claim: str) -> list[float]:
    """Return 0 for each character of the claim in a span, 1 for others; spans stand in the claim's order."""
    fenced = _FENCE.fullmatch(content.strip())
    try:
        spans = _Spans.model_validate_json(fenced[1] if fenced else content).hallucinated_spans
    except ValidationError as error:
        raise _invalid("is no JSON with `hallucinated_spans`") from error
    supports, after = [1.0] * len(claim), 0
    for span in spans:
        start = claim.find(span.text, after)
        start = claim.find(span.text) if start < 0 else start
        if start < 0:
            raise _invalid("marks words that are not in the answer")
        after = start + len(span.text)
        supports[start:after] = [0.0] * len(span.text)
    return supports


def _runs(supports: Sequence[float]) -> list[tuple[int, int, float]]:
    runs, at = [], 0
    for support, same in groupby(supports):
        end = at + len(list(same))
        runs.append((at, end, support))
        at = end
    return runs
