"""Parameters of a tier's sigmoid, fitted on labelled answers through the same gate as the service."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from plumbline.ground.errors import CalibrationError
from plumbline.judging.tiers.calibration import (
    DOUBTED,
    DOUBTS,
    VERBATIM_SUPPORT,
    Calibration,
    CalibrationAggregation,
    CalibrationGate,
)
from plumbline.judging.tiers.lexical_features import COUNTED_AGAINST

FloatArray = NDArray[np.float64]

# Ridge penalties, chosen on the development data by leaving each dataset out. The weights' is on standardised measures.
_RIDGE = 1e-2
# Datasets differ in how strict "faithful" is. An intercept for each, penalised a little, absorbs that while the weights
# are fitted: without it they would explain datasets rather than answers.
_RIDGE_OF_DATASETS = 5e-3
# Draws a slope towards its old value, so that a few separable labels do not turn the curve into a step.
_RIDGE_OF_SCALE = 1e-3
_DATASETS_AS_FOLDS = 3
_NOTHING_TO_CALIBRATE = (
    "the tier's scores do not rise with these labels (1 is faithful, 0 is not): there is nothing to calibrate"
)
# Quantiles, weighted by length, of sentences paired with unrelated contexts; the factor was chosen on the same data.
_CLOSED_AT, _OPEN_AT, _OPEN_ABOVE = 0.05, 0.99, 1.25
MEAN = CalibrationAggregation()
_SMALLEST, _LARGEST = 1e-5, 1.0 - 1e-5


@dataclass(frozen=True, slots=True)
class MeasuredAnswers:
    """Sentences of labelled answers, measured by a tier.

    Of s sentences: `measures` (s, m), columns named by `names`; `owners` (s,) the number of its answer, ascending from
    0 without gaps; `lengths` (s,) their weights in the score; `is_copy` (s,) true if a context has it verbatim;
    `copied` (s,) the share of its runs of words that stand in a context.
    Of n answers: `labels` (n,) 1 faithful, 0 not; `datasets` (n,); `clusters` (n,) equal for one document.
    """

    names: tuple[str, ...]
    measures: FloatArray
    owners: NDArray[np.int64]
    lengths: FloatArray
    is_copy: NDArray[np.bool_]
    copied: FloatArray
    labels: FloatArray
    datasets: NDArray[np.str_]
    clusters: NDArray[np.str_]

    def __len__(self) -> int:
        return len(self.labels)

    def pick(self, rows: NDArray[np.bool_]) -> "MeasuredAnswers":
        """Return the answers where `rows`, shape (n,), is true."""
        sentences = rows[self.owners]
        return MeasuredAnswers(
            self.names,
            self.measures[sentences],
            (np.cumsum(rows) - 1)[self.owners[sentences]],
            self.lengths[sentences],
            self.is_copy[sentences],
            self.copied[sentences],
            self.labels[rows],
            self.datasets[rows],
            self.clusters[rows],
        )

    def mostly_copied(self, aggregation: CalibrationAggregation) -> NDArray[np.bool_]:
        """Return which answers are of mostly copied text, shape (n,)."""
        totals = np.bincount(self.owners, self.lengths, len(self))
        shares = np.bincount(self.owners, self.lengths * self.copied, len(self)) / totals
        return np.array([aggregation.is_copied(share) for share in shares.tolist()], dtype=bool)

    def column(self, name: str) -> FloatArray:
        return np.asarray(self.measures[:, self.names.index(name)])


def predict(answers: MeasuredAnswers, calibration: Calibration) -> FloatArray:
    """Return the faithfulness that the service would answer, shape (n,)."""
    weights = np.array([calibration.weights.get(name, 0.0) for name in answers.names])
    path = _Path(answers, calibration.gate, calibration.aggregation)
    return path.scores(path.supports(answers.measures @ weights + calibration.intercept))


def fit_gate(unrelated: MeasuredAnswers, measure: str) -> CalibrationGate:
    """Fit the gate of a measure on answers paired with unrelated contexts.

    Raises CalibrationError: there are no such answers, or all are equally like their contexts.
    """
    closed = round(_weighted_quantile(unrelated, measure, _CLOSED_AT), 4)
    opened = round(_OPEN_ABOVE * _weighted_quantile(unrelated, measure, _OPEN_AT), 4)
    if opened <= closed:
        raise CalibrationError(
            "the weights cannot be fitted: that takes answers about several documents that differ; "
            "the scale alone can be (--fit scale)"
        )
    return CalibrationGate(measure=measure, closed=closed, open=opened)


def fit_weights(
    answers: MeasuredAnswers,
    gate: CalibrationGate | None,
    *,
    row_weights: FloatArray,
    aggregation: CalibrationAggregation = MEAN,
) -> tuple[dict[str, float], float]:
    """Fit weights and intercept by maximum likelihood.

    Minimised is the log loss of the answers' scores, with an intercept for each dataset; then, with one for all, slope
    and intercept once more.

    `row_weights`: shape (n,), how much each answer counts.

    Raises CalibrationError: the scores do not rise with the labels.
    """
    telling = _is_telling(answers)
    answers, row_weights = answers.pick(telling), row_weights[telling] / row_weights[telling].sum()
    mean, deviation = answers.measures.mean(axis=0), answers.measures.std(axis=0) + 1e-9
    standard = (answers.measures - mean) / deviation
    _, numbers = np.unique(answers.datasets, return_inverse=True)
    path, count, sets = _Path(answers, gate, aggregation), len(answers.names), int(numbers.max()) + 1
    of_sentence = numbers[answers.owners]

    def loss(parameters: FloatArray) -> tuple[float, FloatArray]:
        slopes, intercept, offsets = parameters[:count], parameters[count], parameters[count + 1 :]
        value, gradient = path.log_loss(standard @ slopes + intercept + offsets[of_sentence], row_weights)
        slope_gradient = standard.T @ gradient + 2 * _RIDGE * slopes
        offset_gradient = np.bincount(of_sentence, gradient, sets) + 2 * _RIDGE_OF_DATASETS * offsets
        penalty = _RIDGE * (slopes**2).sum() + _RIDGE_OF_DATASETS * (offsets**2).sum()
        return value + penalty, np.concatenate([slope_gradient, [gradient.sum()], offset_gradient])

    # No measure may count against its meaning, whatever a few labels suggest.
    bounds = [_bounds(name) for name in answers.names]
    free = [(None, None)] * (1 + sets)
    start = np.zeros(count + 1 + sets)
    slopes = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[*bounds, *free]).x[:count]
    if not slopes.any():
        raise CalibrationError(_NOTHING_TO_CALIBRATE)
    slope, intercept = _fit_scale(path, standard @ slopes, row_weights, ridge=0.0)
    if slope <= 0:
        raise CalibrationError(_NOTHING_TO_CALIBRATE)
    weights = slope * slopes / deviation
    pairs = zip(answers.names, weights, strict=True)
    by_name = {name: float(weight) for name, weight in pairs if name not in DOUBTS}
    return by_name, float(intercept - weights @ mean)


def _is_telling(answers: MeasuredAnswers) -> NDArray[np.bool_]:
    """Return the answers, shape (n,), of the datasets where both labels have answers that are not made of copies alone.

    Copies have a score of their own. Where they are all that is faithful, the others would draw the intercept down.
    """
    is_free = np.bincount(answers.owners, ~answers.is_copy, len(answers)) > 0
    both = [
        name
        for name in np.unique(answers.datasets)
        if len(np.unique(answers.labels[is_free & (answers.datasets == name)])) > 1
    ]
    telling = np.isin(answers.datasets, both)
    return telling if telling.any() else np.ones(len(answers), dtype=bool)


def _bounds(name: str) -> tuple[float | None, float | None]:
    # A doubt counts by its factor alone: few labelled answers have one.
    return (0.0, 0.0) if name in DOUBTS else (None, 0.0) if name in COUNTED_AGAINST else (0.0, None)


def fit_scale(
    answers: MeasuredAnswers, calibration: Calibration, *, row_weights: FloatArray
) -> tuple[dict[str, float], float]:
    """Scale and shift the calibration's weights and intercept to the labels (Platt 1999).

    Raises CalibrationError: the scores do not rise with the labels.
    """
    weights = np.array([calibration.weights.get(name, 0.0) for name in answers.names])
    logits = answers.measures @ weights + calibration.intercept
    slope, intercept = _fit_scale(
        _Path(answers, calibration.gate, calibration.aggregation), logits, row_weights, ridge=_RIDGE_OF_SCALE
    )
    if slope <= 0:
        raise CalibrationError(_NOTHING_TO_CALIBRATE)
    scaled = {name: slope * weight for name, weight in calibration.weights.items()}
    return scaled, slope * calibration.intercept + intercept


def balanced_weights(answers: MeasuredAnswers) -> FloatArray:
    """Return weights, shape (n,), sum 1: equal for each dataset, and for each label within it."""
    groups = [f"{dataset}\0{label}" for dataset, label in zip(answers.datasets, answers.labels, strict=True)]
    _, numbers, counts = np.unique(groups, return_inverse=True, return_counts=True)
    weights = 1.0 / counts[numbers]
    return np.asarray(weights / weights.sum())


def split_folds(answers: MeasuredAnswers, *, parts: int) -> list[NDArray[np.bool_]]:
    """Return the left-out answers of each fold: one dataset a fold if there are several, else `parts` parts by cluster.

    Answers about one document are split one by one.
    """
    names = np.unique(answers.datasets)
    if len(names) >= _DATASETS_AS_FOLDS:
        return [answers.datasets == name for name in names]
    _, numbers = np.unique(answers.clusters, return_inverse=True)
    if not numbers.any():
        numbers = np.arange(len(answers))
    part = np.random.default_rng(0).permutation(np.arange(numbers.max() + 1) % parts)[numbers]
    return [part == number for number in range(parts) if (part == number).any()]


FoldFits = Sequence[tuple[NDArray[np.bool_], Calibration]]


def cross_fit(
    answers: MeasuredAnswers, folds: Sequence[NDArray[np.bool_]], fit: Callable[[MeasuredAnswers], Calibration]
) -> FoldFits:
    """Return each fold's left-out answers with the calibration fitted without them."""
    return [(left_out, fit(answers.pick(~left_out))) for left_out in folds]


