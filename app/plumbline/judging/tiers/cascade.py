"""The cascade: the first tier that can answer, under one deadline, with a record of every attempt."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass

import structlog

from plumbline.ground.errors import FailureReason, TierFailure
from plumbline.ground.texts import CodedText
from plumbline.judging.ports.observation import ANSWERED, NULL_OBSERVER, Observer, Readiness, State, TierRecord
from plumbline.judging.text.segmented_sample import SegmentedSample
from plumbline.judging.text.verdicts import Judgement
from plumbline.judging.tiers.tier import AbsentTier, JudgeOptions, Tier, TierName, judge_within

Loader = Callable[[], Awaitable[None]]

# Seconds that a tier leaves to those after it, by the tier that wants them: one call of a quick judge, one sample of 5
# contexts on two cores, with room. A short deadline is shared instead: no tier takes more than this part of it.
_RESERVE_SECONDS = {TierName.LLM: 5.0, TierName.DETECTOR: 3.0, TierName.EMBEDDING: 3.0, TierName.LEXICAL: 0.5}
_LARGEST_SHARE = 0.6


@dataclass(frozen=True, slots=True)
class Attempt:
    """One tier's attempt: `reason` and `detail` are None when it answered. `calls`: requests made to a provider."""

    tier: TierName
    reason: FailureReason | None
    detail: str | None
    seconds: float
    calls: int = 0

    @property
    def answered(self) -> bool:
        return self.reason is None


@dataclass(frozen=True, slots=True)
class CascadeResult:
    """Judgement of the first tier that answered, if any, and all attempts; `waited`: seconds without a deadline."""

    judgement: Judgement | None
    tier: TierName | None
    attempts: tuple[Attempt, ...]
    waited: float = 0.0


class JudgeCascade:
    """Ask tiers in order. Only `TierFailure` and the deadline fall through; any other exception is a bug and rises.

    Args:
        unset: tiers that were not set up: they fail for requests that name them, and are not asked otherwise.
        limits: of tiers for which batch samples (`JudgeOptions.can_wait`) queue. Their deadline stands still meanwhile,
            and while a provider asks for patience.
        loaders: return when the model of a tier is loaded, or cannot be. The deadline stands still meanwhile, too. A
            sample that cannot wait gives the model as long as its deadline, then asks the next tier.
    """

    def __init__(
        self,
        tiers: Sequence[Tier],
        *,
        unset: Sequence[Tier] = (),
        limits: Mapping[TierName, asyncio.Semaphore] | None = None,
        loaders: Mapping[TierName, Loader] | None = None,
        observer: Observer = NULL_OBSERVER,
    ) -> None:
        self._tiers: Mapping[TierName, Tier] = {tier.name: tier for tier in tiers}
        self._unset: Mapping[TierName, Tier] = {tier.name: tier for tier in unset}
        self._limits = limits or {}
        self._loaders = loaders or {}
        self._observer = observer

    async def judge(
        self,
        sample: SegmentedSample,
        options: JudgeOptions,
        *,
        tiers: Sequence[TierName] | None,
        deadline_seconds: float,
    ) -> CascadeResult:
        order = tuple(self._tiers) if tiers is None else tuple(tiers)
        until = time.monotonic() + deadline_seconds
        waited = 0.0
        attempts: list[Attempt] = []
        for position, name in enumerate(order):
            limit = self._limits.get(name) if options.can_wait else None
            slot: AbstractAsyncContextManager[None] = nullcontext() if limit is None else limit
            started = time.monotonic()
            async with slot:
                tier = await self._load(name, seconds=None if options.can_wait else deadline_seconds)
                waited += time.monotonic() - started
                budget = _budget(until + waited - time.monotonic(), order[position + 1 :])
                record = TierRecord(name.value)
                with self._observer.tier(record):
                    judgement, attempt, patience = await self._attempt(tier, sample, options, budget)
                    waited += patience
                    record.outcome = attempt.reason or ANSWERED
            attempts.append(attempt)
            if judgement is not None:
                return CascadeResult(judgement, name, tuple(attempts), waited)
        return CascadeResult(None, None, tuple(attempts), waited)

    def first_asked(self, tiers: Sequence[TierName] | None) -> TierName | None:
        """Return the first of the tiers that could answer now; None if none could."""
        for name in self._tiers if tiers is None else tiers:
            tier = self._tiers.get(name)
            if tier is not None and tier.readiness().state is not State.UNAVAILABLE:
                return name
        return None

    def readiness(self) -> Mapping[TierName, Readiness]:
        return {name: tier.readiness() for name, tier in self._tiers.items()}

    def is_loading(self) -> bool:
        return any(each.state is State.LOADING for each in self.readiness().values())

    async def _load(self, name: TierName, *, seconds: float | None) -> Tier:
        """Return the tier with its model loaded; one that fails with `model_loading` where that takes longer."""
        tier = self._tiers.get(name) or self._unset[name]
        if name in self._loaders and (before := tier.readiness()).state in (State.IDLE, State.LOADING):
            try:
                await asyncio.wait_for(self._loaders[name](), seconds)
            except TimeoutError:
                detail = CodedText("model_loading", model=before.detail)
                return AbsentTier(name, reason=FailureReason.MODEL_LOADING, detail=detail)
        return tier

    async def _attempt(
        self, tier: Tier, sample: SegmentedSample, options: JudgeOptions, budget: float
    ) -> tuple[Judgement | None, Attempt, float]:
        """Return the tier's judgement, the attempt, and the seconds of its tries that ended in a wait for a provider.

        A sample that can wait begins again after one, as long as the provider answers others.
        """
        started, before, patience = time.monotonic(), options.ledger.usage.calls, 0.0
        judgement = reason = detail = None
        while True:
            try:
                judgement = await judge_within(tier, sample, options, budget)
            except TierFailure as failure:
                if options.can_wait and failure.wait_seconds is not None:
                    await asyncio.sleep(failure.wait_seconds)
                    patience = time.monotonic() - started
                    continue
                reason, detail = failure.reason, failure.detail
            break
        seconds = time.monotonic() - started
        # A tier that was never set up is no event; /readyz says so.
        if reason is not None and reason is not FailureReason.NOT_CONFIGURED:
            structlog.get_logger().warning("tier_failed", tier=tier.name, reason=reason, seconds=round(seconds, 3))
        return judgement, Attempt(tier.name, reason, detail, seconds, options.ledger.usage.calls - before), patience


def _budget(left: float, later: Sequence[TierName]) -> float:
    if not later:
        return left
    reserve = sum(_RESERVE_SECONDS[name] for name in later)
    return max(left - reserve, left * _LARGEST_SHARE)
