"""The report on a file of results: what is counted, what is kept, what is compared."""

import json
import math
from typing import Any, get_type_hints

import msgspec
import pytest

from plumbline.rows.report import result_lines
from plumbline.rows.report.building import Report, ReportBuilder
from plumbline.rows.report.result_lines import read_line
from plumbline.schemas import batch, evaluation, problem, result_parts
from plumbline.schemas.batch import RowResult
from plumbline.schemas.wire import json_line
from tests.making.result_rows import build_report, error_line, result_line, scored_line
from tests.running.batch_service import row as sample_row
from tests.running.service import evaluate, plain_settings, running


def ids_of(report: Report) -> list[str]:
    return [each.custom_id for each in report.summary.worst]


def test_every_row_is_counted_once_under_its_status() -> None:
    lines = [
        scored_line("a", 0.2),
        scored_line("b", 0.8, row=1),
        result_line("c", row=2, status="abstained", tier="llm"),
        result_line("d", row=3, status="empty_answer"),
        result_line("e", row=4, status="not_judged"),
        error_line(None, row=5),
        b"",
        b"  \n",
    ]

    summary = build_report(lines).summary

    assert summary.rows == 6
    assert summary.statuses.model_dump() == {
        "judged": 2,
        "abstained": 1,
        "empty_answer": 1,
        "not_judged": 1,
        "error": 1,
    }
    assert {tier: sum(counts.model_dump().values()) for tier, counts in summary.statuses_by_tier.items()} == {
        "llm": 3,
        "none": 3,
    }
    assert summary.tier_counts.model_dump() == {"llm": 3, "embedding": 0, "lexical": 0}
    assert (summary.passed, summary.bad_lines) == (1, 0)


def test_pairs_that_pass_or_fail_anew_are_counted_where_one_rule_decided_both() -> None:
    def line(name: str, passed: bool, rule: str) -> bytes:
        return scored_line(name, 0.9, passed=passed, decision={"rule": rule})

    rule = "all_supported"
    before = [line("a", True, rule), line("b", False, rule), line("c", True, rule), scored_line("d", 0.9)]
    now = [line("a", False, rule), line("b", True, rule), line("c", True, rule), line("d", False, rule)]

    comparison = build_report(now, baseline_lines=before).summary.comparison

    assert comparison is not None
    (tier,) = comparison.tiers
    assert (tier.paired, tier.newly_failing, tier.newly_passing) == (4, 1, 1)


def test_means_are_those_of_the_judged_rows_alone() -> None:
    summary = build_report([scored_line("a", 0.2), scored_line("b", 0.9), result_line("c", status="abstained")]).summary

    (tier,) = summary.tiers
    assert tier.scores.faithfulness.mean == pytest.approx(0.55)
    assert tier.scores.hallucination_rate.mean == pytest.approx(0.45)
    assert tier.scores.passed_share.mean == 0.5
    assert tier.scores.faithfulness_strict.mean is None
    assert (tier.scores.faithfulness.rows, tier.scores.faithfulness_strict.rows) == (2, 0)
    assert summary.all_tiers == tier.scores


def test_tiers_are_kept_apart_and_the_mixture_is_a_mean_of_its_own() -> None:
    lines = [scored_line("a", 1.0), scored_line("b", 0.5), scored_line("c", 0.0, tier="lexical", flags=["degraded"])]

    summary = build_report(lines).summary

    assert [(tier.tier, tier.judged, tier.degraded, tier.scores.faithfulness.mean) for tier in summary.tiers] == [
        ("llm", 2, 0, 0.75),
        ("lexical", 1, 1, 0.0),
    ]
    assert summary.all_tiers.faithfulness.mean == 0.5
    assert (summary.degraded, summary.flags) == (1, {"degraded": 1})


def test_rows_without_contexts_count_with_the_tier_that_scored_most() -> None:
    lines = [scored_line("a", 1.0), scored_line("b", 1.0, tier="lexical"), scored_line("c", 0.8, tier="lexical")]

    summary = build_report([*lines, scored_line("none", 0.0, tier=None, flags=["no_context"])]).summary

    assert [(tier.tier, tier.judged, tier.without_tier) for tier in summary.tiers] == [
        ("llm", 1, 0),
        ("lexical", 3, 1),
    ]
    assert summary.tiers[1].scores.faithfulness.mean == pytest.approx(0.6)
    assert summary.statuses_by_tier["none"].judged == 1


