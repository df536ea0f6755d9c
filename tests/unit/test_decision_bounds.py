"""What bounds make of a decision model's probabilities, and what is left for a chat judge."""

from dataclasses import replace

import pytest

from plumbline.ground.judge_settings import DecisionBounds
from plumbline.judging.judge.evidence.verdict_rules import REFUTED, UNANSWERED_QUESTION
from plumbline.judging.text.scores import PassCriterion
from plumbline.judging.text.verdicts import Claim, Verdict
from plumbline.judging.tiers.calibration import Calibration, CalibrationSource, CalibrationTable
from plumbline.judging.tiers.decision_bounds import (
    UNDECIDED,
    decide,
    settle,
    undecided_claims,
)
from plumbline.judging.tiers.tier import TierName

BOUNDS = DecisionBounds(fails=0.2, passes=0.8)
RAW = CalibrationTable(()).find(tier=TierName.LLM, model="decision-1", language="en")
ALL_SUPPORTED = PassCriterion(None)
SUPPORTED, NOT_MENTIONED = Verdict.SUPPORTED, Verdict.NOT_MENTIONED


def claim(number: int, support: float | None, *flags: str, verdict: Verdict | None = None) -> Claim:
    said = verdict or (SUPPORTED if support is not None and support > 0.5 else NOT_MENTIONED)
    return Claim(f"{number}.0", number, "It is so.", 0, 9, said, support, flags=flags)


def decided(*claims: Claim, calibration: Calibration = RAW) -> tuple[Claim, ...]:
    return decide(claims, calibration, BOUNDS)


@pytest.mark.parametrize(
    ("given", "support", "verdict", "is_open"),
    [
        (claim(0, 0.8), 0.8, SUPPORTED, False),
        (claim(0, 0.2), 0.2, NOT_MENTIONED, False),
        (claim(0, 0.79), 0.79, SUPPORTED, True),
        (claim(0, 0.21), 0.21, NOT_MENTIONED, True),
        # The verdict follows the bounds, not the likeliest value.
        (claim(0, 0.15, verdict=SUPPORTED), 0.15, NOT_MENTIONED, False),
        (claim(0, 0.85, verdict=Verdict.CONTRADICTED), 0.85, SUPPORTED, False),
        # What the check refutes, or the model declined, is as likely as not at most.
        (claim(0, 0.99, REFUTED, verdict=NOT_MENTIONED), 0.5, NOT_MENTIONED, True),
        (claim(0, 0.05, REFUTED), 0.05, NOT_MENTIONED, True),
        (claim(0, None, UNANSWERED_QUESTION), 0.5, NOT_MENTIONED, True),
    ],
)
def test_a_claim_is_decided_outside_the_bounds(
    given: Claim, support: float, verdict: Verdict, *, is_open: bool
) -> None:
    (found,) = decided(given)

    assert (found.support, found.verdict, UNDECIDED in found.flags) == (support, verdict, is_open)


def test_a_calibration_of_the_model_moves_its_probabilities_and_only_of_that_model() -> None:
    source = CalibrationSource(data="ours", rows=50, date="2026-11-27", command="plumbline calibrate")
    fitted = RAW.model_copy(update={"weights": {"logit": 0.5}, "source": source})
    table = CalibrationTable((fitted,))

    # logit(.9) = ln 9, its half is ln 3, whose sigmoid is 3 / 4.
    (found,) = decided(claim(0, 0.9), calibration=table.find(tier=TierName.LLM, model="decision-1", language="en"))
    (other,) = decided(claim(0, 0.9), calibration=table.find(tier=TierName.LLM, model="decision-2", language="en"))

    assert found.support == pytest.approx(0.75)
    assert UNDECIDED in found.flags
    assert other.support == 0.9


def test_nothing_is_left_to_ask_where_another_sentence_fails_for_certain() -> None:
    fails, opens, passes = claim(0, 0.1), claim(1, 0.6), claim(2, 0.9)

    assert undecided_claims(decided(fails, opens, passes), ALL_SUPPORTED) == ()
    assert [each.id for each in undecided_claims(decided(opens, passes), ALL_SUPPORTED)] == ["1.0"]
    # By a threshold the mean decides: .1, .6 and .9 reach .6 only if the second is supported.
    by_mean = PassCriterion(0.6)
    assert [each.id for each in undecided_claims(decided(fails, opens, passes), by_mean)] == ["1.0"]
    assert undecided_claims(decided(fails, opens, passes), PassCriterion(0.7)) == ()


def test_the_second_judge_decides_what_it_is_asked_and_each_claim_says_who_did() -> None:
    claims = decided(claim(0, 0.9), claim(1, 0.95, REFUTED), claim(2, 0.5))
    answered = replace(claims[1], verdict=SUPPORTED, support=1.0, flags=())

    settled = settle(claims, {"1.0": answered}, judges=("decision-1", "chat-1"))

    assert [each.judge for each in settled] == ["decision-1", "chat-1", "decision-1"]
    assert settled[1].flags == ("escalated", REFUTED)
    # The chat judge left the third one out.
    assert [each.id for each in undecided_claims(settled, ALL_SUPPORTED)] == ["2.0"]
