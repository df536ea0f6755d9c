"""Normalisation, fusion and tuning of runs: worked by hand, and the values of ranx kept in a file."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plumbline.ground.errors import InvalidInput
from plumbline.retrieval.combination import Norm, normalise, rank_results
from plumbline.retrieval.conventions import PRESETS
from plumbline.retrieval.fusion import METHODS, fuse, simplex_grid, tune_weights
from plumbline.retrieval.run import Results, Run
from tests.making.cases import load_cases

REFERENCE = json.loads((Path(__file__).parents[1] / "data" / "retrieval_fusion.json").read_text())


def run_of(name: str = "run", **results: Results) -> Run:
    return Run(name, results)


def scores_of(run: Run, query_id: str = "q") -> dict[str, float]:
    results = run.results[query_id]
    assert isinstance(results, Mapping)
    return dict(results)


@pytest.mark.parametrize(
    "case", REFERENCE["fusion"], ids=lambda case: f"{case['pool']}-{case['norm']}-{case['method']}"
)
def test_a_reference_case_has_its_reference_scores(case: dict[str, Any]) -> None:
    runs = [Run(str(place), results) for place, results in enumerate(REFERENCE["pools"][case["pool"]])]

    fused = fuse(
        runs, method=case["method"], norm=case["norm"], weights=case.get("weights"), params=case.get("params")
    ).run

    assert set(fused.results) == set(case["expected"])
    for query_id, expected in case["expected"].items():
        assert scores_of(fused, query_id) == pytest.approx(expected, abs=1e-9)


def test_every_method_has_a_reference_case() -> None:
    assert {case["method"] for case in REFERENCE["fusion"]} == set(METHODS)


def test_weights_of_reciprocal_ranks_by_hand() -> None:
    fused = fuse([run_of(q=["a"]), run_of(q=["b"])], method="rrf", weights=[1, 3], params={"k": 0}).run

    assert scores_of(fused) == {"b": 3.0, "a": 1.0}


def test_a_query_of_one_run_alone_is_kept_and_said() -> None:
    fusion = fuse([run_of("full", q1=["a"], q2=["b"]), run_of("part", q1=["a"])], method="rrf")

    assert list(fusion.run.results) == ["q1", "q2"]
    assert fusion.warnings == ("run 'part' has no results for 1 of 2 queries; the others decide them",)


def test_equal_fused_scores_are_ordered_by_id_descending() -> None:
    runs = [run_of(q=["m", "a", "z"]), run_of(q=["a", "z", "m"]), run_of(q=["z", "m", "a"])]

    assert list(scores_of(fuse(runs, method="rrf").run)) == ["z", "m", "a"]
    assert list(scores_of(fuse(runs, method="rrf", ties="docno_asc").run)) == ["a", "m", "z"]
    assert list(scores_of(fuse(runs, method="rrf", ties="input_order").run)) == ["m", "a", "z"]


def test_equal_scores_of_a_run_are_ranked_by_the_tie_rule() -> None:
    results = {"a": 1.0, "c": 1.0, "b": 1.0, "d": 2.0}

    assert rank_results(results).doc_ids == ("d", "c", "b", "a")
    assert rank_results(results, ties="docno_asc").doc_ids == ("d", "a", "b", "c")
    assert rank_results(results, ties="input_order").doc_ids == ("d", "a", "c", "b")


def test_documents_with_the_same_scores_in_other_runs_tie_exactly() -> None:
    # 0.1 + 0.2 + 0.3 is 0.6000000000000001 and 0.3 + 0.2 + 0.1 is 0.6, unless they are put in order first.
    runs = [run_of(q={"a": 0.1, "b": 0.3}), run_of(q={"a": 0.2, "b": 0.2}), run_of(q={"a": 0.3, "b": 0.1})]

    fused = scores_of(fuse(runs, method="wsum", norm="none").run)

    assert fused["a"] == fused["b"]
    assert list(fused) == ["b", "a"]


def test_many_documents_that_tie_keep_the_tie_order() -> None:
    doc_ids = [f"d{place:03}" for place in range(300)]
    run = run_of(q={doc_id: float(place % 2) for place, doc_id in enumerate(doc_ids)})

    fused = scores_of(fuse([run], method="wsum", norm="none").run)

    assert list(fused) == [*doc_ids[::-1][::2], *doc_ids[::-1][1::2]]


def test_ids_without_scores_get_scores_from_their_ranks_and_it_is_said() -> None:
    fusion = fuse(
        [run_of("ids", q=["a", "b", "a", "c", "d"]), run_of("bm25", q={"b": 1.0})], method="wsum", norm="none"
    )

    assert scores_of(fusion.run) == {"b": 1.75, "a": 1.0, "c": 0.5, "d": 0.25}
    assert fusion.warnings == ("run 'ids' lists ids without scores for 1 queries; took 1 - i/n by position",)


def test_raw_scores_of_different_scales_are_said() -> None:
    runs = [run_of("bm25", q={"a": 20.0, "b": 18.0}), run_of("dense", q={"b": 0.9, "a": 0.2})]

    fusion = fuse(runs, method="wsum", norm="none")

    assert fusion.warnings == (
        "wsum mixes raw scores of different scales: run 'bm25' tops out near 20, run 'dense' near 0.9; "
        "choose a normalisation",
    )
    assert fuse(runs, method="wsum").warnings == ()
    assert fuse([runs[1], runs[1]], method="wsum", norm="none").warnings == ()


def test_a_norm_that_has_no_effect_is_said() -> None:
    fusion = fuse([run_of(q=["a"])], method="rrf", norm="z-score")

    assert fusion.warnings == ("normalisation 'z-score' has no effect on rrf, which reads ranks alone",)
    assert fusion.recipe.norm == "none"


def test_a_document_that_a_run_missed_counts_nothing_or_as_its_lowest() -> None:
    runs = [run_of(q={"a": 4.0, "b": 2.0}), run_of(q={"b": 8.0, "c": 6.0})]

    nothing, lowest = (scores_of(fuse(runs, method="wsum", norm="none", missing=each).run) for each in ("zero", "min"))

    assert nothing == {"a": 4.0, "b": 10.0, "c": 6.0}
    assert lowest == {"a": 4.0 + 6.0, "b": 10.0, "c": 6.0 + 2.0}


def test_depth_keeps_the_best() -> None:
    assert scores_of(fuse([run_of(q={"a": 1.0, "b": 3.0, "c": 2.0})], method="wsum", norm="none", depth=2).run) == {
        "b": 3.0,
        "c": 2.0,
    }


@pytest.mark.parametrize(("norm", "expected"), load_cases("fusion", "a_normalisation_by_hand", inner=list))
def test_a_normalisation_by_hand(norm: Norm, expected: list[float]) -> None:
    assert normalise(np.array([4.0, 3.0, 1.0]), norm=norm) == pytest.approx(expected)


@pytest.mark.parametrize(("norm", "expected"), [("min-max", 1.0), ("z-score", 0.0), ("none", 7.0)])
def test_scores_that_are_all_equal_have_no_scale(norm: Norm, expected: float) -> None:
    assert normalise(np.array([7.0, 7.0]), norm=norm).tolist() == [expected, expected]


def test_the_largest_floats_are_normalised_without_overflow() -> None:
    scores = np.array([1.7e308, 0.0, -1.7e308])

    assert normalise(scores, norm="min-max").tolist() == [1.0, 0.5, 0.0]
    assert np.isfinite(normalise(scores, norm="z-score")).all()


def test_sums_that_overflow_are_refused() -> None:
    with pytest.raises(InvalidInput, match="query 'q' are too large"):
        fuse([run_of(q={"a": 1.7e308}), run_of(q={"a": 1.7e308})], method="wsum", norm="none")


@pytest.mark.parametrize(("arguments", "message"), load_cases("fusion", "what_cannot_be_fused_is_refused", inner=list))
def test_what_cannot_be_fused_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        fuse([run_of(q=["a"]), run_of(q=["b"])], **arguments)


def test_no_runs_are_refused() -> None:
    with pytest.raises(InvalidInput, match="at least one run"):
        fuse([], method="rrf")


def test_the_grid_loses_no_point_to_rounding() -> None:
    grid = simplex_grid(3, step=0.1)

    assert len(grid) == len(set(grid)) == 66
    assert (0.7, 0.2, 0.1) in grid
    assert all(sum(weights) == pytest.approx(1.0, abs=1e-12) for weights in grid)
    assert [len(simplex_grid(count, step=0.05)) for count in (1, 2, 3)] == [1, 21, 231]


@pytest.mark.parametrize(("step", "message"), [(0.3, "whole number"), (0.0, "whole number"), (0.001, "larger")])
def test_a_step_that_makes_no_grid_is_refused(step: float, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        simplex_grid(3, step=step)


# The right document of a query is "good"; the first run ranks it first for all queries, the second for none.
QUERY_IDS = [f"q{place}" for place in range(10)]
RIGHT = Run("right", {query_id: {"good": 1.0, "bad": 0.0} for query_id in QUERY_IDS})
WRONG = Run("wrong", {query_id: {"bad": 1.0, "good": 0.0} for query_id in QUERY_IDS})


QRELS = {query_id: {"good": 1} for query_id in QUERY_IDS}


def test_tuning_finds_the_run_that_is_right_and_stays_nearest_to_equal_weights() -> None:
    tuned = tune_weights([RIGHT, WRONG], QRELS, "success@1", folds=5, step=0.1)

    # "good" gets w, "bad" 1 - w; from w = 0.5 on "good" is first (by id where they tie), and 0.5 is nearest to equal.
    assert tuned.weights == (0.5, 0.5)
    assert (tuned.in_sample_score, tuned.held_out_score, tuned.equal_score) == (1.0, 1.0, 1.0)


def test_weights_that_fit_chance_lose_on_queries_held_out() -> None:
    # Two queries, each won by another run: what one fold teaches is wrong for the other.
    first, second = RIGHT.results["q0"], WRONG.results["q0"]
    runs = [Run("x", {"q1": first, "q2": second}), Run("y", {"q1": second, "q2": first})]

    tuned = tune_weights(runs, {"q1": QRELS["q1"], "q2": QRELS["q2"]}, "success@1", folds=2, step=1.0, ties="docno_asc")

    assert (tuned.in_sample_score, tuned.held_out_score) == (0.5, 0.0)


def test_tuning_does_not_depend_on_the_order_of_queries() -> None:
    results = {f"q{place}": {"good": place % 3 / 2, "bad": 0.4} for place in range(10)}
    runs = [WRONG, Run("mixed", results)]
    turned = dict(reversed(list(QRELS.items())))

    one, other = (tune_weights(runs, qrels, "success@1", folds=2, seed=3) for qrels in (QRELS, turned))

    assert one == other


@pytest.mark.parametrize(("arguments", "message"), load_cases("fusion", "what_cannot_be_tuned_is_refused"))
def test_what_cannot_be_tuned_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        tune_weights([RIGHT, WRONG], QRELS, "success@1", **arguments)


def test_conventions_that_leave_queries_out_are_refused() -> None:
    with pytest.raises(InvalidInput, match="each of 11 judged queries, and the conventions leave 10"):
        tune_weights([RIGHT, WRONG], {**QRELS, "absent": {"good": 1}}, "success@1", conventions=PRESETS["pytrec_eval"])
