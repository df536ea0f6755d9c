"""Conversion between the wire and the inside: requests to samples and options, results to responses."""

import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

from plumbline.ground.errors import InvalidInput
from plumbline.ground.judge_settings import DEFAULT_JUDGE
from plumbline.ground.settings import Settings
from plumbline.ground.texts import CodedText, Language, coded_members, encode_fields, render
from plumbline.judging.citations import Citation
from plumbline.judging.judge.metrics import Metric, criterion, find_metrics
from plumbline.judging.judge.probes import PASSAGES
from plumbline.judging.sample_result import SampleResult
from plumbline.judging.text.sample import NO_LABELS, ContextLabels, Sample, join_labels
from plumbline.judging.text.scores import claim_weights, count_verdicts
from plumbline.judging.text.verdicts import Claim, Evidence, is_duplicate
from plumbline.judging.text.words import detect_language
from plumbline.judging.tiers.judgement import HARD_REASON
from plumbline.judging.tiers.tier import JudgeOptions, TierName
from plumbline.rows.records.conversations import parse_conversation
from plumbline.rows.records.record import BadRow, parse_passage
from plumbline.rows.scored_row import usage_item
from plumbline.schemas.conversation import ConversationTexts
from plumbline.schemas.evaluation import (
    EvaluationOptions,
    EvaluationResult,
    RequestLimits,
    SampleTexts,
)
from plumbline.schemas.result_parts import (
    MOST_QUOTED_CHARACTERS,
    AttemptItem,
    CitationItem,
    ClaimItem,
    ConversationItem,
    DecidingClaim,
    DecisionItem,
    EvidenceItem,
    JudgeItem,
    MetricItem,
    MetricVerdictItem,
    ScoreItems,
    Tokens,
    TraceItem,
    TurnItem,
    VerdictCounts,
    WarningItem,
    deciding_claims,
)

OffsetMap = Callable[[int], int]
ToEvidence = Callable[[Evidence], EvidenceItem]

_BEYOND_BMP = re.compile("[\U00010000-\U0010ffff]")
_RATES = ("faithfulness_strict", "contradiction_rate", "unsupported_rate", "lowest_support")
# Further digits are floating-point noise.
_DECIMALS = 6


def request_limits(settings: Settings) -> RequestLimits:
    return RequestLimits(
        contexts=settings.max_contexts,
        context_characters=settings.max_context_characters,
        answer_characters=settings.max_answer_characters,
        question_characters=settings.max_question_characters,
    )


def to_sample(texts: SampleTexts | ConversationTexts, limits: RequestLimits | None = None) -> Sample:
    """Return the sample of a request.

    `limits`: of a conversation, which are those of one sample with the contexts and answers of all turns. Raises
    InvalidInput: a message has no known form, or the conversation is too long.
    """
    if isinstance(texts, ConversationTexts):
        given = texts.model_dump(include=set(ConversationTexts.model_fields), exclude_unset=True)
        try:
            conversation = parse_conversation(given)
        except BadRow as bad:
            raise InvalidInput(bad.text, place="/messages") from None
        if limits is not None:
            _check_length(conversation, limits)
        return conversation
    items = [each if isinstance(each, str) else each.model_dump() for each in texts.contexts]
    passages = [parse_passage(each, f"contexts[{place}]") for place, each in enumerate(items)]
    return Sample(
        texts.question,
        tuple(text for text, _ in passages),
        texts.answer,
        texts.reference,
        join_labels([labels for _, labels in passages]),
    )


def _check_length(sample: Sample, limits: RequestLimits) -> None:
    for name, found, most in (
        (CodedText("contexts"), len(sample.contexts), limits.contexts),
        (CodedText("context_characters"), sum(map(len, sample.contexts)), limits.context_characters),
        (CodedText("answer_characters"), len(sample.answer), limits.answer_characters),
        (
            CodedText("question_characters"),
            max((len(each.question) for each in sample.turns), default=0),
            limits.question_characters,
        ),
    ):
        if found > most:
            long = CodedText("conversation_too_long", count=found, what=name, limit=most)
            raise InvalidInput(long, place="/messages")


def check_judge_names(request: EvaluationOptions, judge_names: Collection[str], *, place: str = "") -> None:
    """Raise InvalidInput if the options name a judge that is not configured, or an unknown metric.

    `place`: JSON pointer to the options in the body.
    """
    for field, names in (("judges", request.judges or ()), ("escalation", (request.escalation,))):
        unknown = [name for name in names if name is not None and name not in judge_names]
        if unknown:
            flaw = CodedText("judge_not_named_at_all", name=unknown[0][:64])
            if judge_names:
                flaw = CodedText("judge_not_named", name=unknown[0][:64], names=tuple(judge_names))
            raise InvalidInput(flaw, place=f"{place}/{field}")
    metrics_of(request, place=place)


