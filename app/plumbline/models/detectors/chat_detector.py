"""A detector that is a chat model on an OpenAI-compatible server, asked as it was trained and read by its own marks."""

import asyncio
import math
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from pydantic import BaseModel, Field, FiniteFloat, ValidationError

from plumbline.ground.errors import FailureReason
from plumbline.ground.settings import Settings
from plumbline.judging.ports.exchange import DetectorFinding, Ledger, estimate_tokens
from plumbline.judging.ports.observation import NULL_OBSERVER, Observer
from plumbline.models.chat.call_failures import CallFailure
from plumbline.models.chat.completions import Completion, TokenCounts, read_completion
from plumbline.models.chat.endpoints import CHAT_PATH, Endpoint
from plumbline.models.chat.resilient_endpoint import ApiRequest
from plumbline.models.detectors.description import Description
from plumbline.models.detectors.remote_detector import RemoteDetector, build_endpoint

_TOP_LOGPROBS: Final = 5
_FENCE: Final = re.compile(r"```(?:json)?\s*(.*?)\s*```", re.DOTALL)


class _Candidate(BaseModel):
    token: str
    logprob: FiniteFloat = Field(le=0.0)


class _Token(BaseModel):
    top_logprobs: list[_Candidate] = Field(min_length=1)


class _Logprobs(BaseModel):
    content: list[_Token] = Field(min_length=1)


class _Choice(BaseModel):
    logprobs: _Logprobs


class _Probabilities(BaseModel):
    choices: list[_Choice] = Field(min_length=1)


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
            first = _Probabilities.model_validate_json(self.raw).choices[0].logprobs.content[0]
        except ValidationError as error:
            raise CallFailure(FailureReason.INVALID_REPLY, "the detector's reply has no logprobs") from error
        positive = str(self.description.positive or "yes").casefold()
        words = {positive, *(str(each).casefold() for each in self.description.over or ("yes", "no"))}
        found = [(each.token.strip().casefold(), math.exp(each.logprob)) for each in first.top_logprobs]
        if not any(word in words for word, _ in found):
            raise CallFailure(
                FailureReason.INVALID_REPLY, f"the detector's reply starts with none of {', '.join(sorted(words))}"
            )
        return min(1.0, sum(share for word, share in found if word == positive))

    def _mark(self, content: str) -> float:
        allowed = {str(each).casefold() for each in self.description.over}
        found = {mark.casefold() for mark in re.findall(self.description.pattern or "", content)}
        if len(found) != 1 or not found <= allowed:
            raise CallFailure(
                FailureReason.INVALID_REPLY,
                f"the detector's reply has {len(found)} marks, expected one of {', '.join(sorted(allowed))}",
            )
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
        raise CallFailure(
            FailureReason.INVALID_REPLY, "the detector's reply is no JSON with `hallucinated_spans`"
        ) from error
    supports, after = [1.0] * len(claim), 0
    for span in spans:
        start = claim.find(span.text, after)
        start = claim.find(span.text) if start < 0 else start
        if start < 0:
            raise CallFailure(
                FailureReason.INVALID_REPLY, "the detector's reply marks words that are not in the answer"
            )
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
