"""Parameters of a tier's sigmoid, fitted on labelled answers through the same gate as the service."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from plumbline.ground.errors import CalibrationError
from plumbline.judging.tiers.calibration import (
    OPEN_SUPPORT,
    VERBATIM_SUPPORT,
    Calibration,
    CalibrationGate,
    Shape,
    ShapeBounds,
)
from plumbline.judging.tiers.lexical_features import DOUBTS

FloatArray = NDArray[np.float64]

# Ridge penalties, chosen on the development data by leaving each dataset out. The weights' is on standardised measures.
_RIDGE = 5e-2
# Datasets differ in how strict "faithful" is. An intercept for each, penalised a little, absorbs that while the weights
# are fitted: without it they would explain datasets rather than answers.
_RIDGE_OF_DATASETS = 5e-3
# Draws a slope towards its old value, so that a few separable labels do not turn the curve into a step.
_RIDGE_OF_SCALE = 1e-3
# The least factor on a logit above 0: scores above one half keep their order in print, too.
_LEAST_ABOVE = 0.2
# Fewer data sets say nothing of it: of the four Chinese ones each gives another.
_ENOUGH_DATASETS = 10
_DIGITS = 4
_DATASETS_AS_FOLDS = 3
_NOTHING_TO_CALIBRATE = (
    "the tier's scores do not rise with these labels (1 is faithful, 0 is not): there is nothing to calibrate"
)
# Quantiles, weighted by length, of sentences paired with unrelated contexts.
_CLOSED_AT, _OPEN_AT = 0.05, 0.99
_SMALLEST, _LARGEST = 1e-5, 1.0 - 1e-5
_OF_SENTENCES = ("measures", "lengths", "is_copy", "copied", "related", "is_open")


@dataclass(frozen=True, slots=True)
class MeasuredAnswers:
    """Sentences of labelled answers, measured by a tier.

    Of s sentences: `measures` (s, m), columns named by `names`; `owners` (s,) the number of its answer, ascending from
    0 without gaps; `lengths` (s,) their weights in the score; `is_copy` (s,) true if a context has it verbatim;
    `copied` (s,) the share of it that stands in copied runs; `related` (s,) the share of its wording that
    the contexts have, 1 where that says nothing of its subject; `is_open` (s,) true if something forbids to
    pass it as a copy.
    Of n answers: `labels` (n,) 1 faithful, 0 not; `shapes` (n,); `datasets` (n,); `clusters` (n,) equal for one
    document.
    """

    names: tuple[str, ...]
    measures: FloatArray
    owners: NDArray[np.int64]
    lengths: FloatArray
    is_copy: NDArray[np.bool_]
    copied: FloatArray
    related: FloatArray
    is_open: NDArray[np.bool_]
    labels: FloatArray
    shapes: NDArray[np.str_]
    datasets: NDArray[np.str_]
    clusters: NDArray[np.str_]

    def __len__(self) -> int:
        return len(self.labels)

    def pick(self, rows: NDArray[np.bool_]) -> "MeasuredAnswers":
        """Return the answers where `rows`, shape (n,), is true."""
        sentences = rows[self.owners]
        of_sentences = {name: getattr(self, name)[sentences] for name in _OF_SENTENCES}
        of_answers = {name: getattr(self, name)[rows] for name in ("labels", "shapes", "datasets", "clusters")}
        return replace(self, **of_sentences, **of_answers, owners=(np.cumsum(rows) - 1)[self.owners[sentences]])

    def column(self, name: str) -> FloatArray:
        return np.asarray(self.measures[:, self.names.index(name)])

    def mean(self, values: FloatArray) -> FloatArray:
        """Return the mean by length of a value of each sentence, shape (n,)."""
        totals = np.bincount(self.owners, self.lengths, len(self))
        return np.asarray(np.bincount(self.owners, self.lengths * values, len(self)) / totals)

    def any(self, values: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return which answers have a sentence where `values`, shape (s,), is true."""
        return np.asarray(np.bincount(self.owners, values, len(self)) > 0)

    @property
    def is_doubted(self) -> NDArray[np.bool_]:
        """Return which sentences a measure forbids to support, shape (s,)."""
        return np.asarray(self.measures[:, np.isin(self.names, DOUBTS)].any(axis=1) & ~self.is_copy)


