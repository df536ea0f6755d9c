"""Bounds on the support that a decision model gives: what it decides by itself, and what is left for a chat judge."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from plumbline.ground.judge_settings import DecisionBounds
from plumbline.ground.texts import CodedText
from plumbline.judging.judge.evidence.verdict_rules import REFUTED, UNANSWERED_QUESTION, with_flags
from plumbline.judging.text.scores import PassCriterion, score_claims
from plumbline.judging.text.verdicts import SUPPORT_BY_VERDICT, Claim, Verdict
from plumbline.judging.tiers.calibration import Calibration

UNDECIDED: Final = "undecided"
# Support of either: as much speaks for it as against it.
_OPEN_SUPPORT: Final = 0.5
# A probability that is rounded to 0 or 1 has a logit all the same; providers round to two decimals.
_LEAST: Final = 0.005


# A convention, not a measurement; results made with it carry the flag `uncalibrated`.
DEFAULT_BOUNDS: Final = DecisionBounds(fails=0.1, passes=0.9)


def logit(probability: float) -> float:
    """Return the logit of a probability, finite at 0 and 1 too."""
    inside = min(1.0 - _LEAST, max(_LEAST, probability))
    return math.log(inside / (1.0 - inside))


def decide(claims: Sequence[Claim], calibration: Calibration, bounds: DecisionBounds) -> tuple[Claim, ...]:
    """Return a decision model's claims with calibrated support and the verdict that the bounds give.

    A claim between the bounds, refuted or not answered keeps its verdict, with the flag `undecided`.
    """
    return tuple(_decide(claim, calibration, bounds) if claim.is_checkable else claim for claim in claims)


def _decide(claim: Claim, calibration: Calibration, bounds: DecisionBounds) -> Claim:
    support = _OPEN_SUPPORT if claim.support is None or UNANSWERED_QUESTION in claim.flags else claim.support
    if calibration.is_fitted:
        support = calibration.support({"logit": logit(support)})
    if not {REFUTED, UNANSWERED_QUESTION}.isdisjoint(claim.flags):
        return with_flags(replace(claim, support=min(support, _OPEN_SUPPORT)), UNDECIDED)
    if bounds.fails < support < bounds.passes:
        reason = CodedText("between_bounds", support=round(support, 2), fails=bounds.fails, passes=bounds.passes)
        return with_flags(replace(claim, support=support, reason=claim.reason or reason), UNDECIDED)
    verdict = claim.verdict
    if support >= bounds.passes:
        verdict = Verdict.SUPPORTED
    elif verdict is Verdict.SUPPORTED:
        verdict = Verdict.NOT_MENTIONED
    return replace(claim, support=support, verdict=verdict)


def undecided_claims(claims: Sequence[Claim], criterion: PassCriterion) -> tuple[Claim, ...]:
    """Return the undecided claims on which `passed` depends: () where it is the same whatever they are."""
    left = tuple(claim for claim in claims if UNDECIDED in claim.flags)
    outcomes = set()
    for verdict in (Verdict.SUPPORTED, Verdict.NOT_MENTIONED):
        settled = {each.id: replace(each, verdict=verdict, support=SUPPORT_BY_VERDICT[verdict]) for each in left}
        scores = score_claims([settled.get(each.id, each) for each in claims])
        outcomes.add(scores is not None and criterion.passes(scores))
    return left if len(outcomes) > 1 else ()


def settle(claims: Sequence[Claim], second: Mapping[str, Claim], *, judges: tuple[str, str]) -> tuple[Claim, ...]:
    """Return the claims with the second judge's verdict on each that it was asked about; `judges` are their models."""
    return tuple(
        replace(
            with_flags(second[claim.id], "escalated", *(flag for flag in claim.flags if flag != UNDECIDED)),
            judge=judges[1],
        )
        if claim.id in second
        else replace(claim, judge=judges[0])
        for claim in claims
    )