def test_a_file_of_rows_without_contexts_alone_has_a_group_of_its_own() -> None:
    (tier,) = build_report([scored_line("none", 0.0, tier=None)]).summary.tiers

    assert (tier.tier, tier.judged, tier.without_tier) == ("none", 1, 1)


def test_the_histogram_has_20_parts_and_1_is_in_the_last() -> None:
    scores = [0.0, 0.049, 0.05, 0.5, 0.95, 1.0]

    (tier,) = build_report([scored_line(str(score), score) for score in scores]).summary.tiers

    assert tier.histogram == [2, 1, *[0] * 8, 1, *[0] * 8, 2]


def test_claims_are_counted_by_verdict() -> None:
    lines = [scored_line("a", 0.5, verdicts=("supported", "contradicted")), scored_line("b", 1.0)]

    (tier,) = build_report(lines).summary.tiers

    assert tier.verdicts.model_dump() == {
        "supported": 2,
        "partial": 0,
        "contradicted": 1,
        "not_mentioned": 0,
        "not_a_claim": 0,
    }


def test_a_cost_that_is_not_known_makes_the_sum_unknown_and_is_counted() -> None:
    summary = build_report([scored_line("a", 1.0), scored_line("b", 1.0), scored_line("c", 1.0, cost=None)]).summary

    assert (summary.usage.cost, summary.known_cost, summary.rows_of_unknown_cost) == (None, 0.5, 1)
    assert (summary.usage.calls, summary.usage.prompt_tokens, summary.usage.cached_tokens) == (3, 300, 15)


def test_the_worst_rows_come_first_and_in_a_tie_those_with_more_contradictions() -> None:
    lines = [
        scored_line("good", 0.9, row=0),
        scored_line("zero", 0.0, row=1, verdicts=("not_mentioned",)),
        scored_line("lie", 0.0, row=2, verdicts=("contradicted",)),
        scored_line("later", 0.0, row=3, verdicts=("contradicted",)),
        scored_line("half", 0.5, row=4),
    ]

    assert ids_of(build_report(lines)) == ["lie", "later", "zero", "half", "good"]
    assert ids_of(build_report(lines, worst=2)) == ["lie", "later"]
    assert ids_of(build_report(reversed(lines), worst=3)) == ["lie", "later", "zero"]
    assert ids_of(build_report(lines, worst=0)) == []


def test_each_tier_has_places_among_the_worst_by_its_rows() -> None:
    # Ranked by the number alone, tier lexical would take all ten places.
    llm = [scored_line(f"m{row}", 0.5, row=row) for row in range(90)]
    lexical = [scored_line(f"x{row}", 0.1, row=100 + row, tier="lexical") for row in range(10)]

    ids = ids_of(build_report([*lexical, *llm], worst=10))

    assert ids == [*(f"m{row}" for row in range(9)), "x0"]


def test_rows_without_a_score_are_kept_errors_first_and_at_most_50_of_a_kind() -> None:
    lines = [result_line("q", row=0, status="abstained"), *(error_line(f"e{row}", row=row) for row in range(60))]

    report = build_report(lines)

    assert [kept.row.status for kept in report.unscored] == ["error"] * 50 + ["abstained"]
    assert report.summary.statuses.error == 60