class Parameters(NamedTuple):
    """Parameters of a calibration that a fit chooses."""

    weights: dict[str, float]
    intercept: float
    doubted: float
    above: float


def predict(answers: MeasuredAnswers, calibration: Calibration) -> FloatArray:
    """Return the faithfulness that the service would answer, shape (n,)."""
    design = _Design(answers, calibration.gate)
    logits = design.matrix @ _read_parameters(design, calibration) + calibration.intercept
    return design.scores(_flatten(logits, calibration.above))


def gate_factors(answers: MeasuredAnswers, gate: CalibrationGate | None) -> FloatArray:
    """Return the mean factor of a gate on each answer, shape (n,)."""
    if gate is None:
        return np.ones(len(answers))
    factors = np.clip((answers.column(gate.measure) - gate.closed) / (gate.open - gate.closed), 0.0, 1.0)
    return answers.mean(factors)


def fit_gate(unrelated: MeasuredAnswers, measure: str) -> CalibrationGate:
    """Fit the gate of a measure on answers paired with unrelated contexts.

    Raises CalibrationError: there are no such answers, or all are equally like their contexts.
    """
    closed, opened = (round(_weighted_quantile(unrelated, measure, share), 4) for share in (_CLOSED_AT, _OPEN_AT))
    if opened <= closed:
        raise CalibrationError(
            "the weights cannot be fitted: that takes answers about several documents that differ; "
            "the scale alone can be (--fit scale)"
        )
    return CalibrationGate(measure=measure, closed=closed, open=opened)


def fit_weights(answers: MeasuredAnswers, gate: CalibrationGate | None, *, row_weights: FloatArray) -> Parameters:
    """Fit weights, intercept, what a doubt costs and the factor above 0 by maximum likelihood.

    Minimised is the log loss of the answers' scores, with an intercept for each dataset; then, with one for all, slope,
    intercept and factor.

    `row_weights`: shape (n,), how much each answer counts.

    Raises CalibrationError: the scores do not rise with the labels.
    """
    telling = _is_telling(answers)
    answers, row_weights = answers.pick(telling), row_weights[telling] / row_weights[telling].sum()
    design = _Design(answers, gate)
    deviation = design.matrix.std(axis=0) + _SMALLEST
    standard, count = design.matrix / deviation, design.matrix.shape[1]
    _, numbers = np.unique(answers.datasets, return_inverse=True)
    sets = int(numbers.max()) + 1

    def loss(parameters: FloatArray) -> tuple[float, FloatArray]:
        slopes, intercept, offsets = parameters[:count], parameters[count], parameters[count + 1 :]
        value, gradient = design.log_loss(standard @ slopes + intercept + offsets[numbers], row_weights)
        slope_gradient = standard.T @ gradient + 2 * _RIDGE * slopes
        offset_gradient = np.bincount(numbers, gradient, sets) + 2 * _RIDGE_OF_DATASETS * offsets
        penalty = _RIDGE * (slopes**2).sum() + _RIDGE_OF_DATASETS * (offsets**2).sum()
        return value + penalty, np.concatenate([slope_gradient, [gradient.sum()], offset_gradient])

    # No measure may count against its meaning, whatever a few labels suggest.
    bounds = [(0.0, None)] * count + [(None, None)] * (1 + sets)
    start = np.zeros(count + 1 + sets)
    slopes = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x[:count]
    if not slopes[: len(design.names)].any():
        raise CalibrationError(_NOTHING_TO_CALIBRATE)
    known = None if sets >= _ENOUGH_DATASETS else 1.0
    slope, intercept, above = _fit_scale(design, standard @ slopes, row_weights, ridge=0.0, above=known)
    if slope <= 0:
        raise CalibrationError(_NOTHING_TO_CALIBRATE)
    return _write_parameters(design, slope * slopes / deviation, intercept, above)


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


def fit_scale(answers: MeasuredAnswers, calibration: Calibration, *, row_weights: FloatArray) -> Parameters:
    """Scale and shift the calibration's parameters to the labels (Platt 1999).

    Raises CalibrationError: the scores do not rise with the labels.
    """
    design = _Design(answers, calibration.gate)
    parameters = _read_parameters(design, calibration)
    logits = design.matrix @ parameters + calibration.intercept
    above = calibration.above
    slope, shift, _ = _fit_scale(design, logits, row_weights, ridge=_RIDGE_OF_SCALE, above=above)
    if slope <= 0:
        raise CalibrationError(_NOTHING_TO_CALIBRATE)
    fitted = _write_parameters(design, slope * parameters, slope * calibration.intercept + shift, above)
    return fitted._replace(weights={name: fitted.weights[name] for name in calibration.weights})


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


