"""Tiers: their names, the options of a sample, and what each of them does within its share of the deadline."""

import asyncio
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, Protocol

from plumbline.ground.deadline import work_deadline
from plumbline.ground.errors import FailureReason, TierFailure
from plumbline.ground.texts import CodedText
from plumbline.judging.judge.metrics import Metric
from plumbline.judging.ports.exchange import Ledger
from plumbline.judging.ports.observation import Readiness, State
from plumbline.judging.text.segmented_sample import SegmentedSample
from plumbline.judging.text.verdicts import Judgement


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
        escalation: name of a second chat model that gives its opinion on claims which can change the outcome.
        disputed: `unsure` leaves an answer undecided on which the two decide differently.
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
    disputed: Literal["lower", "unsure"] = "lower"
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

        Raises TierFailure: the tier cannot answer this sample now; the cascade tries the next. Anything else is a bug.
        """
        ...

    def readiness(self) -> Readiness: ...


async def judge_within(tier: Tier, sample: SegmentedSample, options: JudgeOptions, seconds: float) -> Judgement:
    """Return the tier's judgement, or raise TierFailure `timeout` after so many seconds."""
    if seconds <= 0:
        raise TierFailure(FailureReason.TIMEOUT, CodedText("not_asked_in_time"))
    try:
        async with asyncio.timeout(seconds) as scope:
            with work_deadline(time.monotonic() + seconds):
                return await tier.judge(sample, options, seconds=seconds)
    except TimeoutError:
        # A TimeoutError that is not this scope's own is a bug of the tier.
        if not scope.expired():
            raise
        raise TierFailure(FailureReason.TIMEOUT, CodedText("tier_timed_out", seconds=seconds)) from None


def check_language(sample: SegmentedSample, *, model: str, languages: Collection[str] | None) -> None:
    """Raise TierFailure `unsupported_language` where a model reads some languages, and not that of the sample."""
    if languages is not None and sample.language not in languages:
        seen = CodedText("language_not_read", model=model, languages=sorted(languages), language=sample.language)
        raise TierFailure(FailureReason.UNSUPPORTED_LANGUAGE, seen)


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
