"""Figures of agreement: by hand, and against slow obvious ways."""

import json
from dataclasses import asdict, fields
from itertools import product
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.agreement_scores import auroc_difference
from plumbline.extras.calibration.figures import (
    Figure,
    FigureFormulas,
    FigureName,
    Figures,
    Scale,
    ScoredRows,
    by_dataset,
    draw_counts,
    measure_agreement,
)
from plumbline.ground.errors import InvalidInput

SCORES = st.integers(0, 8).map(lambda eighth: eighth / 8)
FEW = settings(max_examples=40)
# At least one row of each label; ties are frequent.
ROWS = st.lists(st.tuples(SCORES, st.integers(0, 1)), max_size=30).flatmap(
    lambda rows: st.tuples(SCORES, SCORES).map(lambda two: [*rows, (two[0], 0), (two[1], 1)])
)


def scored(rows: list[tuple[float, int]], *, dataset: str = "a", clusters: list[str] | None = None) -> ScoredRows:
    return ScoredRows(
        scores=np.array([score for score, _ in rows]),
        labels=np.array([label for _, label in rows], dtype=np.int64),
        datasets=[dataset] * len(rows),
        clusters=clusters or [str(place) for place in range(len(rows))],
    )


def joined(*parts: ScoredRows) -> ScoredRows:
    return ScoredRows(
        scores=np.concatenate([each.scores for each in parts]),
        labels=np.concatenate([each.labels for each in parts]),
        datasets=[name for each in parts for name in each.datasets],
        clusters=[name for each in parts for name in each.clusters],
    )


def noisy(seed: int, rows: int, *, dataset: str = "a", rows_per_cluster: int = 4) -> ScoredRows:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, rows)
    labels[:2] = 0, 1
    return ScoredRows(
        scores=np.asarray(np.round(np.clip(rng.normal(0.4 + 0.2 * labels, 0.25), 0, 1), 2), dtype=np.float64),
        labels=labels,
        datasets=[dataset] * rows,
        clusters=[f"doc {place // rows_per_cluster}" for place in range(rows)],
    )


def one(rows: list[tuple[float, int]]) -> Figures:
    return measure_agreement(scored(rows), draws=1).by_dataset["a"]


def slow_auroc(rows: list[tuple[float, int]]) -> float:
    """Share of pairs of a faithful and another row in which the faithful one scores higher; a tie is half."""
    pairs = [(a, b) for a, is_faithful in rows if is_faithful for b, other in rows if not other]
    return float(np.mean([(a > b) + (a == b) / 2 for a, b in pairs]))


def slow_balanced_accuracy(rows: list[tuple[float, int]], threshold: float) -> float:
    return float(
        np.mean([np.mean([(score >= threshold) == label for score, label in rows if label == each]) for each in (0, 1)])
    )


@FEW
@given(ROWS)
def test_figures_equal_their_definitions(rows: list[tuple[float, int]]) -> None:
    figures = one(rows)

    assert figures.auroc.value == pytest.approx(slow_auroc(rows))
    assert figures.balanced_accuracy.value == pytest.approx(slow_balanced_accuracy(rows, 0.5))
    errors = [np.mean([(score - label) ** 2 for score, label in rows if label == each]) for each in (0, 1)]
    assert figures.brier.value == pytest.approx(np.mean(errors))


@FEW
@given(ROWS)
def test_the_best_threshold_is_the_lowest_of_the_best(rows: list[tuple[float, int]]) -> None:
    at_each = {threshold: slow_balanced_accuracy(rows, threshold) for threshold, _ in rows}
    best = max(at_each.values())

    figures = one(rows)

    assert figures.best_balanced_accuracy.value == pytest.approx(best)
    assert figures.best_threshold == min(t for t, value in at_each.items() if value > best - 1e-9)


