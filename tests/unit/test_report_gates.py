"""Gates: what they want, what they say, and that nothing passes for want of rows."""

import pytest

from plumbline.ground.errors import InvalidInput
from plumbline.rows.report.gates import (
    CiGate,
    all_passed,
    baseline_outcomes,
    max_abstained_outcome,
    max_degraded_outcome,
    parse_gate,
)
from plumbline.schemas.report import ReportSummary
from tests.making.result_rows import build_report, error_line, metric, result_line, scored_line


def summary_of(*lines: bytes, before: list[bytes] | None = None) -> ReportSummary:
    return build_report(lines, baseline_lines=before).summary


@pytest.mark.parametrize(
    ("spec", "gate"),
    [
        ("faithfulness=0.8", CiGate("faithfulness", 0.8)),
        ("llm:faithfulness=1", CiGate("faithfulness", 1.0, "llm")),
        ("hallucination_rate=.1", CiGate("hallucination_rate", 0.1)),
        (" passed_share = 0.95 ", CiGate("passed_share", 0.95)),
        ("answer_relevance=0.8", CiGate("answer_relevance", 0.8)),
        ("criterion_formal=0.9", CiGate("criterion_formal", 0.9)),
        ("llm:context_precision@5=0.7", CiGate("context_precision@5", 0.7, "llm")),
    ],
)
def test_a_spec_is_read(spec: str, gate: CiGate) -> None:
    assert parse_gate(spec) == gate


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("faithfulness", "expected a score and its bound, for example faithfulness=0.8"),
        ("faithfullness=0.8", "unknown score 'faithfullness'; expected faithfulness, .* did you mean faithfulness\\?"),
        ("gpt:faithfulness=0.8", "unknown tier 'gpt'; expected llm, detector, embedding or lexical"),
        ("answer_relevence=0.8", "did you mean answer_relevance\\?"),
        ("correctness@5=0.8", "unknown score 'correctness@5'"),
        ("context_precision@0=0.8", "unknown score 'context_precision@0'"),
        ("faithfulness=80", "faithfulness: found '80'; expected a number from 0 to 1"),
        ("faithfulness=nan", "expected a number from 0 to 1"),
        ("faithfulness=", "expected a number from 0 to 1"),
    ],
)
def test_a_wrong_spec_is_told_what_is_right(spec: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        parse_gate(spec)


def test_a_metric_is_gated_over_the_rows_that_have_it() -> None:
    asked = [{"answer_relevance": metric(value), "noise_sensitivity": metric(0.25)} for value in (0.5, 1.0, None)]
    summary = summary_of(*(scored_line(f"q{place}", 0.9, metrics=each) for place, each in enumerate(asked)))
    specs = ("answer_relevance=0.75", "answer_relevance=0.76", "noise_sensitivity=0.25", "noise_sensitivity=0.2")

    outcomes = [parse_gate(spec).outcomes(summary)[0] for spec in (*specs, "correctness=0")]

    assert [outcome.passed for outcome in outcomes] == [True, False, True, False, False]
    assert [outcome.wanted for outcome in outcomes[1:3]] == ["at least 0.76", "at most 0.25"]
    assert "2 rows" in outcomes[0].got
    assert outcomes[4].got == "no row has this score"


def test_seed_1_token_f1_is_gated_over_all_rows_with_a_reference() -> None:
    # one judged, one abstained, one without a reference
    rows = (scored_line("a", 0.7, scores={"token_f1": 0.8, "exact_match": 1.0}), scored_line("c", 0.9))
    summary = summary_of(*rows, result_line("b", status="abstained", scores={"token_f1": 0.0, "exact_match": 0.0}))

    outcomes = [parse_gate(spec).outcomes(summary)[0] for spec in ("token_f1=0.4", "token_f1=0.41", "exact_match=0.5")]

    assert [outcome.passed for outcome in outcomes] == [True, False, True]
    assert "2 rows" in outcomes[0].got


def test_a_comparison_with_the_reference_that_was_asked_for_is_gated_over_the_same_rows() -> None:
    rows = (scored_line("a", 0.7, metrics={"chrf": metric(0.8)}), scored_line("c", 0.9))
    summary = summary_of(*rows, result_line("b", status="abstained", metrics={"chrf": metric(0.0)}))

    outcomes = [parse_gate(spec).outcomes(summary)[0] for spec in ("chrf=0.4", "chrf=0.41", "bleu=0")]

    assert [outcome.passed for outcome in outcomes] == [True, False, False]
    assert "2 rows" in outcomes[0].got
    assert outcomes[2].got.startswith("no row has this score")


@pytest.mark.parametrize("score", ["token_f1", "chrf"])
def test_a_score_of_the_reference_has_no_tier(score: str) -> None:
    with pytest.raises(InvalidInput, match="give it without a tier"):
        parse_gate(f"llm:{score}=0.5")


def test_a_mean_at_its_bound_passes_and_one_below_does_not() -> None:
    # 0.7 + 0.9 is not quite 1.6
    summary = summary_of(scored_line("a", 0.7), scored_line("b", 0.9))

    (at,) = parse_gate("faithfulness=0.8").outcomes(summary)
    (above,) = parse_gate("faithfulness=0.81").outcomes(summary)

    assert (at.name, at.wanted, at.passed) == ("faithfulness", "at least 0.8", True)
    assert at.got == "0.800 [0.633, 0.903], 2 rows"
    assert not above.passed


def test_of_hallucination_less_is_better() -> None:
    summary = summary_of(scored_line("a", 0.75))

    outcomes = [parse_gate(f"hallucination_rate={bound}").outcomes(summary)[0] for bound in (0.25, 0.2)]

    assert [(outcome.wanted, outcome.passed) for outcome in outcomes] == [
        ("at most 0.25", True),
        ("at most 0.2", False),
    ]


def test_rows_with_an_unsupported_claim_are_bounded_from_above() -> None:
    summary = summary_of(
        scored_line("a", 0.9, scores={"unsupported_claims": 1, "lowest_support": 0.5}),
        *(scored_line(f"b{row}", 1.0) for row in range(3)),
    )

    outcomes = [CiGate("unsupported_share", bound).outcomes(summary)[0] for bound in (0.25, 0.2)]
    (lowest,) = parse_gate("lowest_support=0.9").outcomes(summary)

    # 1 of 4 rows; and (0.5 + 3 * 1) / 4
    assert [(outcome.wanted, outcome.passed) for outcome in outcomes] == [
        ("at most 0.25", True),
        ("at most 0.2", False),
    ]
    assert (lowest.passed, lowest.got[:5]) == (False, "0.875")


def test_each_tier_passes_or_fails_by_itself() -> None:
    summary = summary_of(scored_line("a", 1.0), scored_line("b", 1.0), scored_line("c", 0.1, tier="lexical"))

    both = parse_gate("faithfulness=0.6").outcomes(summary)
    one = parse_gate("llm:faithfulness=0.6").outcomes(summary)

    assert [(outcome.name, outcome.passed) for outcome in both] == [
        ("llm:faithfulness", True),
        ("lexical:faithfulness", False),
    ]
    assert [(outcome.name, outcome.passed) for outcome in one] == [("llm:faithfulness", True)]


@pytest.mark.parametrize("spec", ["faithfulness=0", "faithfulness_strict=0", "lexical:faithfulness=0"])
def test_a_score_that_no_row_has_fails(spec: str) -> None:
    lines = [result_line("a", status="abstained")] if spec == "faithfulness=0" else [scored_line("a", 1.0)]

    (outcome,) = parse_gate(spec).outcomes(summary_of(*lines))

    assert (outcome.got.partition(";")[0], outcome.passed) == ("no row has this score", False)


def test_degraded_counts_rows_of_a_lower_tier_and_rows_of_none_against_all() -> None:
    summary = summary_of(
        scored_line("a", 1.0),
        scored_line("b", 1.0, tier="lexical", flags=["degraded"]),
        result_line("c", status="not_judged"),
        error_line("d"),
    )

    assert max_degraded_outcome(summary, 0.5).passed
    outcome = max_degraded_outcome(summary, 0.49)
    assert (outcome.passed, outcome.wanted) == (False, "at most 0.49")
    assert outcome.got == "0.5000 (1 of a lower tier, 1 of none, of 4 rows)"
    assert not max_degraded_outcome(summary_of(), 1.0).passed


def test_abstentions_stand_beside_a_gate_and_have_one_of_their_own() -> None:
    summary = summary_of(scored_line("a", 1.0), result_line("b", status="abstained"), scored_line("c", 1.0))

    (gate,) = parse_gate("faithfulness=0.8").outcomes(summary)
    least, most = max_abstained_outcome(summary, 0.3), max_abstained_outcome(summary, 0.34)

    assert gate.got.endswith("2 rows; 1 of 3 rows abstained")
    assert (least.passed, least.wanted, least.got) == (False, "at most 0.3", "0.3333 (1 of 3 rows)")
    assert most.passed
    assert not max_abstained_outcome(summary_of(), 1.0).passed


def test_a_drop_beyond_noise_fails() -> None:
    before = [scored_line(str(row), 0.8) for row in range(30)]
    noisy = [scored_line(str(row), 0.8 + (0.1 if row % 2 else -0.1)) for row in range(30)]
    dropped = [scored_line(str(row), 0.7 - row / 1_000) for row in range(30)]

    assert all_passed(baseline_outcomes(summary_of(*noisy, before=before)))
    (outcome,) = baseline_outcomes(summary_of(*dropped, before=before))
    assert (outcome.name, outcome.wanted, outcome.passed) == ("baseline", "no drop", False)
    assert all_passed(baseline_outcomes(summary_of(*dropped, before=before), max_drop=0.2))


def test_one_pair_decides_by_itself() -> None:
    before = [scored_line("a", 0.8)]

    assert not all_passed(baseline_outcomes(summary_of(scored_line("a", 0.7), before=before)))
    assert all_passed(baseline_outcomes(summary_of(scored_line("a", 0.9), before=before)))


def test_a_baseline_without_a_pair_fails() -> None:
    (outcome,) = baseline_outcomes(summary_of(scored_line("a", 1.0), before=[scored_line("b", 0.0)]))

    assert (outcome.got, outcome.passed) == ("no row has a pair in the baseline", False)
    assert not all_passed(baseline_outcomes(summary_of(scored_line("a", 1.0))))
