"""Parameters fitted on labelled answers: the gradient, the path of the service, and what is recovered."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from plumbline.extras.calibration.calibrating import isotonic_curve
from plumbline.extras.calibration.fitting import (
    FloatArray,
    MeasuredAnswers,
    _Design,
    balanced_weights,
    cross_predict,
    fit_bounds,
    fit_gate,
    fit_scale,
    fit_weights,
    predict,
    split_folds,
)
from plumbline.ground.concurrency import InlineExecutor
from plumbline.judging.text.sample import Sample
from plumbline.judging.text.scores import score
from plumbline.judging.tiers.calibration import (
    VERBATIM_SUPPORT,
    Calibration,
    CalibrationGate,
    CalibrationTable,
    Shape,
)
from plumbline.judging.tiers.judgement import distinct_findings
from plumbline.judging.tiers.lexical import MODEL, LexicalTier, collect_lexical_findings
from plumbline.judging.tiers.lexical_features import WORD_MEASURES
from plumbline.judging.tiers.tier import TierName
from tests.doubles.fakes import case_of

NAMES = ("character_coverage", "near_pairs")
GATE = CalibrationGate(measure="character_coverage", closed=0.1, open=0.4)
DOUBTED = 0.6
# Copied but for one word, among 200 words of other subjects.
_LONG = "The keeper of the old stone tower lit the great lamp on the first cold night of that winter."
SAMPLES = (
    Sample("", (_LONG, "Anna sells red rope by the gate. " * 30), f"{_LONG.replace('great', 'big')} It was dark."),
    Sample("", ("The keeper lit the lamp in 1932. It was dark.",), "The keeper lit a lamp. Orwin lit 14 lamps."),
    Sample("", ("The dam of Keld is old.", "It feeds two mills."), "The dam is old. It feeds two mills. It is red."),
    Sample("", ("Anna sells rope.",), "Photosynthesis needs light."),
)


def _calibration(weights: dict[str, float], intercept: float, *, gate: CalibrationGate | None = None) -> Calibration:
    return Calibration(
        tier=TierName.LEXICAL, model=MODEL, language="en", weights=weights, intercept=intercept, gate=gate
    )


def _answers(
    coverage: Sequence[float],
    labels: Sequence[int],
    *,
    datasets: Sequence[str] = (),
    clusters: Sequence[str] = (),
) -> MeasuredAnswers:
    """Answers of one sentence each, with that coverage."""
    count = len(labels)
    return MeasuredAnswers(
        names=("character_coverage",),
        measures=np.array(coverage, dtype=np.float64)[:, None],
        owners=np.arange(count),
        lengths=np.full(count, 20.0),
        is_copy=np.zeros(count, dtype=bool),
        copied=np.zeros(count),
        related=np.ones(count),
        is_open=np.zeros(count, dtype=bool),
        labels=np.array(labels, dtype=np.float64),
        shapes=np.full(count, "prose"),
        datasets=np.array(datasets or ["a"] * count),
        clusters=np.array(clusters or [str(number) for number in range(count)]),
    )


def _drawn(answers: int = 60, *, seed: int = 0) -> MeasuredAnswers:
    """Answers of one to four sentences in three datasets; a label follows the mean of the first measure."""
    generator = np.random.default_rng(seed)
    owners = np.repeat(np.arange(answers), generator.integers(1, 5, answers))
    measures = generator.uniform(0.0, 1.0, (len(owners), 2))
    lengths = generator.integers(10, 90, len(owners)).astype(np.float64)
    means = np.bincount(owners, measures[:, 0] * lengths) / np.bincount(owners, lengths)
    return MeasuredAnswers(
        names=NAMES,
        measures=measures,
        owners=owners,
        lengths=lengths,
        is_copy=generator.uniform(size=len(owners)) < 0.1,
        copied=np.zeros(len(owners)),
        related=np.ones(len(owners)),
        is_open=np.zeros(len(owners), dtype=bool),
        shapes=np.full(answers, "prose"),
        labels=(means + generator.normal(0.0, 0.1, answers) > 0.5).astype(np.float64),
        datasets=np.array([f"set-{number % 3}" for number in range(answers)]),
        clusters=np.array([str(number // 2) for number in range(answers)]),
    )


def _even(answers: MeasuredAnswers) -> FloatArray:
    return np.full(len(answers), 1.0 / len(answers))


@pytest.mark.parametrize("gate", [None, GATE], ids=["open", "gated"])
@pytest.mark.parametrize("intercept", [-1.0, 0.0, 3.0])
def test_the_gradient_of_the_log_loss_is_that_of_finite_differences(
    gate: CalibrationGate | None, intercept: float
) -> None:
    answers = _drawn(12, seed=1)
    path, row_weights = _Design(answers, gate), balanced_weights(answers)
    logits = path.matrix[:, :2] @ np.array([2.0, -1.0]) + intercept

    _, gradient = path.log_loss(logits, row_weights)

    numeric = approx_fprime(logits, lambda at: path.log_loss(at, row_weights)[0], 1e-7)
    assert gradient == pytest.approx(numeric, abs=1e-6)


def test_the_log_loss_is_that_of_the_scores_by_hand() -> None:
    answers = _answers([0.0, 0.0], [1, 0])

    value, gradient = _Design(answers, None).log_loss(np.array([0.0, 0.0]), np.array([0.75, 0.25]))

    # Both scores are 0.5: -(.75 ln .5 + .25 ln .5) = ln 2, and each gradient is its weight times (0.5 - label).
    assert value == pytest.approx(np.log(2))
    assert gradient == pytest.approx([-0.375, 0.125])


@pytest.mark.parametrize("gate", [None, GATE], ids=["open", "gated"])
@pytest.mark.parametrize("sample", SAMPLES, ids=["copied", "partly", "copies", "foreign"])
def test_what_is_predicted_is_what_the_service_answers(sample: Sample, gate: CalibrationGate | None) -> None:
    weights = {"character_coverage": 2.5, "near_pairs": 0.3}
    calibration = _calibration(weights, -1.2, gate=gate).model_copy(update={"doubted": DOUBTED, "above": 0.4})
    case = case_of(sample.answer, *sample.contexts)
    findings = collect_lexical_findings(case)
    measured = distinct_findings(case, findings)
    answers = MeasuredAnswers(
        names=WORD_MEASURES,
        measures=np.array([[found.measures[name] for name in WORD_MEASURES] for _, found in measured]),
        owners=np.zeros(len(measured), dtype=np.int64),
        lengths=np.array([length for length, _ in measured]),
        is_copy=np.array([found.is_copy for _, found in measured]),
        copied=np.array([found.copied for _, found in measured]),
        related=np.ones(len(measured)),
        is_open=np.zeros(len(measured), dtype=bool),
        labels=np.array([1.0]),
        shapes=np.array(["prose"]),
        datasets=np.array(["a"]),
        clusters=np.array(["a"]),
    )

    scores = score(LexicalTier(CalibrationTable([calibration]), InlineExecutor()).judge_now(case))

    assert scores is not None
    assert predict(answers, calibration) == pytest.approx([scores.faithfulness], abs=1e-9)


def test_an_answer_of_copies_alone_has_the_score_of_a_copy() -> None:
    answers = replace(
        _answers([0.5, 0.5], [1, 1]), owners=np.array([0, 1]), is_copy=np.array([True, False]), copied=np.zeros(2)
    )

    assert predict(answers, _calibration({"character_coverage": 1.0}, -0.5)) == pytest.approx([VERBATIM_SUPPORT, 0.5])


def test_the_weights_have_the_sign_of_what_was_planted() -> None:
    answers = _drawn(200)

    weights, intercept, *_ = fit_weights(answers, None, row_weights=balanced_weights(answers))

    # The second measure is noise.
    assert weights["character_coverage"] > 3 * abs(weights["near_pairs"])
    assert intercept < 0.0


@pytest.mark.parametrize(("datasets", "expected"), [(10, (0.2, 0.6)), (9, (1.0, 1.0))], ids=["enough sets", "too few"])
def test_what_speaks_for_an_answer_counts_less_where_enough_sets_show_it(
    datasets: int, expected: tuple[float, float]
) -> None:
    # Answers of low coverage are all unfaithful, of those of high coverage a third.
    generator = np.random.default_rng(0)
    coverage = generator.uniform(0.0, 1.0, 600)
    labels = (coverage > 0.5) & (generator.uniform(size=600) > 1 / 3)
    names = [f"set-{number % datasets}" for number in range(600)]
    answers = _answers(list(coverage), [int(label) for label in labels], datasets=names)

    fitted = fit_weights(answers, None, row_weights=_even(answers))

    assert expected[0] <= fitted.above <= expected[1]
    assert fit_scale(
        answers,
        _calibration(fitted.weights, fitted.intercept).model_copy(update={"above": 0.4}),
        row_weights=_even(answers),
    ).above == pytest.approx(0.4)


def test_a_measure_that_tells_datasets_apart_gets_no_weight_for_it() -> None:
    # Answers of dataset a are faithful from a coverage of 0.75, those of b from 0.25; the second measure is low in a
    # and high in b.
    generator = np.random.default_rng(0)
    is_b = np.arange(200) % 2
    coverage = generator.uniform(0.0, 1.0, 200)
    answers = replace(
        _answers(list(coverage), [int(value) for value in coverage >= 0.75 - 0.5 * is_b]),
        names=NAMES,
        measures=np.stack([coverage, is_b + generator.normal(0.0, 0.2, 200)], axis=1),
        datasets=np.array(["a", "b"])[is_b],
    )
    merged = replace(answers, datasets=np.array(["a"] * 200))

    apart, *_ = fit_weights(answers, None, row_weights=_even(answers))
    together, *_ = fit_weights(merged, None, row_weights=_even(answers))

    assert (
        apart["near_pairs"] / apart["character_coverage"]
        < 0.5 * together["near_pairs"] / together["character_coverage"]
    )


def test_a_scale_keeps_the_order_of_weights_and_moves_the_boundary() -> None:
    # Answers are faithful from a coverage of 0.7; the calibration in force puts the boundary at 0.3.
    coverage = np.linspace(0.0, 1.0, 41)
    labels = [int(value >= 0.7) for value in coverage]
    labels[20], labels[35] = 1, 0
    answers = _answers(list(coverage), labels)
    in_force = _calibration({"character_coverage": 4.0}, -1.2)

    weights, intercept, *_ = fit_scale(answers, in_force, row_weights=balanced_weights(answers))

    assert weights["character_coverage"] > 4.0
    assert 0.6 < -intercept / weights["character_coverage"] < 0.8


def test_the_gate_opens_between_percentiles_of_unrelated_sentences() -> None:
    gate = fit_gate(_answers(list(np.linspace(0.0, 1.0, 101)), [0] * 101), "character_coverage")

    # Of 101 sentences of one length, each stands at the middle of its share: (0.05 * 101 - 0.5) / 100 and
    # (0.99 * 101 - 0.5) / 100.
    assert (gate.measure, gate.closed, gate.open) == ("character_coverage", 0.0455, 0.9949)


def test_each_dataset_counts_the_same_and_so_does_each_label_in_it() -> None:
    answers = _answers([0.0] * 6, [1, 1, 1, 0, 1, 0], datasets=["a", "a", "a", "a", "b", "b"])

    assert balanced_weights(answers) == pytest.approx([1 / 12, 1 / 12, 1 / 12, 1 / 4, 1 / 4, 1 / 4])


@pytest.mark.parametrize(("clusters", "folds"), [(40, 5), (3, 3)])
def test_of_one_dataset_the_folds_split_no_cluster_and_leave_each_answer_out_once(clusters: int, folds: int) -> None:
    names = [f"doc-{number % clusters}" for number in range(80)]
    answers = _answers([0.0] * 80, [1, 0] * 40, clusters=names)

    found = split_folds(answers, parts=5)

    assert len(found) == folds
    assert np.sum(found, axis=0).tolist() == [1] * 80
    for name in set(names):
        held_out = [fold[answers.clusters == name] for fold in found]
        assert [rows.all() for rows in held_out if rows.any()] == [True]


def test_each_answer_is_scored_by_a_fit_that_did_not_see_it() -> None:
    answers = _answers([0.1, 0.2, 0.3, 0.4, 0.4, 0.5], [1, 0] * 3, datasets=["a", "a", "b", "b", "c", "c"])
    seen: list[tuple[set[str], int]] = []

    def fit(part: MeasuredAnswers) -> Calibration:
        seen.append((set(part.datasets.tolist()), len(part)))
        return _calibration({"character_coverage": float(len(seen))}, 0.0)

    scores = cross_predict(answers, split_folds(answers, parts=5), fit)

    assert seen == [({"b", "c"}, 4), ({"a", "c"}, 4), ({"a", "b"}, 4)]
    # 1 / (1 + e^-(fold * coverage))
    assert scores == pytest.approx(1 / (1 + np.exp(-np.array([0.1, 0.2, 0.6, 0.8, 1.2, 1.5]))))


def test_a_doubt_counts_against_the_answer_and_gets_no_weight() -> None:
    drawn = _drawn(200)
    measures = np.stack([drawn.measures[:, 0], drawn.measures[:, 1] > 0.9], axis=1)
    answers = replace(drawn, names=("character_coverage", "unknown_numbers"), measures=measures)

    weights, _, doubted, _ = fit_weights(answers, None, row_weights=balanced_weights(answers))

    assert list(weights) == ["character_coverage"]
    assert doubted >= 0.0


def test_a_dataset_whose_faithful_answers_are_all_copies_draws_nothing_down() -> None:
    told = _drawn(200)
    # Half of them copies, and what is none is unfaithful whatever its coverage.
    half = _answers([0.9] * 40, [1, 0] * 20, datasets=["copied"] * 40)
    copied = replace(half, is_copy=half.labels == 1, names=NAMES, measures=np.repeat(half.measures, 2, axis=1))
    both = MeasuredAnswers(
        names=NAMES,
        measures=np.concatenate([told.measures, copied.measures]),
        owners=np.concatenate([told.owners, copied.owners + len(told)]),
        lengths=np.concatenate([told.lengths, copied.lengths]),
        is_copy=np.concatenate([told.is_copy, copied.is_copy]),
        copied=np.concatenate([told.copied, copied.copied]),
        related=np.concatenate([told.related, copied.related]),
        is_open=np.concatenate([told.is_open, copied.is_open]),
        shapes=np.concatenate([told.shapes, copied.shapes]),
        labels=np.concatenate([told.labels, copied.labels]),
        datasets=np.concatenate([told.datasets, copied.datasets]),
        clusters=np.concatenate([told.clusters, copied.clusters]),
    )

    alone = fit_weights(told, None, row_weights=balanced_weights(told))
    together = fit_weights(both, None, row_weights=balanced_weights(both))

    assert together[0] == pytest.approx(alone[0], rel=1e-3)
    assert together[1] == pytest.approx(alone[1], rel=1e-3)


def test_an_isotonic_curve_pools_ties_and_neighbours_that_fall() -> None:
    # At .5 the mean is (0 * 2 + 1 * 1) / 3 = 1/3, below the 1 at .1: together (1 + 1/3 * 3) / 4 = .5. 1 is cut to .98.
    scores, labels, weights = ([0.5, 0.1, 0.9, 0.5], [0, 1, 1, 1], [2, 1, 1, 1])

    curve = isotonic_curve(*(np.array(each, dtype=np.float64) for each in (scores, labels, weights)))

    # .7 lies halfway between .5 and .98.
    assert curve(np.array([0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0])) == pytest.approx([0.5, 0.5, 0.5, 0.5, 0.74, 0.98, 0.98])


def _of_shape(shape: str, *, is_right: FloatArray) -> MeasuredAnswers:
    answers = _answers([0.5] * len(is_right), [int(each) for each in is_right])
    return replace(answers, shapes=np.full(len(answers), shape))


def test_a_bound_is_the_lowest_at_which_four_of_five_decisions_are_right() -> None:
    # Of the answers above .7 all are faithful, of the others every second one; those below .2 are all unfaithful.
    share = np.tile(np.linspace(0.0, 1.0, 51), 8)
    is_right = np.where(share > 0.7, 1, (np.arange(408) % 2) * (share > 0.2))
    answers = replace(_of_shape("prose", is_right=is_right), related=share, copied=share)

    bounds = fit_bounds(answers, np.full(408, 0.5))[Shape.PROSE]

    assert bounds.copied_from == 0.55
    assert 0.8 <= (bounds.copied_right or 0.0) < 1.0
    assert bounds.unrelated_below == 0.3
    assert (bounds.fails_right or 0.0) >= 0.8
    assert bounds.covered_from is None
    assert fit_bounds(answers, np.full(408, 0.5), copied_from=0.9)[Shape.PROSE].copied_from == 0.9


def test_a_score_lets_long_answers_alone_pass_where_nine_of_ten_are_faithful() -> None:
    scores = np.tile(np.linspace(0.5, 0.9, 41), 8)
    is_right = np.where(scores > 0.695, 1, 0)

    found = {
        shape: fit_bounds(_of_shape(shape, is_right=is_right), scores)[Shape(shape)] for shape in ("answer", "prose")
    }

    assert found["answer"].covered_from == pytest.approx(0.68)
    assert found["prose"].covered_from is None


def test_a_shape_with_few_answers_of_a_label_has_no_bounds() -> None:
    is_right = np.array([1.0] * 100 + [0.0] * 29)

    assert fit_bounds(_of_shape("short", is_right=is_right), np.full(129, 0.9)) == {}
