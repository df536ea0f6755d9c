"""From claims to numbers, by hand calculation."""

from dataclasses import replace

import pytest

from plumbline.judging.text.scores import (
    PassCriterion,
    agreement,
    claim_weights,
    confidence,
    contexts_used,
    count_verdicts,
    score,
)
from plumbline.judging.text.verdicts import Claim, Evidence, Verdict
from tests.doubles.fakes import claim_of, judgement_of
from tests.making.cases import load_cases

SUPPORTED = claim_of(Verdict.SUPPORTED, 1.0)
PARTIAL = claim_of(Verdict.PARTIAL, 0.5)
CONTRADICTED = claim_of(Verdict.CONTRADICTED, 0.0)
NOT_MENTIONED = claim_of(Verdict.NOT_MENTIONED, 0.0)
GREETING = claim_of(Verdict.NOT_A_CLAIM, None)


def test_the_scores_of_a_mixed_answer_equal_the_hand_calculation() -> None:
    scores = score(judgement_of(SUPPORTED, SUPPORTED, PARTIAL, CONTRADICTED, NOT_MENTIONED, GREETING))

    # Five checkable claims. Support: 1 + 1 + 0.5 + 0 + 0 = 2.5; 2.5 / 5 = 0.5. Strict: 2 / 5. Each other kind: 1 / 5.
    assert scores is not None
    assert scores.faithfulness == 0.5
    assert scores.hallucination_rate == 0.5
    assert scores.faithfulness_strict == 0.4
    assert scores.contradiction_rate == 0.2
    assert scores.unsupported_rate == 0.2


def test_a_tier_that_measures_similarity_gives_the_mean_and_no_rates_by_kind() -> None:
    claims = [claim_of(Verdict.SUPPORTED, 0.9), claim_of(Verdict.NOT_MENTIONED, 0.2), claim_of(Verdict.SUPPORTED, 0.7)]

    scores = score(judgement_of(*claims, has_verdict_kinds=False))

    # (0.9 + 0.2 + 0.7) / 3 = 0.6
    assert scores is not None
    assert scores.faithfulness == pytest.approx(0.6)
    assert scores.hallucination_rate == pytest.approx(0.4)
    assert (scores.faithfulness_strict, scores.contradiction_rate, scores.unsupported_rate) == (None, None, None)


def test_a_sentence_weighs_one_however_many_claims_it_has() -> None:
    padded = [claim_of(Verdict.SUPPORTED, 1.0) for _ in range(3)]
    wrong = [claim_of(Verdict.CONTRADICTED, 0.0, number=1), claim_of(Verdict.PARTIAL, 0.5, number=1)]

    scores = score(judgement_of(*padded, *wrong))

    # Sentences: 1 and (0 + 0.5) / 2; their mean is 0.625. By claims it would be 0.7. Strict: (1 + 0) / 2.
    assert scores is not None
    assert (scores.faithfulness, scores.faithfulness_strict) == (0.625, 0.5)
    assert (scores.contradiction_rate, scores.unsupported_rate) == (0.2, 0.0)
    assert claim_weights([*padded, *wrong]) == [pytest.approx(1 / 3)] * 3 + [0.5] * 2


def test_the_weakest_claim_and_the_number_of_unsupported_ones_stand_beside_the_mean() -> None:
    repeated = replace(claim_of(Verdict.CONTRADICTED, 0.0, number=1), flags=("duplicate",))

    scores = score(judgement_of(SUPPORTED, PARTIAL, NOT_MENTIONED, GREETING, repeated))

    assert scores is not None
    assert (scores.lowest_support, scores.unsupported_claims) == (0.0, 2)


ALL_SUPPORTED = PassCriterion(None)


@pytest.mark.parametrize(("threshold", "rule"), [(None, "all_supported"), (0.8, "threshold"), (0.0, "threshold")])
def test_a_threshold_goes_before_the_rule_of_all_claims(threshold: float | None, rule: str) -> None:
    criterion = PassCriterion(threshold)

    assert (criterion.rule.value, criterion.threshold) == (rule, threshold)


