"""Conventions: presets, overrides, and what each does to a number."""

import math

import pytest

from plumbline.ground.errors import InvalidInput
from plumbline.retrieval.conventions import PRESETS, Conventions, as_dict, build_conventions
from plumbline.retrieval.evaluation import Evaluation, evaluate
from plumbline.retrieval.run import Qrels, Results, Run
from tests.making.cases import load_cases


def _evaluated(results: Results, qrels: Qrels, *measures: str, **overrides: object) -> Evaluation:
    return evaluate(qrels, Run("run", {"q1": results}), measures, conventions=build_conventions(**overrides))  # type: ignore[arg-type]


def test_the_default_is_trec_eval() -> None:
    assert build_conventions() == Conventions() == PRESETS["trec_eval"]


def test_the_presets_differ_where_the_tools_do() -> None:
    trec_eval_9 = Conventions(score_precision="float32", missing_queries="skip", recall_points="at_least")
    assert build_conventions("pytrec_eval") == trec_eval_9
    assert build_conventions("beir").ignore_identical_ids
    assert build_conventions("ragas_id").no_relevant == "skip"
    assert build_conventions("seed-2").max_rel == 2
    assert build_conventions("seed-3").id_rule == "urn_uuid"
    assert build_conventions("seed-4").dedupe == "after_cutoff"
    assert {"seed-0", "seed-1"} < set(PRESETS)


def test_every_parameter_is_repeated_by_name() -> None:
    conventions = build_conventions("beir", gain_map={"2": 3, 1: 1}, rel_level=2)

    values = as_dict(conventions)

    assert values["gain_map"] == {"1": 1.0, "2": 3.0}
    assert values["rel_level"] == 2
    assert values["score_precision"] == "float32"
    assert len(values) == 17
    assert build_conventions(**values) == conventions  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("preset", "overrides", "message"),
    load_cases("conventions", "a_wrong_convention_is_refused_with_the_nearest", inner=list),
)
def test_a_wrong_convention_is_refused_with_the_nearest(
    preset: str, overrides: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        build_conventions(preset, **overrides)


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf, "high", None])
def test_a_score_that_is_no_finite_number_is_refused_with_its_place(score: float) -> None:
    with pytest.raises(InvalidInput, match="wanted a finite number") as refusal:
        _evaluated({"d1": 1.0, "d3": score}, {"q1": {"d1": 1}}, "mrr")

    assert refusal.value.place == "q1/d3"


@pytest.mark.parametrize("grade", [0.5, True, "1", None, 2**31, -(10**30)])
def test_a_grade_that_is_no_whole_number_is_refused_with_its_place(grade: int) -> None:
    with pytest.raises(InvalidInput, match="wanted a whole number") as refusal:
        _evaluated(["d1"], {"q1": {"d1": 1, "d2": grade}}, "mrr")

    assert refusal.value.place == "q1/d2"


def test_a_duplicate_is_refused_with_its_place() -> None:
    with pytest.raises(InvalidInput, match="retrieved twice") as refusal:
        _evaluated(["d1", "d2", "d2"], {"q1": {"d1": 1}}, "mrr")

    assert refusal.value.place == "q1/d2"


def test_ids_that_become_equal_count_once_at_their_best_score() -> None:
    # a#0 and a#1 are one document with score 3; b comes second. The grade of the document is its highest.
    run = Run("run", {"q1": {"a#0": 1.0, "b#0": 2.0, "a#1": 3.0}})
    conventions = build_conventions(duplicates="max_score")

    evaluation = evaluate(
        {"q1": {"b#7": 1, "b#8": 2, "a#9": 0}},
        run,
        ["mrr", "ndcg"],
        conventions=conventions,
        normalise_id=lambda doc_id: doc_id.split("#")[0],
    )

    assert evaluation.means["mrr"] == 0.5
    assert evaluation.means["ndcg"] == pytest.approx(1 / math.log2(3))
    assert evaluation.counts.duplicates_removed == 1
    assert evaluation.counts.retrieved == 2


def test_cutting_before_deduplicating_counts_the_documents_left() -> None:
    # Scores order the chunks a, a, a, b: the first three are one document. b is the second document all the same.
    run = Run("run", {"q1": {"b#0": 1.0, "a#0": 4.0, "a#1": 3.0, "a#2": 2.0}})

    evaluation = evaluate(
        {"q1": {"a": 1, "b": 1}},
        run,
        ["recall@3", "precision_ret@3", "precision_ret@4", "map", "judged@3"],
        conventions=build_conventions(duplicates="first", dedupe="after_cutoff"),
        normalise_id=lambda doc_id: doc_id.split("#")[0],
    )

    assert evaluation.means == {
        "recall@3": 0.5,
        "precision_ret@3": 1.0,
        "precision_ret@4": 1.0,
        "map": 1.0,
        "judged@3": 1.0,
    }


