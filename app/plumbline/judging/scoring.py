"""THE path: sample -> sentences -> judgement -> scores. Every way into the service calls this one."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from typing import TypeVar

from plumbline.ground.deadline import work_deadline
from plumbline.ground.errors import FailureReason, TierFailure
from plumbline.ground.texts import CodedText
from plumbline.ground.work_queue import WorkQueue
from plumbline.judging.citations import TooManyCitations, judge_citations
from plumbline.judging.judge.metrics import (
    Estimator,
    Metric,
    MetricResult,
    MetricStatus,
    estimate_metrics,
    non_empty_fields,
)
from plumbline.judging.ports.exchange import Ledger, Usage
from plumbline.judging.ports.observation import NULL_OBSERVER, Observer
from plumbline.judging.sample_result import SampleResult, SampleStatus, join_turns
from plumbline.judging.text import offload
from plumbline.judging.text.offload import SharedInterpreter
from plumbline.judging.text.reference import exact_match, token_f1
from plumbline.judging.text.sample import Sample, turn_sample
from plumbline.judging.text.scores import PassCriterion, agreement, confidence, contexts_used, score
from plumbline.judging.text.segmented_sample import ContextIndex, SegmentedSample, context_utilization, segment
from plumbline.judging.text.verdicts import (
    NO_ANSWERS,
    Claim,
    Judgement,
    MetricAnswers,
    PassRule,
    Scores,
    TierDecision,
    Verdict,
    whole_sentence_claim,
)
from plumbline.judging.tiers.calibration import CalibrationTable
from plumbline.judging.tiers.cascade import CascadeResult, JudgeCascade
from plumbline.judging.tiers.lexical import LexicalTier
from plumbline.judging.tiers.tier import JudgeOptions, TierName

T = TypeVar("T")

_NO_CALIBRATIONS = CalibrationTable(())


# Samples that are worked on at a time, and a first guess of the characters a second, by what works on them: the event
# loop (short texts, tier lexical), the scoring threads, or the model of a tier. Judges have limits of their own.
# Two long texts at a time take as long as one after the other, and `/healthz` waits twice as long for the interpreter.
_WORK_LIMITS = {"loop": (1, 1_000_000), "threads": (4, 1_000_000), "long": (1, 1_000_000), "model": (8, 50_000)}

# Flag of a result whose tier gives no answer as much as the threshold.
UNREACHABLE = "threshold_unreachable"


class Scorer:
    """Scores samples with one cascade. CPU work runs in `executor`, off the event loop, unless it is small.

    `calibrations` are for citations.
    """

    def __init__(
        self,
        cascade: JudgeCascade,
        executor: Executor,
        *,
        observer: Observer = NULL_OBSERVER,
        calibrations: CalibrationTable = _NO_CALIBRATIONS,
    ) -> None:
        self._cascade = cascade
        self._calibrations = calibrations
        self._executor = executor
        self._observer = observer
        self.interpreter = SharedInterpreter()
        self.work = {
            name: WorkQueue(limit=limit, characters_per_second=rate) for name, (limit, rate) in _WORK_LIMITS.items()
        }

    async def score(self, sample: Sample, options: JudgeOptions) -> SampleResult:
        """Return the result of a sample. A tier that cannot answer is recorded in it; a bug in a tier raises.

        Of a conversation, each turn is judged on its own, all at once, within one deadline and one bound on cost.

        Raises TooBusy at once if so much waits that the deadline would pass; a sample that can wait, waits.
        """
        size = offload.count_characters(sample)
        queue = self._choose_queue(options, size)
        if queue is None:
            return await self._score_now(sample, options, size)
        caller = f"{options.tenant} {options.can_wait}"
        deadline = None if options.can_wait else options.deadline_seconds
        async with queue.turn(caller, size, seconds=deadline) as waited:
            if deadline is not None:
                options = replace(options, deadline_seconds=max(0.0, deadline - waited))
            return await self._score_now(sample, options, size)

    def _choose_queue(self, options: JudgeOptions, size: int) -> WorkQueue | None:
        first = self._cascade.first_asked(options.tiers)
        if first is TierName.LEXICAL:
            if size <= offload.SMALL_CHARACTERS:
                return self.work["loop"]
            return self.work["threads" if size <= offload.LONG_CHARACTERS else "long"]
        return None if first in (None, TierName.LLM) else self.work["model"]

    async def _score_now(self, sample: Sample, options: JudgeOptions, size: int) -> SampleResult:
        ledger = Ledger(options.max_cost, options.can_wait)
        options = replace(options, ledger=ledger)
        with self.interpreter.yield_often(size):
            if sample.turns:
                scored = (self._score_with_metrics(turn_sample(sample, turn), options) for turn in sample.turns)
                result = replace(join_turns(sample, await asyncio.gather(*scored)), usage=ledger.usage)
            else:
                result = await self._score_with_metrics(sample, options)
        scores, rule = result.scores, result.passed_by
        if scores is not None and rule is not None:
            self._observer.on_decision(result.tier or "none", rule, passed=result.passed, score=scores.faithfulness)
        return result

    async def _score_with_metrics(self, sample: Sample, options: JudgeOptions) -> SampleResult:
        result, answers = await self._score_sample(sample, options)
        if not options.metrics:
            return result
        work = partial(_measure_metrics, sample, options, result, answers)
        # The first comparison with a reference imports nltk.
        is_small = offload.is_small(sample) and not any(metric.compare for metric in options.metrics)
        metrics = await offload.run(work, self._executor, inline=is_small)
        return replace(result, metrics=metrics)

    async def _score_sample(self, sample: Sample, options: JudgeOptions) -> tuple[SampleResult, MetricAnswers]:
        until = (started := time.monotonic()) + options.deadline_seconds
        size = offload.count_characters(sample)
        small = size <= offload.SMALL_CHARACTERS
        try:
            async with asyncio.timeout(None if small else options.deadline_seconds):
                with work_deadline(until):
                    case, decided = await offload.run(partial(_prepare, sample, options), self._executor, inline=small)
        except (TimeoutError, TierFailure):
            # The cascade then records that no tier was asked.
            case, decided = SegmentedSample(sample, (), (), (), ContextIndex(()), "en"), None
        if decided is not None:
            cite = partial(self._with_citations, case, options, decided, until)
            return await offload.run(cite, self._executor, inline=small), NO_ANSWERS
        # The result of an answer takes about as long as reading it did.
        kept = 0.0 if small else (time.monotonic() - started) * len(sample.answer) / size
        left = max(0.0, until - time.monotonic() - kept)
        cascade = await self._cascade.judge(case, options, tiers=options.tiers, deadline_seconds=left)
        until += cascade.waited
        result = await offload.run(
            lambda: self._with_citations(case, options, _result(case, options, cascade), until),
            self._executor,
            inline=small,
        )
        if cascade.tier in (None, TierName.LLM) or not options.metrics:
            return result, cascade.judgement.metrics if cascade.judgement else NO_ANSWERS
        return result, await offload.run(
            lambda: self._estimate(case, options.metrics, until), self._executor, inline=False
        )

    def _estimate(self, case: SegmentedSample, metrics: Sequence[Metric], until: float) -> MetricAnswers:
        lexical = LexicalTier(self._calibrations, self._executor)

        def support(other: SegmentedSample) -> float | None:
            try:
                scores = score(lexical.judge_now(other))
            except TierFailure as failure:
                if failure.reason is FailureReason.TIMEOUT:
                    raise
                return None
            return scores.faithfulness if scores else None

        try:
            with work_deadline(until):
                return estimate_metrics(metrics, Estimator(case, support))
        except TierFailure:
            return NO_ANSWERS

    def _with_citations(
        self, case: SegmentedSample, options: JudgeOptions, result: SampleResult, until: float
    ) -> SampleResult:
        try:
            with work_deadline(until):
                citations = judge_citations(
                    case, result.claims, tier=result.tier, calibrations=self._calibrations, base=options.citation_base
                )
        except (TooManyCitations, TierFailure):
            return replace(result, flags=(*result.flags, "citations_not_judged"))
        if citations is None:
            return result
        missing = any(each.mark.context is None for each in citations.citations)
        flags = (*result.flags, *(("citation_without_passage",) if missing else ()))
        return replace(result, citations=citations, flags=flags)

    async def offload(self, work: Callable[[], T], *, inline: bool = False) -> T:
        """Run `work` off the event loop; on it if `inline`, for work too small to be worth a hop to a thread."""
        return await offload.run(work, self._executor, inline=inline)


def _measure_metrics(
    sample: Sample, options: JudgeOptions, result: SampleResult, answers: MetricAnswers
) -> tuple[MetricResult, ...]:
    """Return the results of the metrics asked for, each with a value or the reason why it has none."""
    if result.status is not SampleStatus.JUDGED:
        otherwise = result.status.value
    elif result.tier is None:
        otherwise = "no_contexts"
    else:
        otherwise = f"not_by_tier_{result.tier.value}"
    spoken = non_empty_fields(sample)

    def repeat_score(name: str) -> MetricResult:
        value = getattr(result if result.scores is None or name == "context_utilization" else result.scores, name, None)
        status = MetricStatus.UNCALIBRATED if "uncalibrated" in result.flags else MetricStatus.JUDGED
        if value is None:
            return MetricResult(name, None, MetricStatus.NOT_JUDGED, result.status.value)
        return MetricResult(name, value, status)

    def measure(metric: Metric) -> MetricResult:
        if metric.score:
            return repeat_score(metric.score)
        if metric.compare:
            return metric.compare_words(sample)
        return metric.result(spoken, answers, claims=result.claims, otherwise=otherwise)

    return tuple(map(measure, options.metrics))


def _prepare(sample: Sample, options: JudgeOptions) -> tuple[SegmentedSample, SampleResult | None]:
    """Return the segmented sample, and its result where it needs no judge."""
    case = segment(sample)
    if case.needs_judge:
        return case, None
    if case.is_empty:
        return case, _build(case, options, SampleStatus.EMPTY_ANSWER)
    checkable, no_context = frozenset(case.checkable), CodedText("no_context_given")
    claims = [
        whole_sentence_claim(position, sentence, verdict=Verdict.NOT_MENTIONED, support=0.0, reason=no_context)
        if position in checkable
        else whole_sentence_claim(position, sentence, verdict=Verdict.NOT_A_CLAIM)
        for position, sentence in enumerate(case.sentences)
    ]
    if not checkable:
        return case, _build(case, options, SampleStatus.ABSTAINED, claims=claims)
    scores = Scores(0.0, 1.0, 0.0, 0.0, 1.0, lowest_support=0.0, unsupported_claims=len(checkable))
    return case, _build(case, options, SampleStatus.JUDGED, scores=scores, claims=claims, flags=("no_context",))


def _result(case: SegmentedSample, options: JudgeOptions, cascade: CascadeResult) -> SampleResult:
    judgement = cascade.judgement
    if judgement is None:
        warnings: tuple[CodedText, ...] = (CodedText("no_tier_answered"),)
        return _build(case, options, SampleStatus.NOT_JUDGED, cascade=cascade, warnings=warnings)
    scores = score(judgement)
    warnings = tuple(
        CodedText("tier_failed", tier=attempt.tier, reason=attempt.reason)
        for attempt in cascade.attempts
        if attempt.reason is not None
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
        flags=(*judgement.flags, *flags),
        warnings=(*warnings, *judgement.warnings),
    )


def unreachable_warning(threshold: float, highest_by_tier: Mapping[str, float]) -> CodedText:
    """Return the warning about a threshold that is above the highest score of these tiers."""
    tiers = tuple(f"{tier} {highest:g}" for tier, highest in highest_by_tier.items())
    return CodedText("threshold_unreachable", threshold=threshold, tiers=tiers)


def _build(
    case: SegmentedSample,
    options: JudgeOptions,
    status: SampleStatus,
    *,
    scores: Scores | None = None,
    claims: Sequence[Claim] = (),
    cascade: CascadeResult | None = None,
    flags: tuple[str, ...] = (),
    warnings: tuple[CodedText, ...] = (),
) -> SampleResult:
    judgement = cascade.judgement if cascade else None
    decision = _decide(options, scores, judgement) if scores else None
    reference = case.source.reference
    return SampleResult(
        status=status,
        tier=cascade.tier if cascade else None,
        scores=scores,
        passed=decision.passed if decision else None,
        passed_by=decision.rule if decision else None,
        threshold=decision.threshold if decision else options.threshold,
        confidence=decision.right if decision else None,
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
        usage=options.ledger.usage if cascade else Usage(),
        windows=judgement.windows if judgement else 1,
        flags=flags,
        warnings=warnings,
    )


def _decide(options: JudgeOptions, scores: Scores, judgement: Judgement | None) -> TierDecision:
    """Return the decision by the caller's threshold; without one by the tier's own rule; without one of all claims."""
    if judgement and judgement.decision and options.threshold is None:
        return judgement.decision
    criterion = PassCriterion(options.threshold)
    passed, sure = criterion.passes(scores), None
    if judgement and judgement.votes:
        sure = agreement(judgement.votes, passed=passed, criterion=criterion)
    elif judgement:
        # A decision model is calibrated on the sentence with the least support.
        decisive = scores.lowest_support if judgement.has_verdict_kinds else scores.faithfulness
        sure = confidence(decisive, passed=passed, reliability=judgement.reliability)
    if judgement and judgement.is_unsure:
        return TierDecision(None, PassRule.UNSURE, criterion.threshold, sure)
    return TierDecision(passed, criterion.rule, criterion.threshold, sure)
