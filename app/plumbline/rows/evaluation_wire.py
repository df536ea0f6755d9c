"""Conversion between the wire and the inside: requests to samples and options, results to responses."""

import re
from bisect import bisect_left
from collections.abc import Callable, Collection
from dataclasses import fields
from typing import Literal

from plumbline.ground.errors import InvalidInput
from plumbline.ground.settings import Settings
from plumbline.judging.ports.exchange import Usage
from plumbline.judging.scoring import SampleResult
from plumbline.judging.text.sample import Sample
from plumbline.judging.text.scores import claim_weights, count_verdicts
from plumbline.judging.text.verdicts import Claim, Evidence, Scores
from plumbline.judging.tiers.tier import JudgeOptions, TierName
from plumbline.schemas.evaluation import (
    AttemptItem,
    ClaimItem,
    EvaluationOptions,
    EvaluationResult,
    EvidenceItem,
    JudgeItem,
    RequestLimits,
    SampleTexts,
    SentenceItem,
    Tokens,
    UsageItem,
    VerdictCounts,
)

OffsetMap = Callable[[int], int]

_BEYOND_BMP = re.compile("[\U00010000-\U0010ffff]")
_RATES = tuple(each.name for each in fields(Scores) if each.name != "unsupported_claims")
_USAGE_FIELDS = tuple(each.name for each in fields(Usage))
# Further digits are floating-point noise.
_DECIMALS = 6


def request_limits(settings: Settings) -> RequestLimits:
    """Return the limits of one sample."""
    return RequestLimits(
        contexts=settings.max_contexts,
        context_characters=settings.max_context_characters,
        answer_characters=settings.max_answer_characters,
        question_characters=settings.max_question_characters,
    )


def to_sample(texts: SampleTexts) -> Sample:
    """Return the sample of a request."""
    return Sample(texts.question, tuple(texts.contexts), texts.answer, texts.reference)


def check_judge_names(request: EvaluationOptions, judge_names: Collection[str], *, place: str = "") -> None:
    """Raise InvalidInput if the options name a judge that is not configured.

    Args:
        place: JSON pointer to the options in the body.
    """
    for field, names in (("judges", request.judges or ()), ("escalation", (request.escalation,))):
        unknown = [name for name in names if name is not None and name not in judge_names]
        if unknown:
            known = f"known are {', '.join(judge_names)}" if judge_names else "no judge is configured"
            raise InvalidInput(f"no judge is named {unknown[0][:64]!r}; {known}", place=f"{place}/{field}")


def build_options(
    request: EvaluationOptions,
    settings: Settings,
    *,
    judge_names: Collection[str],
    tenant: str = "",
    place: str = "",
    can_wait: bool = False,
) -> JudgeOptions:
    """Return the request's options, with defaults from the settings, which also bound deadline and cost.

    Args:
        place: JSON pointer to the options in the body.
        can_wait: the sample is one of many.

    Raises:
        InvalidInput: as `check_judge_names`.
    """
    check_judge_names(request, judge_names, place=place)
    costs = [cost for cost in (request.max_cost, settings.llm_max_cost) if cost is not None]
    return JudgeOptions(
        tenant=tenant,
        judges=tuple(request.judges or ()),
        samples=request.samples,
        escalation=request.escalation,
        cache=request.cache,
        can_wait=can_wait,
        max_cost=min(costs, default=None),
        tiers=None if request.tiers is None else tuple(TierName(tier) for tier in request.tiers),
        threshold=settings.threshold if request.threshold is None else request.threshold,
        deadline_seconds=min(request.deadline_seconds or settings.deadline_seconds, settings.deadline_seconds),
    )


def to_wire(
    result: SampleResult,
    sample: Sample,
    *,
    sample_id: str | None,
    offset_unit: Literal["code_point", "utf16"] = "code_point",
) -> EvaluationResult:
    """Return the result of a sample as it is sent, offsets in `offset_unit`."""
    in_answer = _offset_map(sample.answer, offset_unit)
    in_contexts = [_offset_map(context, offset_unit) for context in sample.contexts]
    scores, account = result.scores, result.judge
    used_share = None
    if scores is not None and result.contexts_given:
        used_share = len(result.contexts_used) / result.contexts_given
    return EvaluationResult(
        id=sample_id,
        status=result.status.value,
        tier=None if result.tier is None else result.tier.value,
        **{name: _rounded(None if scores is None else getattr(scores, name)) for name in _RATES},
        context_utilization=_rounded(result.context_utilization),
        contexts_used=list(result.contexts_used),
        contexts_used_share=_rounded(used_share),
        token_f1=_rounded(result.token_f1),
        exact_match=result.exact_match,
        unsupported_claims=None if scores is None else scores.unsupported_claims,
        passed=result.passed,
        passed_by=None if result.passed_by is None else result.passed_by.value,
        threshold=result.threshold,
        confidence=_rounded(result.confidence),
        sentences=[
            SentenceItem(
                index=index,
                text=sentence.text,
                start=in_answer(sentence.start),
                end=in_answer(sentence.end),
                kind=sentence.kind,
            )
            for index, sentence in enumerate(result.sentences)
        ],
        claims=[
            _claim(claim, weight, in_answer, in_contexts)
            for claim, weight in zip(result.claims, claim_weights(result.claims), strict=True)
        ],
        counts=VerdictCounts(**{verdict.value: count for verdict, count in count_verdicts(result.claims).items()}),
        attempts=[
            AttemptItem(
                tier=attempt.tier.value,
                outcome="answered" if attempt.answered else "failed",
                reason=attempt.reason,
                detail=attempt.detail,
                seconds=round(attempt.seconds, 4),
                calls=attempt.calls,
            )
            for attempt in result.attempts
        ],
        judge=account
        and JudgeItem(
            model=account.model,
            prompt=account.prompt,
            prompt_digest=account.prompt_digest,
            calls=account.calls,
            tokens=Tokens(prompt=account.prompt_tokens, completion=account.completion_tokens),
            cache=account.cache,
            controls=account.controls,
            controls_right=account.controls_right,
        ),
        usage=UsageItem(**{name: getattr(result.usage, name) for name in _USAGE_FIELDS}),
        windows=result.windows,
        flags=list(result.flags),
        warnings=list(result.warnings),
    )


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, _DECIMALS)


def _claim(claim: Claim, weight: float, in_answer: OffsetMap, in_contexts: list[OffsetMap]) -> ClaimItem:
    return ClaimItem(
        id=claim.id,
        sentence=claim.sentence,
        text=claim.text,
        start=in_answer(claim.start),
        end=in_answer(claim.end),
        verdict=claim.verdict.value,
        support=_rounded(claim.support),
        weight=round(weight, _DECIMALS),
        reason=claim.reason,
        evidence=[_evidence(evidence, in_contexts) for evidence in claim.evidence],
        flags=list(claim.flags),
    )


def _evidence(evidence: Evidence, in_contexts: list[OffsetMap]) -> EvidenceItem:
    start, end = evidence.start, evidence.end
    if evidence.context is not None and start is not None and end is not None:
        to_unit = in_contexts[evidence.context]
        start, end = to_unit(start), to_unit(end)
    return EvidenceItem(
        context=evidence.context, quote=evidence.quote, start=start, end=end, verified=evidence.verified
    )


def _offset_map(text: str, unit: str) -> OffsetMap:
    """Return the map from code points to `unit`: in UTF-16, characters beyond the BMP count twice."""
    if unit == "code_point" or text.isascii():
        return lambda offset: offset
    wide = [match.start() for match in _BEYOND_BMP.finditer(text)]
    return lambda offset: offset + bisect_left(wide, offset)