def cross_predict(
    answers: MeasuredAnswers, folds: Sequence[NDArray[np.bool_]], fit: Callable[[MeasuredAnswers], Calibration]
) -> FloatArray:
    """Return each answer's score by the calibration fitted without its fold; shape (n,)."""
    scores = np.full(len(answers), np.nan)
    for left_out in folds:
        scores[left_out] = predict(answers.pick(left_out), fit(answers.pick(~left_out)))
    return np.asarray(np.clip(scores, 0.0, 1.0))


def _weighted_quantile(answers: MeasuredAnswers, measure: str, share: float) -> float:
    """Return the quantile of a measure, weighted by sentence length; 0 without sentences."""
    if not len(answers):
        return 0.0
    values = answers.column(measure)
    order = np.argsort(values)
    lengths = answers.lengths[order]
    return float(np.interp(share, (np.cumsum(lengths) - lengths / 2) / lengths.sum(), values[order]))


class _Design:
    """Answers as rows of a matrix, the mean of each fitted measure and minus 1 for a doubt; and their scores."""

    def __init__(self, answers: MeasuredAnswers, gate: CalibrationGate | None) -> None:
        self.names = tuple(name for name in answers.names if name not in DOUBTS)
        columns = [answers.mean(answers.column(name)) for name in self.names]
        self.matrix = np.column_stack([*columns, -answers.any(answers.is_doubted).astype(np.float64)])
        self._gate = gate_factors(answers, gate)
        self._labels = answers.labels
        self._is_copied = ~answers.any(~answers.is_copy)
        self._highest = np.where(answers.any(answers.is_open), OPEN_SUPPORT, VERBATIM_SUPPORT)

    def scores(self, logits: FloatArray) -> FloatArray:
        scores = np.minimum(self._highest, self._gate * expit(logits))
        return np.where(self._is_copied, VERBATIM_SUPPORT, scores)

    def log_loss(self, logits: FloatArray, row_weights: FloatArray) -> tuple[float, FloatArray]:
        """Return the weighted log loss and its gradient by each answer's logit."""
        free = expit(logits)
        moves = ~self._is_copied & (self._gate * free < self._highest)
        p = np.clip(self.scores(logits), _SMALLEST, _LARGEST)
        value = -(row_weights * (self._labels * np.log(p) + (1 - self._labels) * np.log(1 - p))).sum()
        by_score = -row_weights * (self._labels / p - (1 - self._labels) / (1 - p))
        return float(value), by_score * self._gate * free * (1 - free) * moves


def _read_parameters(design: _Design, calibration: Calibration) -> FloatArray:
    weights = [calibration.weights.get(name, 0.0) for name in design.names]
    return np.array([*weights, calibration.doubted])


def _write_parameters(design: _Design, parameters: FloatArray, intercept: float, above: float) -> Parameters:
    *weights, doubted = (round(float(each), _DIGITS) for each in parameters)
    weight_by_name = dict(zip(design.names, weights, strict=True))
    return Parameters(weight_by_name, round(float(intercept), _DIGITS), doubted, round(above, _DIGITS))


def _flatten(logits: FloatArray, above: float) -> FloatArray:
    return np.where(logits > 0, above * logits, logits)


def _fit_scale(
    design: _Design, logits: FloatArray, row_weights: FloatArray, *, ridge: float, above: float | None = None
) -> tuple[float, float, float]:
    """Return slope, shift, and the factor above 0, which is fitted unless it is given."""

    def loss(parameters: FloatArray) -> tuple[float, FloatArray]:
        slope, shift, factor = parameters
        moved = slope * logits + shift
        value, gradient = design.log_loss(_flatten(moved, factor), row_weights)
        value += ridge * ((slope - 1) ** 2 + shift**2)
        by_factor = (gradient * moved.clip(min=0)).sum()
        gradient = gradient * np.where(moved > 0, factor, 1.0)
        by_slope = gradient @ logits + 2 * ridge * (slope - 1)
        return value, np.array([by_slope, gradient.sum() + 2 * ridge * shift, by_factor])

    factors = (_LEAST_ABOVE, 1.0) if above is None else (above, above)
    bounds = [(None, None), (None, None), factors]
    start = np.array([1.0, 0.0, factors[1]])
    slope, shift, factor = map(float, minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x)
    return slope, shift, factor


