"""Measures beyond trec_eval 9's, by hand; and warnings of runs that do not fit their judgments."""

import pytest

from plumbline.ground.errors import InvalidInput
from plumbline.retrieval.evaluation import Evaluation, evaluate
from plumbline.retrieval.run import Results, Run
from tests.making.cases import load_cases

JUDGED = {"q1": {"a": 2, "b": 1, "c": 1, "z": 0}}
# ranks: 1 a (2), 2 unjudged, 3 z (0), 4 b (1)
RETRIEVED = ["a", "x", "z", "b"]


def value(measure: str, **options: object) -> float | None:
    run = Run("run", {"q1": RETRIEVED})
    return evaluate(JUDGED, run, [measure], **options).means[measure]  # type: ignore[arg-type]


@pytest.mark.parametrize(("measure", "expected"), load_cases("more_measures", "a_measure_has_its_value_by_hand"))
def test_a_measure_has_its_value_by_hand(measure: str, expected: float) -> None:
    assert value(measure) == pytest.approx(expected, abs=1e-12)


def test_nothing_is_left_open_when_all_retrieved_is_judged() -> None:
    evaluation = evaluate(JUDGED, Run("run", {"q1": ["a", "b"]}), ["rbp_resid"])

    assert evaluation.means["rbp_resid(p=0.9)"] == 0.0


def test_all_gold_needs_every_relevant_document() -> None:
    judged = {"q1": {"a": 1, "b": 1}, "q2": {"a": 1}, "q3": {"a": 0}}
    run = Run("run", {"q1": ["a", "c", "b"], "q2": ["a"], "q3": ["a"]})

    assert evaluate(judged, run, ["all_gold@2", "all_gold@3"]).means == {
        "all_gold@2": pytest.approx(1 / 3),
        "all_gold@3": pytest.approx(2 / 3),
    }


def test_counts_are_totals_over_the_queries() -> None:
    judged = {"q1": {"a": 1, "b": 1}, "q2": {"a": 1}}

    evaluation = evaluate(judged, Run("run", {"q1": ["a", "c"], "q2": ["c"]}), ["num_q", "num_rel", "num_rel_ret"])

    assert evaluation.means == {"num_q": 2.0, "num_rel": 3.0, "num_rel_ret": 1.0}


@pytest.mark.parametrize(("tokens", "expected"), [(99, 0.0), (100, 1 / 3), (349, 1 / 3), (350, 2 / 3)])
def test_a_token_budget_cuts_the_list_where_it_is_spent(tokens: int, expected: float) -> None:
    lengths = {"a": 100, "x": 100, "z": 100, "b": 50}

    assert value(f"recall_budget(tokens={tokens})", lengths=lengths) == pytest.approx(expected)


def test_a_token_budget_needs_every_length() -> None:
    with pytest.raises(InvalidInput, match="needs the length of every document"):
        value("recall_budget(tokens=100)")
    with pytest.raises(InvalidInput, match="has no length") as refusal:
        value("recall_budget(tokens=100)", lengths={"a": 10})
    assert refusal.value.place == "q1/x"


def warned(results: dict[str, Results], judged: dict[str, dict[str, int]]) -> str:
    evaluation: Evaluation = evaluate(judged, Run("run", results), ["mrr"])
    return "\n".join(evaluation.warnings)


@pytest.mark.parametrize(
    ("results", "judged", "said"), load_cases("more_measures", "a_run_that_does_not_fit_its_judgments_is_told")
)
def test_a_run_that_does_not_fit_its_judgments_is_told(
    results: dict[str, Results], judged: dict[str, dict[str, int]], said: str
) -> None:
    assert said in warned(results, judged)


def test_scores_that_rise_as_distances_do_are_told() -> None:
    judged = {"q1": {"a": 1}, "q2": {"a": 1}}
    distances = {"a": 0.1, "b": 0.4, "c": 0.9}

    assert "as distances do" in warned({"q1": distances, "q2": distances}, judged)
    assert "distances" not in warned({"q1": dict(reversed(distances.items())), "q2": distances}, judged)


def test_one_query_in_ten_that_is_missing_is_told_with_their_number() -> None:
    judged = {f"q{place}": {"a": 1} for place in range(10)}

    said = warned({query: ["a"] for query in judged if query != "q3"}, judged)

    assert "1 of 10 judged queries are missing from the run; counted as 0" in said


@pytest.mark.parametrize("length", [-1.0, float("nan"), float("inf")])
def test_a_length_that_is_none_is_refused_whatever_is_measured(length: float) -> None:
    with pytest.raises(InvalidInput, match=r"^lengths/d1: .* is no length; expected tokens, 0 or more"):
        evaluate({"q": {"d1": 1}}, Run("a", {"q": ["d1"]}), ["mrr"], lengths={"d1": length})
