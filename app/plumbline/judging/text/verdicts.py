"""Claims with verdicts and evidence, and the marking of duplicate claims."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal

from plumbline.ground.texts import CodedText
from plumbline.judging.text.segmentation import Sentence
from plumbline.judging.text.words import normalise


class Verdict(StrEnum):
    """Verdict on a claim, given the contexts."""

    SUPPORTED = "supported"
    PARTIAL = "partial"
    CONTRADICTED = "contradicted"
    NOT_MENTIONED = "not_mentioned"
    NOT_A_CLAIM = "not_a_claim"


# DESIGN: partial credit of one half is a convention; `faithfulness_strict` counts it as none.
SUPPORT_BY_VERDICT = {
    Verdict.SUPPORTED: 1.0,
    Verdict.PARTIAL: 0.5,
    Verdict.CONTRADICTED: 0.0,
    Verdict.NOT_MENTIONED: 0.0,
}


class PassRule(StrEnum):
    """Rules by which an answer passes or fails."""

    ALL_SUPPORTED = "all_supported"
    # Each sentence is nearly copied, and none has a hard reason against it.
    COPIED = "copied"
    # A long answer to a question has a high score, and no sentence a hard reason against it.
    COVERED = "covered"
    # A number, name, link or code that no context has, a denial, or a sentence on another subject.
    HARD_REASON = "hard_reason"
    # The boundary of a detector.
    CALIBRATED = "calibrated"
    THRESHOLD = "threshold"
    # The tier cannot tell: the answer neither passed nor failed
    UNSURE = "unsure"


@dataclass(frozen=True, slots=True)
class TierDecision:
    """Decision of a tier without a judge where the caller sets no threshold; `passed` is None where it is unsure.

    `threshold`: faithfulness that decided, None where another measure did. `right`: share in [0, 1] of such decisions
    that agreed with people, labels as common as each other; None where it was not measured.
    """

    passed: bool | None
    rule: PassRule
    threshold: float | None = None
    right: float | None = None


# Flag of a judgement that a call which failed might have made better; it is not kept.
INCOMPLETE = "incomplete"


@dataclass(frozen=True, slots=True)
class Evidence:
    """A passage of a context. `verified`: our search found it, and `context[start:end]` is that passage.

    Unverified evidence is what a judge asserted: `context`, `start` and `end` are None. `located`: the judge named the
    context alone, and code found the passage in it that is nearest to the claim.
    """

    context: int | None
    quote: str
    start: int | None
    end: int | None
    verified: bool
    kind: Literal["quoted", "located"] = "quoted"


@dataclass(frozen=True, slots=True)
class Claim:
    """A checkable assertion of one sentence of the answer, with its verdict.

    `start`/`end` are the offsets of its sentence in the answer; `support` is in [0, 1], None when it is not a claim.
    `weight` is that of its sentence in the mean, above 0: 1 in tier llm, its length in the others. `judge`: the model
    that decided, where a second one was asked.
    """

    id: str
    sentence: int
    text: str
    start: int
    end: int
    verdict: Verdict
    support: float | None
    reason: str | None = None
    evidence: tuple[Evidence, ...] = ()
    flags: tuple[str, ...] = ()
    weight: float = 1.0
    judge: str | None = None

    @property
    def is_checkable(self) -> bool:
        return self.verdict is not Verdict.NOT_A_CLAIM


@dataclass(frozen=True, slots=True)
class JudgeAccount:
    """Identity and cost of the judge. Tokens are the provider's own count, None where it gave none.

    `model`: several are joined by ", ". `cache`: None for tiers without one; a hit cost nothing. `controls`: sentences
    with a known verdict that were judged along, None where there are none of the kind. `kind`: what the judge was asked
    with, where that was no chat.
    """

    model: str
    kind: str | None = None
    prompt: str | None = None
    prompt_digest: str | None = None
    calls: int = 0
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cache: Literal["hit", "miss", "bypass"] | None = None
    controls: int | None = None
    controls_right: int | None = None


@dataclass(frozen=True, slots=True)
class Scores:
    """Scores of one answer, each in [0, 1] or None where it is undefined.

    `faithfulness_strict`, `contradiction_rate` and `unsupported_rate` need verdict kinds: tier llm alone has them.
    `lowest_support` is the least support of a claim, `unsupported_claims` the number of those not `supported`.
    """

    faithfulness: float
    hallucination_rate: float
    faithfulness_strict: float | None
    contradiction_rate: float | None
    unsupported_rate: float | None
    lowest_support: float
    unsupported_claims: int


@dataclass(frozen=True, slots=True)
class MetricVerdict:
    """A judge's verdict for a metric other than faithfulness.

    `probe` is the list that it stood in, `id` what it is about there (the number of a context from 1, ...), `text` the
    part of it. `sentences` are positions in the answer. Evidence without a context stands in the answer or reference.
    """

    probe: str
    id: str
    verdict: str
    text: str = ""
    evidence: tuple[Evidence, ...] = ()
    sentences: tuple[int, ...] = ()
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MetricAnswers:
    """A tier's findings for the metrics of a request, besides claims.

    `verdicts` of each probe by name, if all that it asks about has one; else `failures` has the reason. `estimates`:
    values of metrics by name, of a tier without a judge.
    """

    verdicts: Mapping[str, tuple[MetricVerdict, ...]] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)
    estimates: Mapping[str, float] = field(default_factory=dict)


NO_ANSWERS = MetricAnswers()


@dataclass(frozen=True, slots=True)
class Judgement:
    """One tier's judgement of a sample.

    `has_verdict_kinds`: the tier (llm) tells contradicted from not mentioned and partial from whole. `reliability`
    maps a score to the observed share of faithful answers around it, in the data the tier was calibrated on.
    `faithfulness`: the calibrated score of the whole answer; None: the mean of the claims' support (llm). `decision`:
    of a tier without a judge.
    `is_unsure`: two judges decide differently, and the answer shall neither pass nor fail.
    `highest`: the highest faithfulness that the tier can give. `votes`: the scores by each of several votes alone;
    empty for one. `windows`: parts into which the contexts were cut to be read.
    """

    claims: tuple[Claim, ...]
    account: JudgeAccount
    has_verdict_kinds: bool
    reliability: tuple[tuple[float, float], ...] = ()
    flags: tuple[str, ...] = ()
    warnings: tuple[CodedText, ...] = ()
    votes: tuple[Scores, ...] = ()
    windows: int = 1
    faithfulness: float | None = None
    decision: TierDecision | None = None
    is_unsure: bool = False
    highest: float = 1.0
    metrics: MetricAnswers = NO_ANSWERS


def whole_sentence_claim(
    index: int,
    sentence: Sentence,
    *,
    verdict: Verdict,
    support: float | None = None,
    reason: str | None = None,
    evidence: tuple[Evidence, ...] = (),
    flags: tuple[str, ...] = (),
    weight: float = 1.0,
) -> Claim:
    text, start, end, _ = sentence
    return Claim(f"{index}.0", index, text, start, end, verdict, support, reason, evidence, flags, weight)


DUPLICATE = "duplicate"
DISAGREEING = "duplicates_disagree"
# The accusation outweighs another verdict without support.
_SUPPORT_RANK = {Verdict.CONTRADICTED: 0, Verdict.NOT_MENTIONED: 1, Verdict.PARTIAL: 2, Verdict.SUPPORTED: 3}


def mark_duplicates(claims: Sequence[Claim]) -> tuple[Claim, ...]:
    """Return the claims in order, those that repeat an earlier one with the flag `duplicate`: no count includes them.

    Two claims are equal when their words are, case and punctuation aside. Where their verdicts differ, the first takes
    verdict, support, reason and evidence of the one with the lowest support, and the flag `duplicates_disagree`.
    What is no claim is left alone.
    """
    first_by_text: dict[str, int] = {}
    marks = (DUPLICATE, DISAGREEING)
    marked = [
        replace(claim, flags=tuple(flag for flag in claim.flags if flag not in marks)) if claim.flags else claim
        for claim in claims
    ]
    for index, claim in enumerate(marked):
        if not claim.is_checkable:
            continue
        first = first_by_text.setdefault(normalise(claim.text) or claim.text, index)
        if first == index:
            continue
        marked[index] = replace(claim, flags=(*claim.flags, DUPLICATE))
        marked[first] = _lower(marked[first], claim)
    return tuple(marked)


def is_duplicate(claim: Claim) -> bool:
    return DUPLICATE in claim.flags


def _lower(first: Claim, other: Claim) -> Claim:
    if (first.verdict, first.support) == (other.verdict, other.support):
        return first
    flags = tuple(dict.fromkeys((*first.flags, DISAGREEING)))
    if _rank(first) <= _rank(other):
        return replace(first, flags=flags)
    return replace(
        first,
        verdict=other.verdict,
        support=other.support,
        reason=other.reason,
        evidence=other.evidence,
        flags=tuple(dict.fromkeys((*flags, *other.flags))),
    )


def _rank(claim: Claim) -> tuple[float, int]:
    return claim.support or 0.0, _SUPPORT_RANK[claim.verdict]