def test_a_long_row_is_shortened_and_says_so() -> None:
    line = scored_line("a", 0.0, text="word " * 40_000)

    (kept,) = build_report([line]).worst

    assert kept.is_cut
    assert kept.row.result is not None
    assert len(kept.row.result.claims[0].text) < 1_000
    assert len(msgspec.json.encode(kept.row)) < 10_000


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"{", "not JSON"),
        (b"[1]", "Expected `object`, got `array`"),
        (b'{"custom_id": "a", "row": 0}', "expected either `result` or `error`"),
        (b'{"custom_id": "a", "row": -1, "result": null}', "$.row"),
        (b'{"custom_id": "\xff", "row": 0}', "not UTF-8"),
        (None, "too long"),
        (b'{"x": ' + b"[" * 100_000, "nested too deep"),
        (b'{"custom_id": "\\ud800", "row": 0}', "not JSON"),
        (scored_line("a", 0.5).replace(b'"cost":0.25', b'"cost":1e308'), "$.result.trace.usage.cost"),
        (scored_line("a", 0.5).replace(b'"row":0', b'"row":99999999999999999999'), "$.row"),
        (scored_line("a", 0.5).replace(b'"tier":"llm"', b'"tier":"SECRET"'), "$.result.tier"),
        (scored_line("a", 0.5).replace(b'"faithfulness":0.5', b'"faithfulness":1.5'), "$.result.faithfulness"),
        (scored_line("a", 0.5).replace(b'"faithfulness":0.5', b'"faithfulness":NaN'), "not JSON"),
        (scored_line("a", 0.5).replace(b'"faithfulness":0.5', b'"faithfulness":null'), "needs `custom_id` and"),
    ],
)
def test_a_line_that_is_no_row_is_skipped_and_told_by_its_number(line: bytes | None, said: str) -> None:
    builder = ReportBuilder()

    bad = [builder.add(each) for each in (scored_line("a", 1.0), b"\n", line, scored_line("b", 1.0))]

    summary = builder.report().summary
    (told,) = [each for each in bad if each]
    assert (told.line, summary.first_bad_lines, summary.bad_lines, summary.rows) == (3, [told], 1, 2)
    assert said in told.problem
    assert "SECRET" not in told.problem


def test_many_bad_lines_are_counted_and_the_first_20_told() -> None:
    summary = build_report([b"{"] * 30).summary

    assert (summary.bad_lines, len(summary.first_bad_lines), summary.rows) == (30, 20, 0)


def test_pairs_have_one_id_and_one_tier() -> None:
    before = [
        scored_line("same", 0.5),
        scored_line("worse", 0.9),
        scored_line("better", 0.2),
        scored_line("other", 0.5, tier="lexical"),
        scored_line("gone", 0.5),
        result_line("silent", status="abstained"),
    ]
    now = [
        scored_line("same", 0.5),
        scored_line("worse", 0.4, row=1),
        scored_line("better", 0.3, row=2),
        scored_line("other", 0.5),
        scored_line("new", 0.5),
        scored_line("silent", 0.5),
        scored_line("worse", 0.0),
    ]

    comparison = build_report(now, baseline_lines=[*before, b"{"]).summary.comparison

    assert comparison is not None
    (tier,) = comparison.tiers
    assert (tier.tier, tier.paired, tier.better, tier.equal, tier.worse) == ("llm", 3, 1, 1, 1)
    # (0 - 0.5 + 0.1) / 3
    assert tier.difference.mean == pytest.approx(-0.4 / 3)
    assert (comparison.other_tier, comparison.only_here, comparison.only_in_baseline) == (1, 2, 1)
    assert (comparison.repeated_ids, comparison.baseline_rows, comparison.baseline_bad_lines) == (1, 6, 1)
    assert [(move.custom_id, move.row, move.before, move.now) for move in comparison.worse] == [("worse", 1, 0.9, 0.4)]
    assert [move.custom_id for move in comparison.better] == ["better"]


def test_of_many_moves_the_largest_are_told_first() -> None:
    before = [scored_line(str(row), 1.0) for row in range(40)]
    now = [scored_line(str(row), 1.0 - row / 40, row=row) for row in range(40)]

    comparison = build_report(now, baseline_lines=before).summary.comparison

    assert comparison is not None
    assert [move.row for move in comparison.worse] == list(range(39, 19, -1))
    assert comparison.better == []


def test_of_a_baseline_with_an_id_twice_the_first_counts() -> None:
    before = [scored_line("a", 0.5), scored_line("a", 0.0)]

    comparison = build_report([scored_line("a", 0.5)], baseline_lines=before).summary.comparison

    assert comparison is not None
    assert (comparison.tiers[0].equal, comparison.repeated_ids, comparison.only_in_baseline) == (1, 1, 0)


