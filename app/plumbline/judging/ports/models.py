"""Protocols of the models behind the tiers, which backends implement."""

from collections.abc import Sequence
from typing import Literal, Protocol

from plumbline.ground.judge_settings import JudgeKind
from plumbline.judging.ports.decisions import DecisionReply, DecisionRequest
from plumbline.judging.ports.exchange import ChatReply, ChatRequest, DetectorReading, Ledger, Passage
from plumbline.judging.ports.observation import Readiness
from plumbline.judging.ports.token_vectors import TokenizedTexts, TokenVectors


class ChatModel(Protocol):
    """A chat model behind any provider, with the retries and fallback addresses needed to reach it."""

    @property
    def name(self) -> str:
        """Return the name that requests use for this judge; `default` for the one asked by default."""
        ...

    @property
    def model(self) -> str: ...

    @property
    def kind(self) -> JudgeKind:
        """Return what it is asked with; an address may say by its first refusal that it is no chat."""
        ...

    @property
    def variant(self) -> str:
        """Return a digest of what changes its answers besides the model, for cache keys; empty as a rule."""
        ...

    @property
    def context_tokens(self) -> int:
        """Return the most tokens of a request and its reply together."""
        ...

    async def complete(self, request: ChatRequest, *, seconds: float, ledger: Ledger) -> ChatReply:
        """Return one reply; the ledger records every request that reaches a provider, whatever comes of it.

        Raises TierFailure: with the reason; an empty, filtered or refused reply is a failure, a cut one is a reply.
        """
        ...

    def readiness(self) -> Readiness:
        """Return the state, and in the detail provider, model, host and detected capabilities; no key."""
        ...


class DecisionModel(ChatModel, Protocol):
    """A model that answers questions with probabilities, behind any provider."""

    @property
    def questions(self) -> int:
        """Return the most questions of a request."""
        ...

    async def decide(self, request: DecisionRequest, *, seconds: float, ledger: Ledger) -> DecisionReply:
        """Return the answers; ledger and errors as of `complete`."""
        ...


class SentenceEncoder(Protocol):
    """A model that turns each token of a short text into a unit vector, or each text into one."""

    @property
    def model(self) -> str: ...

    @property
    def languages(self) -> frozenset[str] | None:
        """Return the languages that the model reads, as `Language` names them; None for all."""
        ...

    async def read(self, texts: Sequence[str], *, seconds: float) -> TokenizedTexts:
        """Tokenize the texts, at little cost.

        Raises TierFailure: the model is not there, cannot be loaded, or did not finish in time.
        """
        ...

    async def encode(
        self,
        reading: TokenizedTexts,
        *,
        seconds: float,
        scope: str = "",
        ledger: Ledger | None = None,
    ) -> TokenVectors:
        """Return the vectors of tokenized texts; equal texts have equal vectors in one call.

        Args:
            scope: whose texts they are; what one had encoded tells another nothing.
            ledger: records calls that cost tokens, if any are made.

        Raises TierFailure: as `read`.
        """
        ...

    def readiness(self) -> Readiness: ...


class Detector(Protocol):
    """A trained model of support or hallucination.

    `unit`: what it reads as one claim; `marks_words`: it says which words of the claim nothing supports.
    """

    unit: Literal["sentence", "answer"]
    marks_words: bool
    languages: frozenset[str] | None

    @property
    def model(self) -> str: ...

    async def read(
        self,
        passages: Sequence[Passage],
        question: str,
        claims: Sequence[str],
        *,
        seconds: float,
        scope: str = "",
    ) -> DetectorReading:
        """Return how far the passages support each claim; `scope` and errors as of `SentenceEncoder`."""
        ...

    def readiness(self) -> Readiness: ...
