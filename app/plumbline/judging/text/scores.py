"""Scores: from claims to numbers. No number that a judge writes becomes a score."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from plumbline.judging.text.verdicts import Claim, JudgeAccount, Judgement, PassRule, Scores, Verdict, is_duplicate


def score(judgement: Judgement) -> Scores | None:
    """Return the scores of a judgement; None when no claim in it can be checked.

    faithfulness = the mean over the sentences with checkable claims of the mean support of those claims (seed 4's mean
    over sentences), in which a sentence weighs 1 however many claims it has; the other tiers calibrate the whole answer
    (`Judgement.faithfulness`). hallucination_rate is 1 minus it (seed 4); the rates of verdicts are shares of the
    claims. A claim marked as a duplicate is in no count.
    """
    checkable = _select_counted(judgement.claims)
    if not checkable:
        return None
    weights = claim_weights(checkable)
    faithfulness = judgement.faithfulness
    if faithfulness is None:
        faithfulness = _weighted_mean([claim.support or 0.0 for claim in checkable], weights)
    counts = count_verdicts(checkable)
    total = len(checkable)
    has_kinds = judgement.has_verdict_kinds
    strict = [(claim.support or 0.0) * (claim.verdict is Verdict.SUPPORTED) for claim in checkable]
    return Scores(
        faithfulness=faithfulness,
        hallucination_rate=1.0 - faithfulness,
        faithfulness_strict=_weighted_mean(strict, weights) if has_kinds else None,
        contradiction_rate=counts[Verdict.CONTRADICTED] / total if has_kinds else None,
        unsupported_rate=counts[Verdict.NOT_MENTIONED] / total if has_kinds else None,
        lowest_support=min(claim.support or 0.0 for claim in checkable),
        unsupported_claims=total - counts[Verdict.SUPPORTED],
    )


def score_claims(claims: Sequence[Claim]) -> Scores | None:
    """Return the scores of a judge's claims alone."""
    return score(Judgement(tuple(claims), JudgeAccount(model=""), has_verdict_kinds=True))


def claim_weights(claims: Sequence[Claim]) -> list[float]:
    """Return each claim's weight in the mean: that of its sentence, shared among the sentence's counted claims."""
    claims_in = Counter(claim.sentence for claim in _select_counted(claims))
    return [claim.weight / max(1, claims_in[claim.sentence]) for claim in claims]


def _select_counted(claims: Sequence[Claim]) -> list[Claim]:
    return [claim for claim in claims if claim.is_checkable and not is_duplicate(claim)]


def _weighted_mean(values: Sequence[float], weights: Sequence[float]) -> float:
    mean = sum(value * weight for value, weight in zip(values, weights, strict=True)) / sum(weights)
    # Rounding must not bring a mean out of what it is the mean of: 0.85 twice is 0.85, and passes at 0.85.
    return min(max(values), max(min(values), mean))


@dataclass(frozen=True, slots=True)
class PassCriterion:
    """Decision rule on one answer. `threshold` is the faithfulness that passes; None: every claim is `supported`.

    Measured on 96 answers with human labels and a strong judge: balanced accuracy .80 for `all_supported`, .68 for
    faithfulness >= 0.5, by which one false claim passes in any long answer (docs/decisions/0008-passed.md).
    """

    threshold: float | None

    @property
    def rule(self) -> PassRule:
        return PassRule.ALL_SUPPORTED if self.threshold is None else PassRule.THRESHOLD

    def passes(self, scores: Scores) -> bool:
        if self.threshold is None:
            return scores.unsupported_claims == 0
        return scores.faithfulness >= self.threshold


def count_verdicts(claims: Sequence[Claim]) -> Mapping[Verdict, int]:
    counts = dict.fromkeys(Verdict, 0)
    for claim in claims:
        if not is_duplicate(claim):
            counts[claim.verdict] += 1
    return counts


def contexts_used(claims: Sequence[Claim]) -> tuple[int, ...]:
    """Return the indices of contexts with verified evidence of a supported or partial claim, ascending."""
    backed = (
        claim for claim in claims if claim.verdict in (Verdict.SUPPORTED, Verdict.PARTIAL) and not is_duplicate(claim)
    )
    return tuple(
        sorted({e.context for claim in backed for e in claim.evidence if e.verified and e.context is not None})
    )


def confidence(faithfulness: float, *, passed: bool, reliability: Sequence[tuple[float, float]]) -> float | None:
    """Return the calibrated probability that a human agrees with `passed`, in [0, 1]; None without a table.

    `reliability`: `(score, observed share of faithful answers)`, ascending in score; read by linear interpolation.
    """
    if not reliability:
        return None
    faithful_share = _interpolate(faithfulness, reliability)
    return faithful_share if passed else 1.0 - faithful_share


def agreement(votes: Sequence[Scores], *, passed: bool, criterion: PassCriterion) -> float:
    """Return the agreement of the votes, each decided alone, with the decision, in (0, 1), by Laplace's rule.

    Not calibrated on people: two of two votes give 0.75, five of five 0.86, one of two 0.5.
    """
    agreeing = sum(criterion.passes(vote) == passed for vote in votes)
    return (agreeing + 1) / (len(votes) + 2)


def _interpolate(x: float, points: Sequence[tuple[float, float]]) -> float:
    if x <= points[0][0]:
        return points[0][1]
    for (x0, y0), (x1, y1) in pairwise(points):
        if x <= x1:
            return y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    return points[-1][1]