Mask = NDArray[np.bool_]

# The share of right decisions, labels weighed alike. Words that stand in some context say less than copied wording:
# they are fitted to more.
_RIGHT: Final = 0.8
_COVERED_RIGHT: Final = 0.9
_RIGHT_OF_FEW: Final = 0.82
# Rows without a mistake do not promise that there will be none.
_MOST_RIGHT: Final = 0.98
_STEPS: Final = np.round(np.arange(0.5, 1.001, 0.05), 2)
_COVERED_STEPS: Final = np.round(np.arange(0.5, 0.9, 0.01), 2)
# At most three parts in ten: a sentence with more in common is on the subject.
_RELATED_STEPS: Final = np.round(np.arange(0.7, 1.001, 0.02), 2)
_FEWEST: Final = 30


def fit_bounds(answers: MeasuredAnswers, scores: FloatArray, *, copied_from: float = 0.5) -> dict[Shape, ShapeBounds]:
    """Fit the bounds of each shape with answers of both labels enough.

    Args:
        scores: shape (n,), faithfulness of answers that were left out of the fit that scored them.
        copied_from: least share in copied runs by which an answer may pass.
    """
    steps = np.array([copied_from, *_STEPS[copied_from < _STEPS]])
    clean, related = np.ones((2, len(answers)))
    np.minimum.at(clean, answers.owners, np.where(answers.is_copy, 1.0, answers.copied))
    np.minimum.at(related, answers.owners, answers.related)
    is_doubted, is_open = answers.any(answers.is_doubted), answers.any(answers.is_open)
    found: dict[Shape, ShapeBounds] = {}
    for shape in Shape:
        rows = answers.shapes == shape.value
        if min(answers.labels[rows].sum(), (1 - answers.labels[rows]).sum()) < _FEWEST:
            continue
        chosen, is_right = answers.pick(rows), answers.labels[rows] > 0
        foreign = np.where(is_doubted, 1.0, 1.0 - related)[rows]
        fails, fails_right = _fit(chosen, foreign, ~is_right, _RELATED_STEPS)
        below = 0.0 if fails is None else round(1.0 - fails, 2)
        is_held = is_open[rows] | is_doubted[rows] | (related[rows] < below)
        copied, copied_right = _fit(chosen, np.where(is_held, -1.0, clean[rows]), is_right, steps)
        covered = covered_right = None
        if shape is Shape.ANSWER:
            values = np.where(is_held, -1.0, scores[rows])
            covered, covered_right = _fit(chosen, values, is_right, _COVERED_STEPS, least=_COVERED_RIGHT)
        found[shape] = ShapeBounds(
            copied_from=copied,
            copied_right=copied_right,
            covered_from=covered,
            covered_right=covered_right,
            unrelated_below=below,
            fails_right=fails_right,
        )
    return found


def _fit(
    answers: MeasuredAnswers, values: FloatArray, is_right: Mask, steps: FloatArray, *, least: float = _RIGHT
) -> tuple[float | None, float | None]:
    """Return the lowest bound that is right often enough, and how often it is; or None twice.

    Where enough data sets have enough answers, each is left out: its answers are decided where the bound is right often
    enough on the rest. Where few have, the bound has to be right on all answers more often than is promised.
    """
    weights = np.where(is_right, 1.0 / is_right.sum(), 1.0 / (~is_right).sum())
    names, counts = np.unique(answers.datasets, return_counts=True)
    has_sets = (counts >= _FEWEST).sum() >= _ENOUGH_DATASETS
    folds = [answers.datasets == name for name in names] if has_sets else []
    least = least if has_sets else max(least, _RIGHT_OF_FEW)

    def share(decided: Mask) -> float:
        total = weights[decided].sum()
        return float(weights[decided & is_right].sum() / total) if total else 0.0

    for step in steps:
        decided = values >= step
        if (right := share(decided)) < least:
            continue
        if left_out := [decided & fold for fold in folds if share(decided & ~fold) >= _RIGHT]:
            right = share(np.any(left_out, axis=0))
        if right >= _RIGHT:
            return float(step), round(min(right, _MOST_RIGHT), 4)
    return None, None