def metrics_of(request: EvaluationOptions, *, place: str = "") -> tuple[Metric, ...]:
    """Return the metrics and criteria of the options; raise InvalidInput for one that is unknown or there twice."""
    criteria = request.criteria or ()
    names = [each.name for each in criteria]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InvalidInput(CodedText("criterion_repeated", name=twice), place=f"{place}/criteria")
    own = (criterion(each.name, each.question, each.labels, each.quote_from) for each in criteria)
    return (*find_metrics(request.metrics or (), place=place), *own)


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

    `place`: JSON pointer to the options in the body. `can_wait`: the sample is one of many. Raises InvalidInput: as
    `check_judge_names`.
    """
    check_judge_names(request, judge_names, place=place)
    costs = [cost for cost in (request.max_cost, settings.llm_max_cost) if cost is not None]
    usual = settings.llm_escalation
    usual_escalation = None if usual in (request.judges or (DEFAULT_JUDGE,)) else usual
    return JudgeOptions(
        tenant=tenant,
        judges=tuple(request.judges or ()),
        samples=request.samples,
        escalation=request.escalation or usual_escalation,
        disputed=request.disputed,
        citation_base=request.citation_base,
        cache=request.cache,
        metrics=metrics_of(request, place=place),
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
    language: Language | None = None,
) -> EvaluationResult:
    """Return the result of a sample as it is sent.

    `language`: of our texts; None: that of the answer, if we write it, else English.
    """
    if language is None:
        language = "zh" if detect_language(sample.answer) == "zh" else "en"
    in_answer = _offset_map(sample.answer, offset_unit)
    in_contexts = [_offset_map(context, offset_unit) for context in sample.contexts]
    labels = [each for _, each in sample.labelled_contexts]
    to_evidence = partial(_evidence, in_contexts=in_contexts, labels=labels)
    cited, scores = result.citations, result.scores
    at_fault = _find_deciding(result)
    claims = [
        replace(claim, reason=CodedText("least_supported")) if claim.id in at_fault and not claim.reason else claim
        for claim in result.claims
    ]
    return EvaluationResult(
        id=sample_id,
        status=result.status.value,
        tier=None if result.tier is None else result.tier.value,
        faithfulness=scores and _rounded(scores.faithfulness),
        hallucination_rate=scores and _rounded(scores.hallucination_rate),
        context_utilization=_rounded(result.context_utilization),
        passed=result.passed,
        decision=_decision(result, [claim for claim in claims if claim.id in at_fault], language),
        confidence=_rounded(result.confidence),
        claims=[
            _claim(claim, weight, in_answer, to_evidence, language)
            for claim, weight in zip(claims, claim_weights(result.claims), strict=True)
        ],
        counts=VerdictCounts(**{verdict.value: count for verdict, count in count_verdicts(result.claims).items()}),
        citations=[_citation(each, in_answer, labels) for each in cited.citations] if cited else [],
        uncited_sentences=list(cited.uncited) if cited else [],
        metrics=_metrics(result, to_evidence),
        conversation=None if sample.conversation is None else _conversation(sample, result, in_answer),
        contexts_used=list(result.contexts_used),
        scores=_scores(result),
        trace=_trace(result, language),
        flags=list(result.flags),
        warnings=[
            WarningItem(text=render(each, language), code=each.code, fields=encode_fields(each.fields))
            for each in result.warnings
        ],
        offset_unit=offset_unit,
    )


def _find_deciding(result: SampleResult) -> Collection[str]:
    if result.passed_by is None or result.passed is not False:
        return ()
    checkable = {
        claim.id: (claim.verdict.value, claim.support or 0.0)
        for claim in result.claims
        if claim.is_checkable and not is_duplicate(claim)
    }
    flagged = [claim.id for claim in result.claims if HARD_REASON in claim.flags]
    return set(deciding_claims(result.passed_by.value, checkable, flagged))


def _decision(result: SampleResult, at_fault: Sequence[Claim], language: Language) -> DecisionItem | None:
    if result.passed_by is None:
        return None
    return DecisionItem(
        rule=result.passed_by.value,
        threshold=result.threshold,
        because=[
            DecidingClaim(
                claim=claim.id,
                sentence=result.sentences[claim.sentence].text[:MOST_QUOTED_CHARACTERS],
                reason=claim.reason and render(claim.reason, language),
            )
            for claim in at_fault
        ],
    )


def _scores(result: SampleResult) -> ScoreItems:
    scores, cited = result.scores, result.citations
    found = {} if scores is None else {name: _rounded(getattr(scores, name)) for name in _RATES}
    if scores is not None and result.contexts_given:
        found["contexts_used_share"] = _rounded(len(result.contexts_used) / result.contexts_given)
    return ScoreItems(
        **found,
        unsupported_claims=scores and scores.unsupported_claims,
        token_f1=_rounded(result.token_f1),
        exact_match=result.exact_match,
        citation_recall=cited and _rounded(cited.recall),
        citation_precision=cited and _rounded(cited.precision),
    )


def _trace(result: SampleResult, language: Language) -> TraceItem:
    account = result.judge
    return TraceItem(
        attempts=[
            AttemptItem(
                tier=attempt.tier.value,
                outcome="answered" if attempt.answered else "failed",
                reason=attempt.reason,
                **coded_members("detail", attempt.detail, language),
                seconds=round(attempt.seconds, 4),
                calls=attempt.calls,
            )
            for attempt in result.attempts
        ],
        judge=account
        and JudgeItem(
            tokens=Tokens(prompt=account.prompt_tokens, completion=account.completion_tokens),
            **{name: getattr(account, name) for name in JudgeItem.model_fields if name != "tokens"},
        ),
        usage=usage_item(result.usage),
        windows=result.windows,
    )


def _metrics(result: SampleResult, to_evidence: ToEvidence) -> dict[str, MetricItem]:
    return {
        metric.name: MetricItem(
            value=_rounded(metric.value),
            status=metric.status.value,
            reason=metric.reason,
            parts=metric.parts and {name: _rounded(value) for name, value in metric.parts.items()},
            verdicts=[
                MetricVerdictItem(
                    of=verdict.probe,
                    context=int(verdict.id) - 1 if verdict.probe == PASSAGES.name else None,
                    text=verdict.text or None,
                    verdict=verdict.verdict,
                    sentences=list(verdict.sentences),
                    evidence=list(map(to_evidence, verdict.evidence)),
                    flags=list(verdict.flags),
                )
                for verdict in metric.verdicts
            ],
        )
        for metric in result.metrics
    }


def _conversation(sample: Sample, result: SampleResult, in_answer: OffsetMap) -> ConversationItem:
    turns: list[TurnItem] = []
    first = 0
    for turn, each in zip(sample.turns, result.turns, strict=True):
        scores, last = each.scores, first + len(each.sentences)
        turns.append(
            TurnItem(
                message=turn.message,
                start=in_answer(turn.start),
                end=in_answer(turn.end),
                sentences=list(range(first, last)),
                contexts=list(turn.contexts),
                status=each.status.value,
                tier=None if each.tier is None else each.tier.value,
                faithfulness=None if scores is None else _rounded(scores.faithfulness),
                lowest_support=None if scores is None else _rounded(scores.lowest_support),
                unsupported_claims=scores and scores.unsupported_claims,
                passed=each.passed,
                confidence=_rounded(each.confidence),
                flags=list(each.flags),
                metrics={metric.name: _rounded(metric.value) for metric in each.metrics},
            )
        )
        first = last
    lowest = min((each.faithfulness for each in turns if each.faithfulness is not None), default=None)
    return ConversationItem(lowest_faithfulness=lowest, turns=turns)


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, _DECIMALS)


def _citation(citation: Citation, in_answer: OffsetMap, labels: Sequence[ContextLabels]) -> CitationItem:
    mark = citation.mark
    return CitationItem(
        text=mark.text,
        start=in_answer(mark.start),
        end=in_answer(mark.end),
        sentence=citation.sentence,
        label=mark.label,
        context=mark.context,
        context_id=None if mark.context is None else labels[mark.context].id,
        verdict=citation.verdict.value,
        better_context=citation.better_context,
    )


def _claim(claim: Claim, weight: float, in_answer: OffsetMap, to_evidence: ToEvidence, language: Language) -> ClaimItem:
    return ClaimItem(
        id=claim.id,
        sentence=claim.sentence,
        text=claim.text,
        start=in_answer(claim.start),
        end=in_answer(claim.end),
        verdict=claim.verdict.value,
        support=_rounded(claim.support),
        judge=claim.judge,
        weight=round(weight, _DECIMALS),
        **coded_members("reason", claim.reason, language),
        evidence=list(map(to_evidence, claim.evidence)),
        flags=list(claim.flags),
    )


def _evidence(evidence: Evidence, in_contexts: list[OffsetMap], labels: Sequence[ContextLabels]) -> EvidenceItem:
    start, end = evidence.start, evidence.end
    named = NO_LABELS if evidence.context is None else labels[evidence.context]
    if evidence.context is not None and start is not None and end is not None:
        to_unit = in_contexts[evidence.context]
        lead = to_unit(named.lead)
        start, end = (None, None) if start < named.lead else (to_unit(start) - lead, to_unit(end) - lead)
    return EvidenceItem(
        context=evidence.context,
        context_id=named.id,
        quote=evidence.quote,
        start=start,
        end=end,
        verified=evidence.verified,
        kind=None if evidence.kind == "quoted" else evidence.kind,
    )


def _offset_map(text: str, unit: str) -> OffsetMap:
    """Return the map from code points to `unit`: in UTF-16, characters beyond the BMP count twice."""
    if unit == "code_point" or text.isascii():
        return lambda offset: offset
    wide = [match.start() for match in _BEYOND_BMP.finditer(text)]
    return lambda offset: offset + bisect_left(wide, offset)