def test_the_same_lines_make_the_same_report() -> None:
    lines = [scored_line(str(row), math.sin(row) ** 2, row=row) for row in range(200)]

    assert build_report(lines) == build_report(iter(lines))


def test_a_report_can_be_taken_while_rows_still_come() -> None:
    builder = ReportBuilder(gates=())
    builder.add(scored_line("a", 1.0))
    builder.add(scored_line("n", 0.0, tier=None))
    first = builder.report().summary
    builder.add(scored_line("b", 0.0))

    assert first == build_report([scored_line("a", 1.0), scored_line("n", 0.0, tier=None)]).summary
    assert builder.report().summary.tiers[0].judged == 3


async def test_what_the_service_says_of_a_sample_is_read() -> None:
    async with running(plain_settings()) as client:
        results = [
            await evaluate(client, **{**sample_row(None, answer), "contexts": contexts})
            for answer, contexts in (
                ("The Marlow Bridge was opened in 1931.", ["The Marlow Bridge was opened in 1931."]),
                ("Cats sleep.", []),
                ("", ["a"]),
            )
        ]
    lines = [
        json_line(RowResult.model_validate({"custom_id": f"q{row}", "row": row, "result": result}))
        for row, result in enumerate(results)
    ]

    summary = build_report(lines).summary

    assert (summary.rows, summary.bad_lines) == (3, 0)
    assert (summary.statuses.judged, summary.statuses.empty_answer) == (2, 1)
    assert summary.flags["no_context"] == 1


@pytest.mark.parametrize(
    ("ours", "wire"),
    [
        (result_lines.RowResult, evaluation.EvaluationResult),
        (result_lines.Claim, result_parts.ClaimItem),
        (result_lines.Evidence, result_parts.EvidenceItem),
        (result_lines.Counts, result_parts.VerdictCounts),
        (result_lines.Attempt, result_parts.AttemptItem),
        (result_lines.RowUsage, result_parts.UsageItem),
        (result_lines.RowTrace, result_parts.TraceItem),
        (result_lines.RowScores, result_parts.ScoreItems),
        (result_lines.Decision, result_parts.DecisionItem),
        (result_lines.Because, result_parts.DecidingClaim),
        (result_lines.Citation, result_parts.CitationItem),
        (result_lines.Fault, problem.RowProblem),
        (result_lines.FieldFault, problem.FieldProblem),
    ],
)
def test_what_is_read_of_a_line_is_in_the_schema(ours: Any, wire: Any) -> None:
    assert set(get_type_hints(ours)) <= set(wire.model_fields)


def test_a_row_on_the_wire_is_a_row_here() -> None:
    both = {*batch.RowResult.model_fields, *batch.RowError.model_fields}

    assert set(result_lines.ResultRow.__struct_fields__) == both


def test_a_problem_never_quotes_the_file() -> None:
    line = json.loads(scored_line("a", 0.5))
    for path in (("result", "status"), ("result", "claims", 0, "verdict"), ("result", "trace", "attempts")):
        broken = json.loads(json.dumps(line))
        place = broken
        for part in path[:-1]:
            place = place[part]
        place[path[-1]] = "PLANTED 'quoted' text"

        read = read_line(json.dumps(broken).encode())

        assert isinstance(read, str)
        assert "PLANTED" not in read
        assert "text" not in read


def test_rows_that_no_tier_judged_are_no_figure_of_a_tier() -> None:
    """Tier lexical has no strict faithfulness: the one row without contexts, 0 by rule, stood in headline type."""
    report = build_report([
        *(scored_line(f"q{row}", 0.8, row=row, tier="lexical") for row in range(3)),
        scored_line("empty", 0.0, row=3, tier=None, verdicts=["not_mentioned"], scores={"faithfulness_strict": 0.0}),
    ])  # fmt: skip

    (tier,) = report.summary.tiers
    assert (tier.judged, tier.without_tier, tier.scores.faithfulness.rows) == (4, 1, 4)
    assert tier.scores.faithfulness_strict.rows == report.summary.all_tiers.faithfulness_strict.rows == 0
