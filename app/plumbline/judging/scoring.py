"""THE path: sample -> sentences -> judgement -> scores. Every way into the service calls this one."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import TypeVar

from plumbline.ground.deadline import work_deadline
from plumbline.ground.errors import TierFailure
from plumbline.judging.ports.exchange import Ledger, Usage
from plumbline.judging.ports.observation import NULL_OBSERVER, Observer
from plumbline.judging.text.overlap import context_utilization
from plumbline.judging.text.sample import Sample
from plumbline.judging.text.scores import (
    PassRule,
    agreement,
    choose_criterion,
    confidence,
    contexts_used,
    exact_match,
    score,
    token_f1,
)
from plumbline.judging.text.segmentation import Sentence
from plumbline.judging.text.segmented_sample import SegmentedSample, segment, unread
from plumbline.judging.text.verdicts import Claim, JudgeAccount, Scores, Verdict, whole_sentence_claim
from plumbline.judging.tiers import offload
from plumbline.judging.tiers.cascade import Attempt, CascadeResult, JudgeCascade
from plumbline.judging.tiers.tier import JudgeOptions, TierName

T = TypeVar("T")

_NOTHING_USED = Usage()


# Flag of a result whose tier gives no answer as much as the threshold.
UNREACHABLE = "threshold_unreachable"


class SampleStatus(StrEnum):
    """Status of a result."""

    JUDGED = "judged"
    ABSTAINED = "abstained"
    EMPTY_ANSWER = "empty_answer"
    NOT_JUDGED = "not_judged"


@dataclass(frozen=True, slots=True)
class SampleResult:
    """The result of one sample. `scores`, `passed` and `passed_by` are None unless the status is `judged`.

    `threshold`: faithfulness that was compared; None where every claim had to be supported, and where nothing was.
    """

    status: SampleStatus
    tier: TierName | None
    scores: Scores | None
    passed: bool | None
    passed_by: PassRule | None
    threshold: float | None
    confidence: float | None
    context_utilization: float | None
    token_f1: float | None
    exact_match: float | None
    sentences: tuple[Sentence, ...]
    claims: tuple[Claim, ...]
    contexts_used: tuple[int, ...]
    contexts_given: int
    attempts: tuple[Attempt, ...]
    judge: JudgeAccount | None
    usage: Usage
    windows: int
    flags: tuple[str, ...]
    warnings: tuple[str, ...]


class Scorer:
    """Scores samples with one cascade. CPU work runs in `executor`, off the event loop, unless it is small.

    `on_call` is called with the tenant and the usage of each call to a chat model.
    """

    def __init__(
        self,
        cascade: JudgeCascade,
        executor: Executor,
        *,
        on_call: Callable[[str, Usage], None] | None = None,
        observer: Observer = NULL_OBSERVER,
    ) -> None:
        self._cascade = cascade
        self._executor = executor
        self._on_call = on_call
        self._observer = observer

    async def score(self, sample: Sample, options: JudgeOptions) -> SampleResult:
        """Return the result of a sample. A tier that cannot answer is recorded in it; a bug in a tier raises."""
        result = await self._scored(sample, options)
        if result.passed is not None and result.passed_by is not None:
            self._observer.on_decision(result.tier or "none", result.passed_by, passed=result.passed)
        return result

    async def _scored(self, sample: Sample, options: JudgeOptions) -> SampleResult:
        until = time.monotonic() + options.deadline_seconds
        small = offload.is_small(sample)
        try:
            async with asyncio.timeout(None if small else options.deadline_seconds):
                with work_deadline(until):
                    case, decided = await offload.run(partial(_prepare, sample, options), self._executor, inline=small)
        except (TimeoutError, TierFailure):
            # The cascade then records that no tier was asked.
            case, decided = unread(sample), None
        if decided is not None:
            return decided
        ledger = Ledger(max_cost=options.max_cost, on_call=self._on_call and partial(self._on_call, options.tenant))
        cascade = await self._cascade.judge(
            case,
            replace(options, ledger=ledger),
            tiers=options.tiers,
            deadline_seconds=max(0.0, until - time.monotonic()),
        )
        return await offload.run(lambda: _result(case, options, cascade, ledger.usage), self._executor, inline=small)

    async def offload(self, work: Callable[[], T], *, inline: bool = False) -> T:
        """Run `work` off the event loop; on it if `inline`, for work too small to be worth a hop to a thread."""
        return await offload.run(work, self._executor, inline=inline)


def _prepare(sample: Sample, options: JudgeOptions) -> tuple[SegmentedSample, SampleResult | None]:
    """Return the segmented sample, and its result where it needs no judge."""
    case = segment(sample)
    if case.needs_judge:
        return case, None
    if case.is_empty:
        return case, _build(case, options, SampleStatus.EMPTY_ANSWER)
    checkable = frozenset(case.checkable)
    claims = [
        whole_sentence_claim(position, sentence, verdict=Verdict.NOT_MENTIONED, support=0.0)
        if position in checkable
        else whole_sentence_claim(position, sentence, verdict=Verdict.NOT_A_CLAIM)
        for position, sentence in enumerate(case.sentences)
    ]
    if not checkable:
        return case, _build(case, options, SampleStatus.ABSTAINED, claims=claims)
    scores = Scores(0.0, 1.0, 0.0, 0.0, 1.0, lowest_support=0.0, unsupported_claims=len(checkable))
    return case, _build(case, options, SampleStatus.JUDGED, scores=scores, claims=claims, flags=("no_context",))


def _result(case: SegmentedSample, options: JudgeOptions, cascade: CascadeResult, usage: Usage) -> SampleResult:
    judgement = cascade.judgement
    if judgement is None:
        warnings: tuple[str, ...] = ("no tier could answer; see attempts",)
        return _build(case, options, SampleStatus.NOT_JUDGED, cascade=cascade, usage=usage, warnings=warnings)
    scores = score(judgement)
    warnings = tuple(
        f"tier {attempt.tier} did not answer ({attempt.reason}): scores of different tiers are not comparable"
        for attempt in cascade.attempts
        if not attempt.answered
    )
    flags = [] if cascade.attempts[0].answered else ["degraded"]
    if scores is None:
        flags.append("no_checkable_claims")
    if options.threshold is not None and options.threshold > judgement.highest:
        flags.append(UNREACHABLE)
        warnings += (unreachable_warning(options.threshold, {cascade.tier or "none": judgement.highest}),)
    return _build(
        case,
        options,
        SampleStatus.JUDGED if scores else SampleStatus.ABSTAINED,
        scores=scores,
        claims=judgement.claims,
        cascade=cascade,
        usage=usage,
        flags=(*judgement.flags, *flags),
        warnings=(*warnings, *judgement.warnings),
    )


def unreachable_warning(threshold: float, highest_by_tier: Mapping[str, float]) -> str:
    """Return the warning about a threshold that is above the highest score of these tiers."""
    tiers = " and ".join(f"{highest:g}, the highest score of tier {tier}" for tier, highest in highest_by_tier.items())
    return f"threshold {threshold:g} is above {tiers}: no answer judged there can pass; lower it, or leave it out"


def _build(
    case: SegmentedSample,
    options: JudgeOptions,
    status: SampleStatus,
    *,
    scores: Scores | None = None,
    claims: Sequence[Claim] = (),
    cascade: CascadeResult | None = None,
    usage: Usage = _NOTHING_USED,
    flags: tuple[str, ...] = (),
    warnings: tuple[str, ...] = (),
) -> SampleResult:
    judgement = cascade.judgement if cascade else None
    criterion = choose_criterion(
        options.threshold,
        boundary=judgement.boundary if judgement else None,
        is_doubted=judgement is not None and judgement.is_doubted,
    )
    passed = criterion.passes(scores) if scores else None
    sure = None
    if scores and judgement and judgement.votes:
        sure = agreement(judgement.votes, passed=bool(passed), criterion=criterion)
    elif scores and judgement:
        # A doubt decides as a score below the boundary would.
        decisive = min(scores.faithfulness, criterion.threshold or 1.0) if criterion.is_blocked else scores.faithfulness
        sure = confidence(decisive, passed=bool(passed), reliability=judgement.reliability)
    reference = case.source.reference
    return SampleResult(
        status=status,
        tier=cascade.tier if cascade else None,
        scores=scores,
        passed=passed,
        passed_by=criterion.rule if scores else None,
        threshold=criterion.threshold if scores else options.threshold,
        confidence=sure,
        context_utilization=context_utilization(case.sentences, case.index)
        if status in (SampleStatus.JUDGED, SampleStatus.NOT_JUDGED)
        else None,
        token_f1=None if reference is None else token_f1(case.source.answer, reference),
        exact_match=None if reference is None else exact_match(case.source.answer, reference),
        sentences=case.sentences,
        claims=tuple(claims),
        contexts_used=contexts_used(claims),
        contexts_given=len(case.source.contexts),
        attempts=cascade.attempts if cascade else (),
        judge=judgement.account if judgement else None,
        usage=usage,
        windows=judgement.windows if judgement else 1,
        flags=flags,
        warnings=warnings,
    )