@FEW
@given(st.lists(st.tuples(SCORES, st.integers(0, 1), st.integers(0, 3)), min_size=1, max_size=20))
def test_a_row_of_weight_three_counts_as_three_rows(rows: list[tuple[float, int, int]]) -> None:
    rows = [*rows, (0.25, 0, 1), (0.75, 1, 2)]
    scores, labels, counts = np.array([*zip(*rows, strict=True)])
    weights = counts / np.bincount(labels.astype(int), counts)[labels.astype(int)]
    repeated = one([(score, label) for score, label, count in rows for _ in range(count)])

    found = FigureFormulas(scores, labels.astype(int), weights).compute(weights)

    value_by_name = dict(zip(get_args(FigureName), found, strict=True))
    # Rows that weigh nothing have scores, too
    del value_by_name["best_threshold"]
    assert value_by_name == pytest.approx({name: getattr(repeated, name).value for name in value_by_name})


def test_calibration_error_by_hand() -> None:
    # Two rows of score 0.1, one of them faithful: gaps of .9 and .1. The other eighteen are scored as labelled.
    rows = [(0.1, 0), (0.1, 1)] + [(0.0, 0)] * 8 + [(1.0, 1)] * 10

    # Ties stay together: the eight of score 0, the two of 0.1 and the ten of 1 are one bin each.
    # Of eleven faithful rows and nine others, each label weighs one half.
    assert one(rows).ece.value == pytest.approx(0.5 / 11 * 0.9 - 0.5 / 9 * 0.1)


def test_each_data_set_and_each_label_weighs_the_same() -> None:
    # a: faithful .9 (error .01) twice, not .4 (.16): .085. b: faithful .5 (.25), not .0 three times (0): .125.
    a = scored([(0.9, 1), (0.9, 1), (0.4, 0)])
    b = scored([(0.5, 1), (0.0, 0), (0.0, 0), (0.0, 0)], dataset="b")

    agreement = measure_agreement(joined(a, b), draws=1)

    assert agreement.by_dataset["a"].brier.value == pytest.approx(0.085)
    assert agreement.macro.brier.value == pytest.approx((0.085 + 0.125) / 2)
    assert agreement.pooled.brier.value == pytest.approx((0.085 + 0.125) / 2)


def test_the_macro_is_the_mean_over_data_sets_with_both_labels() -> None:
    parts = [noisy(1, 30), noisy(2, 60, dataset="b"), scored([(0.3, 1), (0.9, 1)], dataset="c")]

    agreement = measure_agreement(joined(*parts), groups={"first": ["a", "unknown"], "none": ["c"]}, draws=20)

    values = [agreement.by_dataset[name].auroc.value or 0.0 for name in "ab"]
    assert agreement.macro.auroc.value == pytest.approx(np.mean(values))
    assert agreement.one_label == ("c",)
    assert agreement.macro.rows == 90
    assert list(agreement.by_group) == ["first"]
    assert agreement.by_group["first"].auroc == agreement.by_dataset["a"].auroc


def numbers_of(value: object) -> list[object]:
    if isinstance(value, dict):
        return [number for item in value.values() for number in numbers_of(item)]
    if isinstance(value, list | tuple):
        return [number for item in value for number in numbers_of(item)]
    return [value]


@pytest.mark.parametrize(("scale", "label"), list(product(["probability", "rank"], [0, 1])))
def test_one_label_gives_none_and_never_nan(scale: Scale, label: int) -> None:
    rows = scored([(0.2, label), (0.7, label), (0.7, label)])

    agreement = measure_agreement(rows, scale=scale, draws=10)

    figures = agreement.by_dataset["a"]
    assert agreement.macro.auroc == agreement.pooled.auroc == Figure(None, None, None)
    json.dumps(asdict(agreement), allow_nan=False)
    assert {getattr(figures, each.name) for each in fields(Figures)[2:]} == {Figure(None, None, None), None}


@FEW
@given(ROWS)
def test_no_figure_is_nan_and_every_share_is_in_its_range(rows: list[tuple[float, int]]) -> None:
    few = [str(place % 3) for place in range(len(rows))]

    agreement = measure_agreement(scored(rows, clusters=few), draws=30)

    numbers = [number for number in numbers_of(asdict(agreement)) if isinstance(number, float)]
    assert all(-1.0 <= number <= 1.0 + 1e-9 for number in numbers)