def test_a_list_with_duplicates_is_read_on_until_the_cutoff_is_filled() -> None:
    # Unique documents a, b, c: b is among the first two though it is the third entry.
    evaluation = _evaluated(["a", "a", "b", "c"], {"q1": {"b": 1}}, "recall@2", duplicates="first")

    assert evaluation.means["recall@2"] == 1.0


def test_a_query_missing_from_the_run_is_refused_where_none_may_be() -> None:
    with pytest.raises(InvalidInput, match="1 judged queries are missing"):
        evaluate({"q2": {"a": 1}}, Run("run", {}), ["mrr"], conventions=build_conventions(missing_queries="error"))


def test_what_was_counted_is_told() -> None:
    qrels = {"q1": {"a": 1, "b": 0}, "q2": {"a": 0}, "q3": {"c": 2}}
    run = Run("run", {"q1": ["a", "x", "b", "y"], "q2": ["z"], "q9": ["a"]})

    evaluation = evaluate(qrels, run, ["context_recall", "context_precision", "context_f1", "judged@2"])

    assert evaluation.query_ids == ("q1", "q2", "q3")
    assert evaluation.missing_query_ids == ("q3",)
    assert evaluation.extra_query_ids == ("q9",)
    counts = evaluation.counts
    assert (counts.queries, counts.missing, counts.extra, counts.without_relevant) == (3, 1, 1, 1)
    assert (counts.retrieved, counts.gold, counts.correct) == (5, 2, 1)
    assert counts.judged_share == pytest.approx(1 / 3)  # a of a, x and z
    assert evaluation.values["context_precision"].tolist() == [0.25, 0.0, 0.0]
    assert evaluation.values["context_f1"].tolist() == [0.4, 0.0, 0.0]  # 2 * 1/4 * 1 / (5/4)
    assert [warning.split(";")[0] for warning in evaluation.warnings] == [
        "1 of 3 judged queries are missing from the run",
        "1 queries of the run have no judgments",
        "1 queries have no relevant document",
    ]


def test_without_queries_a_mean_is_unknown() -> None:
    evaluation = evaluate({}, Run("run", {}), ["mrr", "ndcg@10", "map", "bpref", "judged@5", "map_graded"])

    assert set(evaluation.means.values()) == {None}
    assert evaluation.counts.judged_share is None


def test_an_undeclared_max_rel_is_the_highest_grade_of_all_queries() -> None:
    # 3 is q2's grade; q1's hit weighs 1/3.
    qrels = {"q1": {"a": 1}, "q2": {"b": 3}}

    evaluation = evaluate(qrels, Run("run", {"q1": ["a"], "q2": ["b"]}), ["map_graded"])

    assert evaluation.values["map_graded"].tolist() == pytest.approx([1 / 3, 1])
    assert evaluation.conventions.max_rel == 3
    assert "max_rel was not declared" in evaluation.warnings[0]


@pytest.mark.parametrize(
    ("grade", "measure", "overrides", "message"), load_cases("conventions", "a_grade_that_has_no_gain_is_refused")
)
def test_a_grade_that_has_no_gain_is_refused(
    grade: int, measure: str, overrides: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        _evaluated(["a"], {"q1": {"a": grade}}, measure, **overrides)


def test_an_id_rule_is_applied_by_its_name() -> None:
    judged = {"q1": {"<urn:uuid:27c682dc-c97b-4c3e-b41c-999c65264a6d>": 1}}
    retrieved = ["doc-<urn:uuid:27C682DC-C97B-4C3E-B41C-999C65264A6D>::chunk-0"]

    assert _evaluated(retrieved, judged, "mrr", id_rule="urn_uuid").means["mrr"] == 1.0


def test_a_text_is_no_list_of_ids() -> None:
    with pytest.raises(InvalidInput, match="found a text"):
        _evaluated("abc", {"q1": {"a": 1}}, "mrr")


def test_scores_too_large_for_float32_tie() -> None:
    # Both overflow to infinity, so the docno decides: b, then a.
    evaluation = _evaluated({"a": 2e300, "b": 1e300}, {"q1": {"a": 1}}, "mrr", score_precision="float32")

    assert evaluation.means["mrr"] == 0.5


def test_a_bad_score_is_refused_even_where_its_document_leaves() -> None:
    with pytest.raises(InvalidInput, match="wanted a finite number"):
        _evaluated({"a": 1.0, "x": math.nan}, {"q1": {"a": 1}}, "mrr", judged_only=True)


def test_neither_judgments_nor_run_are_changed() -> None:
    qrels, results = {"q1": {"a": 1}}, {"q1": {"q1": 2.0, "a": 1.0}}

    evaluation = evaluate(qrels, Run("run", results), ["mrr"], conventions=build_conventions("beir"))

    assert evaluation.means["mrr"] == 1.0
    assert qrels == {"q1": {"a": 1}}
    assert results == {"q1": {"q1": 2.0, "a": 1.0}}
