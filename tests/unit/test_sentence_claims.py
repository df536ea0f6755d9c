"""From what was measured of a sentence to its claim."""

from dataclasses import replace

import pytest

from plumbline.judging.text.scores import score
from plumbline.judging.text.verdicts import Claim, Evidence, Verdict
from plumbline.judging.tiers.calibration import (
    VERBATIM_SUPPORT,
    Calibration,
    CalibrationAggregation,
    Finding,
    build_judgement,
)
from plumbline.judging.tiers.tier import TierName
from tests.doubles.fakes import case_of
from tests.making.cases import load_cases

# Support is 1 / (1 + e^-(10 * coverage - 5)).
STEEP = Calibration(
    tier=TierName.LEXICAL, model="m", language="en", weights={"character_coverage": 10.0}, intercept=-5.0
)


def _finding(
    coverage: float = 0.0, *, evidence: Evidence | None = None, is_copy: bool = False, unknown: tuple[str, ...] = ()
) -> Finding:
    return Finding({"character_coverage": coverage}, evidence, is_copy, unknown)


def _claim(finding: Finding) -> Claim:
    (claim,) = build_judgement(case_of("The lamp burns.", "It is dark."), {0: finding}, STEEP).claims
    return claim


def test_a_claim_has_the_place_and_the_length_of_its_sentence() -> None:
    case = case_of("The lamp burns. It is red.", "It is dark.")

    first, second = build_judgement(case, {0: _finding(), 1: _finding()}, STEEP).claims

    assert [(claim.id, claim.sentence, claim.text, claim.start, claim.end) for claim in (first, second)] == [
        ("0.0", 0, "The lamp burns.", 0, 15),
        ("1.0", 1, "It is red.", 16, 26),
    ]
    assert (first.weight, second.weight) == (15.0, 10.0)


def test_a_sentence_without_a_finding_is_not_a_claim() -> None:
    case = case_of("The lamp burns. It is red.", "It is dark.")

    first, second = build_judgement(case, {1: _finding()}, STEEP).claims

    assert (first.verdict, first.support, first.is_checkable) == (Verdict.NOT_A_CLAIM, None, False)
    assert second.is_checkable


@pytest.mark.parametrize(("coverage", "verdict"), [(0.5, Verdict.SUPPORTED), (0.4999, Verdict.NOT_MENTIONED)])
def test_a_sentence_is_supported_from_one_half(coverage: float, verdict: Verdict) -> None:
    claim = _claim(_finding(coverage))

    assert claim.verdict is verdict
    assert claim.support == pytest.approx(0.5, abs=1e-3)


def test_a_copy_has_the_support_of_a_copy_whatever_was_measured() -> None:
    claim = _claim(_finding(0.0, is_copy=True))

    assert (claim.support, claim.verdict, claim.flags) == (VERBATIM_SUPPORT, Verdict.SUPPORTED, ("verbatim",))


def test_no_likeness_counts_for_more_than_a_copy() -> None:
    # 1 / (1 + e^-5) = 0.993
    assert _claim(_finding(1.0)).support == VERBATIM_SUPPORT
    # 1 / (1 + e^-1)
    assert _claim(_finding(0.6)).support == pytest.approx(0.731059, abs=1e-6)


def test_the_evidence_is_that_of_the_finding() -> None:
    evidence = Evidence(0, "It is dark.", 0, 11, verified=True)

    assert _claim(_finding(0.6, evidence=evidence)).evidence == (evidence,)
    assert _claim(_finding(0.6)).evidence == ()


@pytest.mark.parametrize(
    ("unknown", "reason"), load_cases("sentence_claims", "the_reason_lists_a_few_of_the_names_and_numbers")
)
def test_the_reason_lists_a_few_of_the_names_and_numbers_that_no_context_has(
    unknown: tuple[str, ...], reason: str
) -> None:
    assert (_claim(_finding(unknown=unknown)).reason or "") == reason


# Half of the runs of words make an answer mostly copied; the boundary of such answers is (0.5 - 0.2) / (0.8 - 0.2) of
# the way from 0.6 to 0.8.
COPYING = STEEP.model_copy(
    update={
        "aggregation": CalibrationAggregation(doubted=0.5, length=0.1, copied=0.9, copied_share=0.5),
        "reliability": ((0.4, 0.3), (0.6, 0.7)),
        "copied_reliability": ((0.6, 0.2), (0.8, 0.8)),
    }
)


def test_an_answer_of_mostly_copied_text_has_a_flag_and_a_boundary_of_its_own() -> None:
    # "The lamp burns." has 15 of 25 characters: (15 * 0.9 + 10 * 0) / 25 = 0.54 of the runs are copied.
    findings = {0: replace(_finding(0.6), copied=0.9), 1: _finding(0.6)}

    judgement = build_judgement(case_of("The lamp burns. It is red.", "It is dark."), findings, COPYING)

    assert judgement.flags == ("uncalibrated", "mostly_copied")
    assert judgement.boundary == 0.7
    assert judgement.reliability == COPYING.copied_reliability
    # 0.9 / (1 + e^-1)
    assert [claim.support for claim in judgement.claims] == pytest.approx([0.657953] * 2, abs=1e-6)


def test_another_answer_has_the_boundary_of_its_tier() -> None:
    judgement = build_judgement(case_of("The lamp burns.", "It is dark."), {0: _finding(0.6)}, COPYING)

    assert (judgement.flags, judgement.boundary, judgement.highest) == (("uncalibrated",), 0.5, VERBATIM_SUPPORT)


def test_a_verbatim_answer_keeps_the_highest_score_however_long_it_is() -> None:
    copy = replace(_finding(is_copy=True), copied=1.0)

    scores = score(build_judgement(case_of("The lamp burns. It is red.", "It."), {0: copy, 1: copy}, COPYING))

    assert scores is not None
    assert scores.faithfulness == VERBATIM_SUPPORT


def test_a_sentence_that_cannot_be_supported_lowers_the_whole_answer() -> None:
    findings = {0: _finding(0.6), 1: _finding(is_copy=True)}
    doubted = {**findings, 0: replace(findings[0], measures={"character_coverage": 0.6, "unknown_numbers": 1.0})}
    case = case_of("The lamp burns. It is red.", "It is dark.")

    sound, unsound = (score(build_judgement(case, found, COPYING)) for found in (findings, doubted))

    assert sound is not None
    assert unsound is not None
    # (15 / (1 + e^-1) + 10 * 0.97) / 25, and 0.5 * (15 * 0.49 / (1 + e^-1) + 10 * 0.97) / 25
    assert sound.faithfulness == pytest.approx(0.826635, abs=1e-6)
    assert unsound.faithfulness == pytest.approx(0.301466, abs=1e-6)
