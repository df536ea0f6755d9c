"""From what was measured of a sentence to its claim."""

import pytest

from plumbline.judging.text.verdicts import Claim, Evidence, Verdict
from plumbline.judging.tiers.calibration import VERBATIM_SUPPORT, Calibration, Finding, build_judgement
from plumbline.judging.tiers.tier import TierName
from tests.doubles.fakes import case_of

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
    ("unknown", "reason"),
    [
        ((), None),
        (("Orwin",), "in no context: Orwin"),
        (("Orwin", "14"), "in no context: Orwin, 14"),
        (("A1", "B2", "C3", "D4", "E5"), "in no context: A1, B2, C3, D4, E5"),
        (("A1", "B2", "C3", "D4", "E5", "6", "7"), "in no context: A1, B2, C3, D4, E5 and 2 more"),
    ],
)
def test_the_reason_lists_a_few_of_the_names_and_numbers_that_no_context_has(
    unknown: tuple[str, ...], reason: str | None
) -> None:
    assert _claim(_finding(unknown=unknown)).reason == reason
