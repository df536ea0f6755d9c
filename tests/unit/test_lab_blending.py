"""Blends of the lab: what is fused, by which weights each query is, and who is compared with whom."""

from dataclasses import replace

import pytest

from plumbline.extras.lab.evaluating import list_pairs
from plumbline.extras.lab.experiment import Blend, Planned
from plumbline.extras.lab.running import Blended, Judged, blend_runs
from plumbline.ground.errors import InvalidInput
from plumbline.retrieval.conventions import build_conventions
from plumbline.retrieval.evaluate import evaluate
from plumbline.retrieval.run import Run

# For q1 and q2 the first run is right, for q3 and q4 the second.
RIGHT, WRONG = {"good": 2.0, "bad": 1.0}, {"bad": 2.0, "good": 1.0}
QUERIES = ("q1", "q2", "q3", "q4")
FIRST = Run("first", {"q1": RIGHT, "q2": RIGHT, "q3": WRONG, "q4": WRONG})
SECOND = Run("second", {"q1": WRONG, "q2": WRONG, "q3": RIGHT, "q4": RIGHT})
JUDGED = Judged({query: {"good": 1} for query in QUERIES}, build_conventions("trec_eval"), seed=0)
TUNED = Blend(parts=("first", "second"), method="wsum", tune="mrr", folds=2, step=1.0)


def blend(settings: Blend, *runs: Run, judged: Judged = JUDGED) -> Blended:
    return blend_runs(settings, runs, name="c.whole.b", depth=10, judged=judged)


def test_weights_are_those_of_the_parts_by_name() -> None:
    settings = Blend(parts=("first", "second"), method="wsum", weights={"second": 0.25, "first": 0.75})

    found = blend(settings, FIRST, SECOND)

    # by hand, min-max: good has 1 of the right run and 0 of the other, so 0.75 for q1 and 0.25 for q3
    assert found.run.name == "c.whole.b"
    assert found.run.results["q1"] == {"good": 0.75, "bad": 0.25}
    assert found.run.results["q3"] == {"bad": 0.75, "good": 0.25}
    assert found.tuned is None
    assert set(found.milliseconds) == set(QUERIES)


def test_each_query_is_fused_with_weights_that_it_did_not_choose() -> None:
    found = blend(TUNED, FIRST, SECOND)

    assert found.tuned is not None
    values = evaluate(JUDGED.qrels, found.run, ["mrr"]).means["mrr"]
    assert values == pytest.approx(found.tuned.held_out_score, abs=1e-12)
    # A grid of (0, 1) and (1, 0): each fold's weights are one of the two runs
    assert {tuple(each.values()) for each in found.tuned.fold_weights} <= {(0.0, 1.0), (1.0, 0.0)}
    # Equal weights make ties, and of those the later id comes first, as trec_eval has it
    assert found.tuned.equal_score == 1.0


def test_where_one_part_is_always_right_the_held_out_score_is_perfect() -> None:
    always = Run("always", dict.fromkeys(QUERIES, RIGHT))
    never = Run("never", dict.fromkeys(QUERIES, WRONG))

    found = blend(replace_parts(TUNED, "always", "never"), always, never)

    assert found.tuned is not None
    assert found.tuned.held_out_score == found.tuned.in_sample_score == 1.0
    assert found.tuned.weights == {"always": 1.0, "never": 0.0}
    assert all(next(iter(results)) == "good" for results in found.run.results.values())


def test_a_query_nobody_judged_takes_the_weights_of_all_and_one_nobody_found_counts() -> None:
    always = Run("always", {**dict.fromkeys(QUERIES, RIGHT), "extra": RIGHT})
    never = Run("never", {**dict.fromkeys(QUERIES, WRONG), "extra": WRONG})
    judged = replace(JUDGED, qrels={**JUDGED.qrels, "lost": {"good": 1}}, conventions=build_conventions("pytrec_eval"))

    found = blend(replace_parts(TUNED, "always", "never"), always, never, judged=judged)

    assert list(found.run.results["extra"]) == ["good", "bad"]
    assert found.tuned is not None
    assert found.tuned.held_out_score == pytest.approx(4 / 5)


def test_too_few_queries_for_the_folds_is_said() -> None:
    with pytest.raises(InvalidInput, match="folds must lie between 2 and the number of queries, 4"):
        blend(TUNED.model_copy(update={"folds": 5}), FIRST, SECOND)


def test_each_is_compared_with_the_baseline_and_a_blend_with_its_parts() -> None:
    planned = [Planned("c", "w", "a"), Planned("c", "w", "b"), Planned("c", "w", "both", ("a", "b"))]

    assert list(list_pairs(planned, "c.w.a")) == [
        ("c.w.b", "c.w.a"),
        ("c.w.both", "c.w.a"),
        ("c.w.both", "c.w.b"),
    ]
    # No pair both ways where the blend is the baseline, and none with one that failed
    assert list(list_pairs(planned, "c.w.both")) == [("c.w.a", "c.w.both"), ("c.w.b", "c.w.both")]
    assert list(list_pairs(planned[1:], "c.w.a")) == [("c.w.both", "c.w.b")]


def test_the_same_retriever_is_compared_over_chunkings() -> None:
    planned = [Planned("c", "w", "a"), Planned("c", "w", "b"), Planned("c", "s", "a"), Planned("c", "s", "b")]

    assert list(list_pairs(planned, "c.w.a")) == [
        ("c.w.b", "c.w.a"),
        ("c.s.a", "c.w.a"),
        ("c.s.b", "c.w.a"),
        ("c.s.b", "c.w.b"),
    ]


def test_a_part_that_finds_nothing_scores_nothing() -> None:
    for method in ("rrf", "wsum", "combmnz"):
        settings = Blend(parts=("first", "second"), method=method)

        found = blend(settings, FIRST, Run("second", {}))

        alone = blend(settings, FIRST, Run("second", {query: {} for query in FIRST.results}))
        assert found.run.results == alone.run.results
        assert all(list(found.run.results[query]) == list(FIRST.results[query]) for query in FIRST.results)


def replace_parts(settings: Blend, *parts: str) -> Blend:
    return settings.model_copy(update={"parts": parts})
