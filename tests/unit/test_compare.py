"""Runs compared pair by pair over the same queries."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plumbline.ground.errors import InvalidInput
from plumbline.retrieval.comparison import RunComparison, compare

SIGNIFICANCE = json.loads((Path(__file__).parents[1] / "data" / "retrieval_fusion.json").read_text())["significance"]
SCORES = {name: np.array(values) for name, values in SIGNIFICANCE["scores"].items()}


def compared(**arguments: Any) -> tuple[RunComparison, ...]:
    usual: dict[str, Any] = {"values_by_run": SCORES, "measure": "ndcg@10", "resamples": 500}
    return compare(**usual | arguments)


@pytest.mark.parametrize("correction", ["holm", "bh"])
def test_the_reference_family_by_t(correction: str) -> None:
    found = compared(test="t", correction=correction)

    for each, expected in zip(found, SIGNIFICANCE["pairs"], strict=True):
        assert (each.a, each.b, each.measure, each.n) == (expected["a"], expected["b"], "ndcg@10", 10)
        assert each.diff == pytest.approx(expected["diff"], abs=1e-9)
        assert each.t == pytest.approx(expected["t"], abs=1e-9)
        assert each.p == pytest.approx(expected["p_t"], abs=1e-9)
        assert each.p_adjusted == pytest.approx(expected[f"p_{correction}"], abs=1e-9)
        assert [each.win, each.tie, each.loss] == expected["win_tie_loss"]


def test_the_reference_family_by_sign_flips() -> None:
    found = compared(test="randomization")

    assert [each.p for each in found] == pytest.approx([pair["p_sign_flip"] for pair in SIGNIFICANCE["pairs"]])
    # Holm: 0.03125 * 3, 0.0390625 * 2 raised to it, 0.880859375.
    assert [each.p_adjusted for each in found] == pytest.approx([0.09375, 0.880859375, 0.09375])
    assert all(each.t is None for each in found)


def test_an_adjusted_p_at_alpha_is_significant() -> None:
    (found,) = compared(values_by_run={"x": np.ones(6), "y": np.zeros(6)}, alpha=2 / 2**6)

    assert found.p_adjusted == 2 / 2**6
    assert found.significant


def test_a_baseline_is_compared_with_each_other_run_and_comes_second() -> None:
    found = compared(baseline="B")

    assert [(each.a, each.b) for each in found] == [("A", "B"), ("C", "B")]
    assert all(each.diff == pytest.approx(each.mean_a - each.mean_b) for each in found)


def test_the_family_is_the_pairs_that_are_compared() -> None:
    all_pairs, with_baseline = compared(), compared(baseline="B")

    assert all_pairs[0].p_adjusted == pytest.approx(3 * all_pairs[0].p)
    assert with_baseline[0].p_adjusted == pytest.approx(2 * with_baseline[0].p)


def test_one_more_run_changes_no_p_of_the_others() -> None:
    rng = np.random.default_rng(0)
    values = {name: rng.random(40) for name in "xyz"}

    two = compared(values_by_run={name: values[name] for name in "xy"})
    three = compared(values_by_run=values)

    assert (three[0].p, three[0].ci95) == (two[0].p, two[0].ci95)


@pytest.mark.parametrize("test", ["randomization", "t"])
def test_identical_runs_do_not_differ(test: str) -> None:
    (found,) = compared(values_by_run={"A": SCORES["A"], "again": SCORES["A"].copy()}, test=test)

    assert (found.p, found.p_adjusted, found.significant, found.t) == (1.0, 1.0, False, None)
    assert (found.win, found.tie, found.loss) == (0, 10, 0)
    assert found.ci95 == (0.0, 0.0)


def test_the_interval_holds_the_difference() -> None:
    for each in compared():
        assert each.ci95 is not None
        assert each.ci95[0] <= each.diff <= each.ci95[1]


def test_one_query_has_no_interval_and_no_evidence() -> None:
    (found,) = compared(values_by_run={"x": np.array([1.0]), "y": np.array([0.0])})

    assert (found.ci95, found.p, found.n) == (None, 1.0, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"values_by_run": {"A": SCORES["A"]}}, "at least two runs, found 1"),
        ({"values_by_run": {"A": np.empty(0), "B": np.empty(0)}}, "at least one query"),
        ({"baseline": "D"}, "baseline 'D' is none of the runs"),
        ({"test": "wilcoxon"}, "unknown test 'wilcoxon'; expected one of randomization, t"),
        ({"correction": "tukey"}, "unknown correction 'tukey'; expected one of holm, bh, none"),
        ({"alpha": 0.0}, "alpha must lie between 0 and 1"),
        ({"resamples": 0}, "resamples"),
    ],
)
def test_what_cannot_be_compared_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        compared(**arguments)


def test_only_the_pairs_that_were_planned_are_compared_and_corrected_for() -> None:
    runs = {"a": np.array([0.9, 0.8, 0.7]), "b": np.array([0.1, 0.2, 0.3]), "c": np.array([0.5, 0.4, 0.6])}

    every = compare(runs, measure="map")
    planned = compare(runs, measure="map", pairs=[("c", "a"), ("a", "b")])

    assert [(each.a, each.b) for each in planned] == [("c", "a"), ("a", "b")]
    # Holm by hand over two p of 0.25 each: the smallest twice, and the other not below it
    assert [each.p for each in planned] == [0.25, 0.25]
    assert [each.p_adjusted for each in planned] == [0.5, 0.5]
    assert next(each.p for each in every if (each.a, each.b) == ("a", "b")) == 0.25


@pytest.mark.parametrize("pairs", [[], [("a", "z")], [("a", "a")], [("a", "b"), ("a", "b")]])
def test_pairs_that_are_none_are_refused(pairs: list[tuple[str, str]]) -> None:
    runs = {"a": np.array([0.9, 0.8]), "b": np.array([0.1, 0.2])}

    with pytest.raises(InvalidInput, match="pair"):
        compare(runs, measure="map", pairs=pairs)