def test_the_interval_of_a_data_set_does_not_depend_on_the_others() -> None:
    alone = measure_agreement(noisy(3, 80), draws=60).by_dataset["a"]

    beside = measure_agreement(joined(noisy(4, 50, dataset="b"), noisy(3, 80)), draws=60).by_dataset["a"]

    assert beside == alone


def test_the_interval_is_that_of_a_slow_bootstrap_over_clusters() -> None:
    rows = noisy(5, 60)
    (dataset,) = by_dataset(rows)
    _, *drawn = draw_counts(dataset, draws=200, seed=9)
    places = [np.repeat(np.arange(60), draw) for draw in drawn]
    resampled = [slow_auroc([*zip(rows.scores[each], rows.labels[each], strict=True)]) for each in places]
    low, high = np.quantile(resampled, [0.025, 0.975])

    found = measure_agreement(rows, draws=200, seed=9).by_dataset["a"].auroc

    assert (found.low, found.high) == pytest.approx((low, high))


def test_rows_of_a_cluster_are_drawn_together_and_as_often_as_there_are_clusters() -> None:
    rows = noisy(6, 40, rows_per_cluster=4)
    (dataset,) = by_dataset(rows)

    first, *others = draw_counts(dataset, draws=300, seed=0)

    drawn = np.array(others)
    assert (first == 1).all()
    assert drawn.shape == (300, 40)
    for cluster in range(10):
        of_cluster = drawn[:, dataset.cluster_of == cluster]
        assert (of_cluster == of_cluster[:, :1]).all()
    assert (drawn.sum(axis=1) == 40).all()
    assert drawn.mean() == pytest.approx(1.0)
    assert drawn[:, 0].var() == pytest.approx(0.9, abs=0.2)


def test_the_interval_holds_the_value_where_every_cluster_is_alike() -> None:
    # Each document has the same four rows, so that every draw has the figures of one document.
    rows = [(0.2, 0), (0.6, 1), (0.8, 0), (0.9, 1)] * 6
    clusters = [str(place // 4) for place in range(24)]

    figures = measure_agreement(scored(rows, clusters=clusters), draws=50).by_dataset["a"]

    for name in ("auroc", "balanced_accuracy", "best_balanced_accuracy", "brier", "ece"):
        figure = getattr(figures, name)
        assert (figure.low, figure.high) == pytest.approx((figure.value, figure.value)), name


def test_one_cluster_has_no_interval() -> None:
    figures = measure_agreement(scored([(0.2, 0), (0.6, 1)], clusters=["d", "d"]), draws=10).by_dataset["a"]

    assert figures.auroc == Figure(1.0, None, None)


def test_a_rank_score_has_its_order_alone() -> None:
    rows = scored([(-40.0, 1), (-10.0, 0), (-90.0, 0), (-15.0, 1)])

    agreement = measure_agreement(rows, scale="rank", draws=10)

    assert agreement.macro.auroc.value == 0.5
    assert agreement.by_dataset["a"].best_threshold == -40.0
    assert agreement.macro.brier == agreement.macro.ece == Figure(None, None, None)


def test_the_difference_of_two_scores_of_the_same_rows_is_paired() -> None:
    first = joined(noisy(1, 120), noisy(2, 120, dataset="b"))
    second = ScoredRows(1.0 - first.scores, first.labels, first.datasets, first.clusters)
    value = measure_agreement(first, draws=1).macro.auroc.value

    same = auroc_difference(first, first, draws=40)
    opposite = auroc_difference(first, second, draws=40)

    assert same == Figure(0.0, 0.0, 0.0)
    assert opposite.value == pytest.approx(2 * (value or 0.0) - 1)
    assert auroc_difference(scored([(0.5, 1)]), scored([(0.1, 1)]), draws=5) == Figure(None, None, None)


def test_the_difference_of_two_scores_of_other_rows_is_refused() -> None:
    with pytest.raises(InvalidInput, match="expected two scores of the same rows in one order, found rows that differ"):
        auroc_difference(noisy(1, 20), noisy(2, 20))