def test_one_unsupported_claim_fails_a_long_answer() -> None:
    many = [claim_of(Verdict.SUPPORTED, 1.0, number=number) for number in range(20)]
    long_answer, with_a_lie = score(judgement_of(*many)), score(judgement_of(*many, CONTRADICTED))

    assert long_answer is not None
    assert with_a_lie is not None
    assert ALL_SUPPORTED.passes(long_answer)
    assert not ALL_SUPPORTED.passes(with_a_lie)
    assert PassCriterion(0.5).passes(with_a_lie)


def test_votes_agree_when_each_alone_decides_the_same() -> None:
    yes, no = score(judgement_of(SUPPORTED)), score(judgement_of(SUPPORTED, PARTIAL))
    assert yes is not None
    assert no is not None

    # Two of three decide alike: (2 + 1) / (3 + 2). At 0.5 all three do: (3 + 1) / (3 + 2).
    assert agreement([yes, yes, no], passed=True, criterion=ALL_SUPPORTED) == 0.6
    assert agreement([yes, yes, no], passed=True, criterion=PassCriterion(0.5)) == 0.8


def test_a_claim_counts_with_its_weight() -> None:
    claims = [
        replace(claim_of(Verdict.SUPPORTED, 0.8), weight=30.0),
        replace(claim_of(Verdict.NOT_MENTIONED, 0.2), weight=10.0),
        replace(claim_of(Verdict.NOT_A_CLAIM, None), weight=60.0),
    ]

    scores = score(judgement_of(*claims, has_verdict_kinds=False))

    # (30 * 0.8 + 10 * 0.2) / 40
    assert scores is not None
    assert scores.faithfulness == pytest.approx(0.65)
    assert scores.hallucination_rate == pytest.approx(0.35)


@pytest.mark.parametrize("weights", [(13.0,), (2.0, 11.0)], ids=str)
def test_claims_of_the_same_support_have_it_together_whatever_their_weights(weights: tuple[float, ...]) -> None:
    claims = [replace(claim_of(Verdict.SUPPORTED, 0.85), weight=weight) for weight in weights]

    scores = score(judgement_of(*claims, has_verdict_kinds=False))

    assert scores is not None
    assert scores.faithfulness == 0.85


def test_every_verdict_is_counted_and_named() -> None:
    assert count_verdicts([SUPPORTED, SUPPORTED, GREETING]) == {
        Verdict.SUPPORTED: 2,
        Verdict.PARTIAL: 0,
        Verdict.CONTRADICTED: 0,
        Verdict.NOT_MENTIONED: 0,
        Verdict.NOT_A_CLAIM: 1,
    }


def _backed(verdict: Verdict, *evidence: Evidence) -> Claim:
    return Claim("0.0", 0, "text", 0, 4, verdict, 1.0, evidence=evidence)


def _found(context: int) -> Evidence:
    return Evidence(context, "q", 0, 1, verified=True)


def test_contexts_used_are_those_with_verified_evidence_of_support() -> None:
    claims = [
        _backed(Verdict.SUPPORTED, _found(3), _found(1)),
        _backed(Verdict.PARTIAL, _found(3)),
        _backed(Verdict.CONTRADICTED, _found(0)),
        _backed(Verdict.NOT_MENTIONED, _found(2)),
        _backed(Verdict.SUPPORTED, Evidence(4, "q", None, None, verified=False)),
    ]

    assert contexts_used(claims) == (1, 3)


_RELIABILITY = ((0.2, 0.1), (0.6, 0.5), (1.0, 0.9))


@pytest.mark.parametrize(
    ("faithfulness", "share"),
    load_cases("scores", "confidence_in_a_pass_is_read_from_the_table_by_linear_interpolation"),
)
def test_confidence_in_a_pass_is_read_from_the_table_by_linear_interpolation(faithfulness: float, share: float) -> None:
    assert confidence(faithfulness, passed=True, reliability=_RELIABILITY) == pytest.approx(share)


@pytest.mark.parametrize("table", [((0.1, 0.2), (0.5, 0.7)), ((0.5, 0.7),)])
def test_beyond_the_last_point_its_value_stands(table: tuple[tuple[float, float], ...]) -> None:
    assert confidence(0.9, passed=True, reliability=table) == 0.7


def test_confidence_in_a_fail_is_the_rest() -> None:
    # At 0.3 a share of 0.2 was faithful, so that a fail agrees with 0.8.
    assert confidence(0.3, passed=False, reliability=_RELIABILITY) == pytest.approx(0.8)