def cross_predict(answers: MeasuredAnswers, fold_fits: FoldFits, *, shift: float = 0.0) -> FloatArray:
    """Return each answer's score by the calibration fitted without it, its intercept moved by `shift`; shape (n,)."""
    scores = np.full(len(answers), np.nan)
    for left_out, calibration in fold_fits:
        moved = calibration.model_copy(update={"intercept": calibration.intercept + shift})
        scores[left_out] = predict(answers.pick(left_out), moved)
    return np.asarray(np.clip(scores, 0.0, 1.0))


def _weighted_quantile(answers: MeasuredAnswers, measure: str, share: float) -> float:
    """Return the quantile of a measure, weighted by sentence length; 0 without sentences."""
    if not len(answers):
        return 0.0
    values = answers.column(measure)
    order = np.argsort(values)
    lengths = answers.lengths[order]
    return float(np.interp(share, (np.cumsum(lengths) - lengths / 2) / lengths.sum(), values[order]))


class _Path:
    def __init__(
        self, answers: MeasuredAnswers, gate: CalibrationGate | None, aggregation: CalibrationAggregation = MEAN
    ) -> None:
        self._labels = answers.labels
        self._owners = answers.owners
        self._is_copy = answers.is_copy
        count = len(answers)
        self._shares = answers.lengths / np.bincount(answers.owners, answers.lengths, count)[answers.owners]
        self._gate = np.ones(len(answers.owners))
        if gate:
            self._gate = np.clip((answers.column(gate.measure) - gate.closed) / (gate.open - gate.closed), 0.0, 1.0)
        doubted = answers.measures[:, np.isin(answers.names, DOUBTS)].any(axis=1)
        self._gate[doubted] *= DOUBTED
        self._gate[answers.mostly_copied(aggregation)[answers.owners]] *= aggregation.copied
        is_doubted = np.bincount(answers.owners, doubted & ~answers.is_copy, count) > 0
        sentences = np.bincount(answers.owners, ~answers.is_copy, count)
        pairs = zip(is_doubted.tolist(), sentences.tolist(), strict=True)
        self._factors = np.array([aggregation.factor(is_doubted=each, sentences=number) for each, number in pairs])

    def supports(self, logits: FloatArray) -> FloatArray:
        free = np.minimum(VERBATIM_SUPPORT, self._gate * expit(logits))
        return np.where(self._is_copy, VERBATIM_SUPPORT, free)

    def scores(self, supports: FloatArray) -> FloatArray:
        return self._factors * np.bincount(self._owners, supports * self._shares, len(self._labels))

    def log_loss(self, logits: FloatArray, row_weights: FloatArray) -> tuple[float, FloatArray]:
        """Return the weighted log loss and its gradient by each sentence's logit."""
        free = expit(logits)
        moves = ~self._is_copy & (self._gate * free < VERBATIM_SUPPORT)
        p = np.clip(self.scores(self.supports(logits)), _SMALLEST, _LARGEST)
        value = -(row_weights * (self._labels * np.log(p) + (1 - self._labels) * np.log(1 - p))).sum()
        by_score = -row_weights * self._factors * (self._labels / p - (1 - self._labels) / (1 - p))
        return float(value), by_score[self._owners] * self._shares * self._gate * free * (1 - free) * moves


def _fit_scale(path: _Path, logits: FloatArray, row_weights: FloatArray, *, ridge: float) -> tuple[float, float]:
    def loss(parameters: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = path.log_loss(parameters[0] * logits + parameters[1], row_weights)
        value += ridge * ((parameters[0] - 1) ** 2 + parameters[1] ** 2)
        by_slope = gradient @ logits + 2 * ridge * (parameters[0] - 1)
        return value, np.array([by_slope, gradient.sum() + 2 * ridge * parameters[1]])

    slope, intercept = minimize(loss, np.array([1.0, 0.0]), jac=True, method="L-BFGS-B").x
    return float(slope), float(intercept)
