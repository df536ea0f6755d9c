"""Detectors on a server, without torch: `/predict` of text-embeddings-inference."""

import asyncio
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import BaseModel, FiniteFloat, TypeAdapter, ValidationError

from plumbline.ground.errors import ConfigurationError, FailureReason, TierFailure
from plumbline.ground.settings import Settings
from plumbline.ground.texts import CodedText
from plumbline.judging.ports.exchange import DetectorFinding, DetectorReading, Ledger, Passage
from plumbline.judging.ports.observation import NULL_OBSERVER, Observer, Readiness, State
from plumbline.models.chat.call_failures import CallFailure
from plumbline.models.chat.completions import NO_TOKENS
from plumbline.models.chat.endpoints import NO_KEY, Endpoint, Provider, check_http_url, check_key
from plumbline.models.chat.resilient_endpoint import ApiRequest, ResilientEndpoint, attend_server
from plumbline.models.detectors.description import Description, check_probe, resolve_labels
from plumbline.models.detectors.pair_reader import EstimatingTokenizer, PairReader

_PROVIDER: Final = Provider("detector", needs_key=False)
_PREDICT: Final = "/predict"
# The server's own bound on a client's batch.
_BATCH: Final = 32
_NUMBERED: Final = re.compile(r"LABEL_(\d+)")


class _Label(BaseModel):
    label: str
    score: FiniteFloat


_REPLY: Final = TypeAdapter(list[list[_Label]])


@dataclass(frozen=True, slots=True)
class _Reply:
    body: list[list[_Label]]
    wanted: int

    tokens = NO_TOKENS
    is_truncated = False

    def reply(self, endpoint: Endpoint) -> list[dict[str, float]]:
        if len(self.body) != self.wanted or not all(self.body):
            raise _invalid(CodedText("detector_lists_miscounted", found=len(self.body), wanted=self.wanted))
        return [{each.label: each.score for each in labels} for labels in self.body]


def build_remote_detector(
    description: Description, settings: Settings, url: str, *, observer: Observer = NULL_OBSERVER
) -> "RemoteDetector":
    """Build the detector behind a URL; raise ConfigurationError for a wrong URL, key or kind of head."""
    if description.head != "sequence" or description.activation != "softmax" or description.over:
        raise ConfigurationError(
            f"PLUMBLINE_DETECTOR_URL: {description.name} cannot be read from a server; head `sequence` with all its "
            "labels can"
        )
    url = url.rstrip("/").removesuffix(_PREDICT)
    check_http_url(url, "PLUMBLINE_DETECTOR_URL")
    key = settings.detector_api_key.get_secret_value() if settings.detector_api_key else NO_KEY
    check_key(key, "PLUMBLINE_DETECTOR_API_KEY")
    at = Endpoint(_PROVIDER, url, description.model, key, path=_PREDICT)
    return RemoteDetector(description, attend_server(at, settings, observer=observer))


class RemoteDetector:
    """A detector behind an endpoint, which retries, and rests where it fails. For one event loop."""

    def __init__(self, description: Description, endpoint: ResilientEndpoint) -> None:
        self._description = description
        self._endpoint = endpoint
        self._reader = PairReader(EstimatingTokenizer(), description, specials=())
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
        """Ask the probe; `readiness` and the next request show a failure."""
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
    ) -> DetectorReading:
        """Return the support of each claim, as `LocalDetector.read`; nothing is kept, and `scope` has no effect."""
        until = time.monotonic() + seconds
        await self._prove(until)
        return await self._read(passages, question, claims, until)

    async def _read(
        self, passages: Sequence[Passage], question: str, claims: Sequence[str], until: float
    ) -> DetectorReading:
        kept = [self._reader.fit_claim(claim) for claim in claims]
        asked = [
            [self._description.premise(window, question, claim) for window in windows]
            for claim in kept
            for windows in [self._reader.windows(passages, question, claim)]
        ]
        findings = await self._findings(asked, until)
        return DetectorReading(findings, 1.0 - sum(map(len, kept)) / max(1, sum(map(len, claims))))

    async def _findings(self, asked: Sequence[Sequence[tuple[str, str | None]]], until: float) -> list[DetectorFinding]:
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
                return _Reply(_REPLY.validate_json(body), len(texts))
            except ValidationError as error:
                raise _invalid(CodedText("detector_no_labels")) from error

        body: dict[str, object] = {"inputs": texts, "raw_scores": False, "truncate": False}
        request = ApiRequest(body, parse, sum(self._reader.count(text) for pair in texts for text in pair))
        return await self._endpoint.ask(request, seconds=max(0.0, until - time.monotonic()), ledger=Ledger())

    def _support(self, share_by_label: Mapping[str, float]) -> tuple[float, float]:
        """Return support and denial, both in [0, 1]; servers give labels by name, in any order."""
        numbered = {name: _NUMBERED.fullmatch(name) for name in share_by_label}
        if all(numbered.values()):
            names = {int(found[1]): name for name, found in numbered.items() if found}
        elif isinstance(self._description.positive, int):
            raise TierFailure(
                FailureReason.INVALID_REPLY,
                CodedText("detector_labels_named", model=self.model, names=tuple(share_by_label)),
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
                reading = await self._read([passage], probe.question, [probe.claim], until)
                try:
                    check_probe(self._description, number, reading.findings[0].support)
                except TierFailure as failure:
                    self._failure = failure
                    raise
            self._is_proven = True


def _invalid(flaw: CodedText) -> CallFailure:
    return CallFailure(FailureReason.INVALID_REPLY, flaw)
