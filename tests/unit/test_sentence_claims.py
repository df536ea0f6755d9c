"""From what was measured of a sentence to its claim."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from plumbline.judging.text.scores import score
from plumbline.judging.text.verdicts import Claim, Evidence, Verdict
from plumbline.judging.tiers.calibration import (
    VERBATIM_SUPPORT,
    Calibration,
    Shape,
    ShapeBounds,
    find_shape,
)
from plumbline.judging.tiers.judgement import build_judgement
from plumbline.judging.tiers.lexical_features import Finding
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


# An answer of copies above .6 of its runs passes, one with a hard reason fails, or with a sentence on another subject.
DECIDING = STEEP.model_copy(
    update={
        "doubted": 1.0,
        "bounds": {
            Shape.SHORT: ShapeBounds(copied_from=0.6, copied_right=0.85, unrelated_below=0.3, fails_right=0.9),
            Shape.PROSE: ShapeBounds(copied_from=0.6, copied_right=0.85),
        },
    }
)


@pytest.mark.parametrize(
    ("change", "passed", "rule", "right"),
    [
        ({"copied": 0.6}, True, "copied", 0.85),
        ({"copied": 0.59}, None, "unsure", None),
        ({"copied": 1.0, "open_reasons": ("condition_left_out",)}, None, "unsure", None),
        ({"copied": 1.0, "measures": {"character_coverage": 0.6, "unknown_numbers": 1.0}}, False, "hard_reason", 0.9),
        ({"measures": {"character_coverage": 0.29}}, False, "hard_reason", 0.9),
        ({"measures": {"character_coverage": 0.31}}, None, "unsure", None),
        ({"measures": {"character_coverage": 0.29}, "is_related": True}, None, "unsure", None),
        ({"measures": {"character_coverage": 0.29}, "is_copy": True}, True, "copied", 0.85),
    ],
    ids=["copied", "little copied", "open", "made up", "other subject", "same subject", "related by an amount", "copy"],
)
def test_what_is_nearly_copied_passes_and_what_has_a_hard_reason_fails(
    change: dict[str, Any], passed: bool | None, rule: str, right: float | None
) -> None:
    judgement = build_judgement(
        case_of("The lamp burns.", "It is dark."), {0: replace(_finding(0.6), **change)}, DECIDING
    )

    decision = judgement.decision
    assert decision is not None
    assert (decision.passed, decision.rule, decision.right, decision.threshold) == (passed, rule, right, None)


LONG = "The lamp of the tower burns day and night."


@pytest.mark.parametrize(
    ("question", "coverages", "passed", "rule"),
    [
        ("Does it burn?", (0.8, 0.8, 0.8), True, "covered"),
        ("Does it burn?", (0.8, 0.8, 0.4), None, "unsure"),
        ("Does it burn?", (0.9, 0.9, 0.29), False, "hard_reason"),
        ("Does it burn?", (0.9, 0.9), None, "unsure"),
        ("", (0.9, 0.9, 0.9), None, "unsure"),
    ],
    ids=["covered", "less", "one sentence on another subject", "two sentences", "no question"],
)
def test_a_long_answer_to_a_question_passes_by_its_score_and_fails_by_one_sentence(
    question: str, coverages: Sequence[float], passed: bool | None, rule: str
) -> None:
    answer = " ".join(f"{LONG[:-1]} in {year}." for year in range(1931, 1931 + len(coverages)))
    # 1 / (1 + e^-(10 * .8 - 5)) = .95
    bounds = {Shape.ANSWER: ShapeBounds(covered_from=0.95, covered_right=0.9, unrelated_below=0.3, fails_right=0.9)}
    case = case_of(answer, "It is dark.", question=question)

    decision = build_judgement(
        case, {at: _finding(each) for at, each in enumerate(coverages)}, STEEP.model_copy(update={"bounds": bounds})
    ).decision

    assert decision is not None
    assert (decision.passed, decision.rule) == (passed, rule)


def test_a_short_sentence_among_others_is_on_no_subject() -> None:
    bounds = {Shape.PROSE: ShapeBounds(unrelated_below=0.3, fails_right=0.9)}
    calibration = STEEP.model_copy(update={"bounds": bounds})
    findings = {0: _finding(0.1), 1: _finding(0.9)}

    short = build_judgement(case_of(f"Here it is. {LONG}", "It is dark."), findings, calibration)
    long = build_judgement(case_of(f"{LONG} It is red.", "It is dark."), findings, calibration)

    assert [each.decision and each.decision.rule for each in (short, long)] == ["unsure", "hard_reason"]
    assert [each.claims[0].flags for each in (short, long)] == [(), ("hard_reason",)]


def test_a_shape_without_a_bound_is_unsure() -> None:
    two = case_of("The lamp burns. It is red.", "It is dark.")
    doubted = replace(_finding(0.6), measures={"character_coverage": 0.6, "unknown_numbers": 1.0}, copied=1.0)

    judgements = [
        build_judgement(two, {0: doubted, 1: _finding(0.6)}, DECIDING),
        build_judgement(two, {0: replace(doubted, measures=_finding(0.6).measures)}, STEEP),
    ]

    assert [each.decision and each.decision.rule for each in judgements] == ["unsure", "unsure"]


def test_a_sentence_with_a_hard_reason_has_its_flag() -> None:
    made_up = replace(_finding(), measures={"character_coverage": 0.6, "unknown_names": 1.0})

    assert (_claim(made_up).flags, _claim(_finding(0.6)).flags) == (("hard_reason",), ())


@pytest.mark.parametrize(
    ("text", "contexts", "shape"),
    [
        ("It opened in 1931.", ["The museum opened in 1931."], Shape.SHORT),
        ("It opened in 1931. It is free.", ["The museum opened in 1931."], Shape.PROSE),
        ("It opened in 1931. It is free. It has a shop.", ["The museum opened in 1931."], Shape.ANSWER),
        ("It opened in 1931.", ['{"museum": "Keld", "opened": 1931}'], Shape.JSON),
        ("It opened in 1931.", ["| museum | opened |\n| --- | --- |\n| Keld | 1931 |"], Shape.TABLE),
    ],
)
def test_the_shape_is_that_of_most_of_the_contexts_or_of_a_short_answer(
    text: str, contexts: list[str], shape: Shape
) -> None:
    assert find_shape(case_of(text, *contexts, question="When did it open?")) is shape


def test_a_verbatim_answer_keeps_the_highest_score_however_long_it_is() -> None:
    copy = replace(_finding(is_copy=True), copied=1.0)

    scores = score(build_judgement(case_of("The lamp burns. It is red.", "It."), {0: copy, 1: copy}, DECIDING))

    assert scores is not None
    assert scores.faithfulness == VERBATIM_SUPPORT


def test_the_score_is_that_of_the_mean_logit_by_length_less_what_counts_against_the_whole_answer() -> None:
    findings = {0: _finding(0.6), 1: _finding(0.8)}
    measures = {"character_coverage": 0.6, "unknown_numbers": 1.0}
    doubted = {**findings, 0: replace(findings[0], measures=measures)}
    case = case_of("The lamp burns. It is red.", "It is dark.")

    found = [build_judgement(case, each, DECIDING).faithfulness for each in (findings, doubted)]

    # Logits 1 of 15 characters and 3 of 10: (15 + 30) / 25 = 1.8, and 1 less: 1 / (1 + e^-1.8), 1 / (1 + e^-0.8).
    assert found == pytest.approx([0.858149, 0.689974], abs=1e-6)


def test_a_sentence_that_repeats_another_counts_once() -> None:
    once = build_judgement(case_of("The lamp burns. It is red.", "It."), {0: _finding(0.2), 1: _finding(0.8)}, STEEP)
    repeated = build_judgement(
        case_of("The lamp burns. It is red. It is red.", "It."),
        {0: _finding(0.2), 1: _finding(0.8), 2: _finding(0.8)},
        STEEP,
    )

    assert repeated.faithfulness == once.faithfulness
