"""The result of a sample, and the one result of a conversation's turns."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from plumbline.ground.texts import CodedText
from plumbline.judging.citations import Citation, Citations
from plumbline.judging.judge.metrics import MetricResult, MetricStatus
from plumbline.judging.ports.exchange import Usage
from plumbline.judging.text.sample import Sample, Turn
from plumbline.judging.text.scores import contexts_used
from plumbline.judging.text.segmentation import Sentence
from plumbline.judging.text.verdicts import Claim, JudgeAccount, PassRule, Scores
from plumbline.judging.tiers.cascade import Attempt
from plumbline.judging.tiers.tier import TierName


class SampleStatus(StrEnum):
    JUDGED = "judged"
    ABSTAINED = "abstained"
    EMPTY_ANSWER = "empty_answer"
    NOT_JUDGED = "not_judged"


@dataclass(frozen=True, slots=True)
class SampleResult:
    """The result of one sample. `scores` and `passed_by` are None unless the status is `judged`.

    `passed` is None then, too, and where the tier is unsure.

    `threshold`: faithfulness that was compared; None where every claim had to be supported, and where nothing was.
    `turns`: the results of a conversation's turns, in order.
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
    warnings: tuple[CodedText, ...]
    citations: Citations | None = None
    metrics: tuple[MetricResult, ...] = ()
    turns: tuple["SampleResult", ...] = ()


def join_turns(sample: Sample, results: Sequence[SampleResult]) -> SampleResult:
    """Return the result of a conversation: means over its judged turns, and every turn must pass.

    Sentences and claims are those of all turns; their places count in the answers of all turns, contexts in those of
    the conversation. A turn that no tier could judge leaves the conversation without a score.
    """
    tiers = list(TierName)
    judged = [each for each in results if each.scores is not None]
    is_whole = bool(judged) and all(each.status is not SampleStatus.NOT_JUDGED for each in results)
    # The lowest tier: what its turns are worth, the conversation is.
    leader = max(judged or results, key=lambda each: -1 if each.tier is None else tiers.index(each.tier))
    seen = list(dict.fromkeys(each.tier for each in judged if each.tier))
    flags = list(dict.fromkeys(flag for each in results for flag in each.flags))
    warnings = list(dict.fromkeys(warning for each in results for warning in each.warnings))
    if len(seen) > 1:
        flags.append("mixed_tiers")
        warnings.append(CodedText("turns_of_several_tiers", count=len(seen)))
    statuses = {each.status for each in results}
    status = next((each for each in (SampleStatus.NOT_JUDGED, *SampleStatus) if each in statuses), leader.status)
    citations = [each.citations for each in results if each.citations is not None]
    # The parts of the turns' results, with places in the conversation.
    sentences: list[Sentence] = []
    claims: list[Claim] = []
    marks: list[Citation] = []
    uncited: list[int] = []
    for turn, result in zip(sample.turns, results, strict=True):
        first = len(sentences)
        sentences += [
            each._replace(start=each.start + turn.start, end=each.end + turn.start) for each in result.sentences
        ]
        claims += [_shifted_claim(each, turn, first) for each in result.claims]
        if (found := result.citations) is not None:
            marks += [_shifted_citation(each, turn, first) for each in found.citations]
            uncited += [position + first for position in found.uncited]
    calls = [each.judge for each in results if each.judge is not None]
    decisions = {each.passed for each in judged} if is_whole else {None}
    # One turn that fails decides; without one, one that is unsure leaves the conversation open
    passed = False if False in decisions else None if None in decisions else True
    rule = PassRule.UNSURE if passed is None else next(each.passed_by for each in judged if each.passed is passed)
    return replace(
        leader,
        status=status,
        scores=_mean_scores([each.scores for each in judged if each.scores]) if is_whole else None,
        passed=passed,
        passed_by=rule if is_whole else None,
        confidence=min((each.confidence for each in judged if each.confidence is not None), default=None),
        context_utilization=_mean([each.context_utilization for each in results]),
        token_f1=results[-1].token_f1,
        exact_match=results[-1].exact_match,
        sentences=tuple(sentences),
        claims=tuple(claims),
        contexts_used=contexts_used(claims),
        contexts_given=len(sample.contexts),
        attempts=tuple(attempt for each in results for attempt in each.attempts),
        judge=leader.judge
        and replace(
            leader.judge,
            calls=sum(each.calls for each in calls),
            prompt_tokens=_total([each.prompt_tokens for each in calls]),
            completion_tokens=_total([each.completion_tokens for each in calls]),
        ),
        windows=max(each.windows for each in results),
        flags=tuple(flags),
        warnings=tuple(warnings),
        citations=Citations(
            tuple(marks),
            _mean([each.recall for each in citations]),
            _mean([each.precision for each in citations]),
            tuple(uncited),
        )
        if citations
        else None,
        metrics=tuple(_mean_metric(each) for each in zip(*(each.metrics for each in results), strict=True)),
        turns=tuple(results),
    )


def _mean_metric(turns: Sequence[MetricResult]) -> MetricResult:
    """Return the mean over the turns that have a value; the verdicts stay with the turns."""
    known = [each for each in turns if each.value is not None]
    if not known:
        return replace(turns[0], verdicts=())
    status = next((each.status for each in known if each.status is MetricStatus.UNCALIBRATED), known[0].status)
    return MetricResult(turns[0].name, _mean([each.value for each in known]), status)


def _mean(numbers: Sequence[float | None]) -> float | None:
    known = [number for number in numbers if number is not None]
    return sum(known) / len(known) if known else None


def _total(numbers: Sequence[int | None]) -> int | None:
    return None if None in numbers else sum(number or 0 for number in numbers)


def _mean_scores(scores: Sequence[Scores]) -> Scores:
    faithfulness = sum(each.faithfulness for each in scores) / len(scores)
    return Scores(
        faithfulness=faithfulness,
        hallucination_rate=1.0 - faithfulness,
        faithfulness_strict=_mean([each.faithfulness_strict for each in scores]),
        contradiction_rate=_mean([each.contradiction_rate for each in scores]),
        unsupported_rate=_mean([each.unsupported_rate for each in scores]),
        lowest_support=min(each.lowest_support for each in scores),
        unsupported_claims=sum(each.unsupported_claims for each in scores),
    )


def _shifted_claim(claim: Claim, turn: Turn, first: int) -> Claim:
    evidence = tuple(
        each if each.context is None else replace(each, context=turn.contexts[each.context]) for each in claim.evidence
    )
    return replace(
        claim,
        id=f"{claim.sentence + first}.{claim.id.partition('.')[2]}",
        sentence=claim.sentence + first,
        start=claim.start + turn.start,
        end=claim.end + turn.start,
        evidence=evidence,
    )


def _shifted_citation(citation: Citation, turn: Turn, first: int) -> Citation:
    mark, better = citation.mark, citation.better_context
    return replace(
        citation,
        mark=replace(
            mark,
            start=mark.start + turn.start,
            end=mark.end + turn.start,
            context=None if mark.context is None else turn.contexts[mark.context],
        ),
        sentence=citation.sentence + first,
        better_context=None if better is None else turn.contexts[better],
    )
