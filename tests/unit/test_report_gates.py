"""Gates: what they want, what they say, and that nothing passes for want of rows."""

from typing import Any

import pytest

from plumbline.ground.errors import InvalidInput
from plumbline.rows.report.gates import CiGate, all_passed, judge_gates, parse_gate, with_usual
from plumbline.schemas.report import GateOutcome, ReportSummary
from tests.making.cases import load_cases
from tests.making.result_rows import build_report, error_line, metric, result_line, scored_line, unsure_line


def summary_of(*lines: bytes, before: list[bytes] | None = None) -> ReportSummary:
    return build_report(lines, baseline_lines=before).summary


def outcome_of(spec: str, summary: ReportSummary) -> GateOutcome:
    (outcome,) = parse_gate(spec).outcomes(summary)
    return outcome


@pytest.mark.parametrize(("spec", "score", "bound", "tier"), load_cases("report_gates", "specs"))
def test_a_spec_is_read(spec: str, score: str, bound: float, tier: Any) -> None:
    assert parse_gate(spec) == CiGate(score, bound, tier or None)


@pytest.mark.parametrize(("spec", "said"), load_cases("report_gates", "a_wrong_spec_is_told_what_is_right"))
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


@pytest.mark.parametrize("score", ["token_f1", "chrf", "judged"])
def test_a_score_of_all_rows_has_no_tier(score: str) -> None:
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


def test_degraded_counts_rows_of_a_lower_tier_of_none_and_in_error_against_all() -> None:
    summary = summary_of(
        scored_line("a", 1.0),
        scored_line("b", 1.0, tier="lexical", flags=["degraded"]),
        result_line("c", status="not_judged"),
        error_line("d"),
    )

    least, most = outcome_of("degraded=0.74", summary), outcome_of("degraded=0.75", summary)

    assert most.passed
    assert (least.passed, least.wanted) == (False, "at most 0.74")
    assert least.got == "0.7500 (3 of 4 rows: 1 of a lower tier, 1 not judged, 1 in error)"
    assert not outcome_of("degraded=1", summary_of()).passed


def test_abstentions_stand_beside_a_gate_and_have_one_of_their_own() -> None:
    summary = summary_of(scored_line("a", 1.0), result_line("b", status="abstained"), scored_line("c", 1.0))

    gate, least = outcome_of("faithfulness=0.8", summary), outcome_of("abstained=0.3", summary)

    assert gate.got.endswith("2 rows; 1 of 3 rows abstained")
    assert (least.passed, least.wanted, least.got) == (False, "at most 0.3", "0.3333 (1 of 3 rows)")
    assert outcome_of("abstained=0.34", summary).passed
    assert not outcome_of("abstained=1", summary_of()).passed


UNJUDGED = {
    "in error": error_line("x"),
    "not judged": result_line("x", status="not_judged"),
    "without contexts": scored_line("x", 0.0, tier=None, flags=["no_context"]),
    "empty": result_line("x", status="empty_answer"),
    "unreadable": b"{",
}


@pytest.mark.parametrize("why", UNJUDGED)
def test_rows_that_were_not_judged_fail_a_run_and_did_not_pass(why: str) -> None:
    summary = summary_of(*(scored_line(f"q{n}", 1.0) for n in range(3)), UNJUDGED[why])

    judged, passed = outcome_of("judged=0.95", summary), outcome_of("passed_share=0.76", summary)

    assert (judged.passed, judged.got) == (False, f"0.7500 (3 of 4 rows: 1 {why})")
    assert (passed.passed, passed.got[:5], passed.got[-6:]) == (False, "0.750", "4 rows")
    assert outcome_of("judged=0.75", summary).passed
    assert parse_gate("judged=0").outcomes(summary) == ()


def test_rows_that_abstained_or_wait_are_counted_as_such() -> None:
    lines = [scored_line("a", 1.0), result_line("b", status="abstained")]
    report = build_report(lines, gates=with_usual(())).summary
    waiting = CiGate("judged", 0.95).outcomes(report.model_copy(update={"pending": 3}))

    assert [(each.name, each.got) for each in report.gates] == [("judged", "1.0000 (1 of 1 rows)")]
    assert [(each.passed, each.got) for each in waiting] == [(False, "0.2500 (1 of 4 rows: 3 pending)")]


@pytest.mark.parametrize("line", [*UNJUDGED.values(), result_line("x", status="abstained")])
def test_all_gates_never_pass_where_nothing_was_judged(line: bytes) -> None:
    lenient = with_usual(map(parse_gate, ("degraded=1", "abstained=1", "judged=0", "decided=0")))

    outcomes = judge_gates(summary_of(line, line), lenient)

    assert [(each.name, each.got) for each in outcomes if not each.passed] in (
        [("judged", "no row was judged")],
        [("degraded", "no rows"), ("abstained", "no rows")],
    )


def test_unsure_rows_did_not_pass_and_at_least_half_are_decided() -> None:
    lines = [scored_line("a", 1.0), unsure_line("b", 0.9), unsure_line("c")]
    summary = build_report(lines, gates=with_usual([parse_gate("passed_share=0.5")])).summary

    passed, *_, decided = summary.gates

    assert (summary.passed, summary.unsure, [each.unsure for each in summary.tiers]) == (1, 2, [0, 2])
    assert (passed.name, passed.passed) == ("llm:passed_share", True)
    assert (decided.name, decided.wanted, decided.passed) == ("decided", "at least 0.5", False)
    assert decided.got == "0.3333 (1 of 3 rows: turn on a judge to decide the others)"
    assert outcome_of("lexical:passed_share=0.01", summary).got.startswith("0.000 ")
    assert outcome_of("lexical:passed_share=0.01", summary).got.endswith(", 2 rows")
    assert outcome_of("decided=0.33", summary).passed
    assert parse_gate("decided=0").outcomes(summary) == ()


def test_a_drop_beyond_noise_fails() -> None:
    before = [scored_line(str(row), 0.8) for row in range(30)]
    noisy = [scored_line(str(row), 0.8 + (0.1 if row % 2 else -0.1)) for row in range(30)]
    dropped = [scored_line(str(row), 0.7 - row / 1_000) for row in range(30)]

    assert outcome_of("baseline=0", summary_of(*noisy, before=before)).passed
    outcome = outcome_of("baseline=0", summary_of(*dropped, before=before))
    assert (outcome.name, outcome.wanted, outcome.passed) == ("baseline", "no drop", False)
    assert outcome_of("baseline=0.2", summary_of(*dropped, before=before)).passed


@pytest.mark.parametrize(("now", "is_passed"), [(0.7, False), (0.9, True)])
def test_one_pair_decides_by_itself(now: float, is_passed: bool) -> None:
    summary = summary_of(scored_line("a", now), before=[scored_line("a", 0.8)])

    assert outcome_of("baseline=0", summary).passed == is_passed


def test_a_baseline_without_a_pair_fails() -> None:
    outcome = outcome_of("baseline=0", summary_of(scored_line("a", 1.0), before=[scored_line("b", 0.0)]))

    assert (outcome.got, outcome.passed) == ("no row has a pair in the baseline", False)
    assert not all_passed(parse_gate("baseline=0").outcomes(summary_of(scored_line("a", 1.0))))
