"""Tiers and the protocols of their models, which backends implement without importing this package."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, Protocol

from plumbline.ground.concurrency import work_deadline
from plumbline.ground.errors import FailureReason, TierFailure
from plumbline.judging.ports.exchange import ChatReply, ChatRequest, DetectorReading, Ledger, Passage
from plumbline.judging.ports.observation import Readiness, State
from plumbline.judging.ports.token_vectors import TokenizedTexts, TokenVectors
from plumbline.judging.text.segmented_sample import SegmentedSample
from plumbline.judging.text.verdicts import Judgement
from plumbline.judging.tiers.metrics import Metric


class TierName(StrEnum):
    """The tiers, in the order in which they are asked."""

    LLM = "llm"
    DETECTOR = "detector"
    EMBEDDING = "embedding"
    LEXICAL = "lexical"


@dataclass(frozen=True, slots=True)
class JudgeOptions:
    """Options of one sample, for the cascade and every tier in it.

    Args:
        tiers: tiers to ask, in this order; None for all of the cascade.
        threshold: faithfulness from which the answer passes; None: the rule of the tier that answers.
        deadline_seconds: bound on all tiers together.
        tenant: owner of the sample; nothing is shared between two tenants. Empty when keys are not used.
        judges: names of chat models, each of which decides on every claim; empty for the default one.
        samples: votes of each judge.
        escalation: name of a second chat model that checks claims which can change the outcome.
        max_cost: in the currency of the price table.
        citation_base: number of the first context in citation marks; None: found out from the answer.
        metrics: what to judge besides faithfulness, in the same call.
        can_wait: the sample is one of many; its deadline does not run while it queues for a tier.
        ledger: `Scorer` gives each sample its own.
    """

    tiers: tuple[TierName, ...] | None = None
    threshold: float | None = None
    deadline_seconds: float = 60.0
    tenant: str = ""
    judges: tuple[str, ...] = ()
    samples: int = 1
    escalation: str | None = None
    cache: Literal["use", "bypass"] = "use"
    max_cost: float | None = None
    citation_base: int | None = None
    metrics: tuple[Metric, ...] = ()
    can_wait: bool = False
    ledger: Ledger = field(default_factory=Ledger)


class Tier(Protocol):
    """One way to judge an answer."""

    @property
    def name(self) -> TierName: ...

    async def judge(self, sample: SegmentedSample, options: JudgeOptions, *, seconds: float) -> Judgement:
        """Return the tier's judgement within `seconds`.

        Raises:
            TierFailure: the tier cannot answer this sample now; the cascade tries the next. Anything else is a bug.
        """
        ...

    def readiness(self) -> Readiness: ...


class ChatModel(Protocol):
    """A chat model behind any provider, with the retries and fallback addresses needed to reach it."""

    @property
    def name(self) -> str:
        """Return the name that requests use for this judge; `default` for the one asked by default."""
        ...

    @property
    def model(self) -> str: ...

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

        Raises:
            TierFailure: with the reason; an empty, filtered or refused reply is a failure, a cut one is a reply.
        """
        ...

    def readiness(self) -> Readiness:
        """Return the state, and in the detail provider, model, host and detected capabilities; no key."""
        ...


class SentenceEncoder(Protocol):
    """A model that turns each token of a short text into a unit vector, or each text into one."""

    @property
    def model(self) -> str: ...

    @property
    def languages(self) -> frozenset[str] | None:
        """Return the languages that the model reads, as `Language` names them; None for all."""
        ...

    async def read(self, texts: Sequence[str], *, seconds: float, scope: str = "") -> TokenizedTexts:
        """Tokenize the texts, at little cost; `scope` as for `encode`.

        Raises:
            TierFailure: the model is not there, cannot be loaded, or did not finish in time.
        """
        ...

    async def encode(
        self,
        reading: TokenizedTexts,
        *,
        seconds: float,
        scope: str = "",
        can_wait: bool = False,
        ledger: Ledger | None = None,
    ) -> TokenVectors:
        """Return the vectors of tokenized texts; equal texts have equal vectors in one call.

        Args:
            scope: whose texts they are; what one had encoded tells another nothing.
            can_wait: a batch sample, whose answer may take long.
            ledger: records calls that cost tokens, if any are made.

        Raises:
            TierFailure: as `read`.
            TooBusy: too much waits already.
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
        can_wait: bool = False,
    ) -> DetectorReading:
        """Return how far the passages support each claim; `scope`, `can_wait`, errors: `SentenceEncoder`."""
        ...

    def readiness(self) -> Readiness: ...


async def judge_within(tier: Tier, sample: SegmentedSample, options: JudgeOptions, seconds: float) -> Judgement:
    """Return the tier's judgement, or raise TierFailure `timeout` after so many seconds."""
    if seconds <= 0:
        raise TierFailure(FailureReason.TIMEOUT, "not asked: the deadline had passed")
    try:
        async with asyncio.timeout(seconds) as scope:
            with work_deadline(time.monotonic() + seconds):
                return await tier.judge(sample, options, seconds=seconds)
    except TimeoutError:
        # A TimeoutError that is not this scope's own is a bug of the tier.
        if not scope.expired():
            raise
        raise TierFailure(FailureReason.TIMEOUT, f"timed out after {seconds:.1f} s") from None


class AbsentTier:
    """A tier that this process does not have: it fails with the reason, for the result to show."""

    def __init__(self, name: TierName, *, reason: FailureReason, detail: str) -> None:
        self.name = name
        self._reason = reason
        self._detail = detail

    async def judge(self, sample: SegmentedSample, options: JudgeOptions, *, seconds: float) -> Judgement:
        raise TierFailure(self._reason, self._detail)

    def readiness(self) -> Readiness:
        return Readiness(State.UNAVAILABLE, self._detail)
