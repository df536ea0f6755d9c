"""Bounds from which a tier passes or fails answers of a shape, and how often they are right on data left out."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from plumbline.extras.calibration.fitting import FloatArray, MeasuredAnswers, gate_factors, split_folds
from plumbline.judging.tiers.calibration import CalibrationGate
from plumbline.judging.tiers.triage import UNRELATED_BELOW, Shape, ShapeBounds

Mask = NDArray[np.bool_]

# What a bound has to reach on data left out, labels weighed alike. It is fitted to a little more, up to the last.
_RIGHT: Final = 0.8
_AIMS: Final = (0.8, 0.82, 0.84, 0.86, 0.88, 0.9, 0.92)
_STEPS: Final = np.round(np.arange(0.5, 1.001, 0.05), 2)
_FOLDS: Final = 5
_FEWEST: Final = 30


def fit_bounds(answers: MeasuredAnswers, scores: FloatArray, gate: CalibrationGate | None) -> dict[Shape, ShapeBounds]:
    """Fit the bounds of each shape with answers of both labels enough.

    Args:
        scores: shape (n,), faithfulness of answers that were left out of the fit that scored them.
    """
    clean = np.ones(len(answers))
    np.minimum.at(clean, answers.owners, np.where(answers.is_copy, 1.0, answers.copied))
    is_faulty = answers.any(answers.is_doubted) | (gate_factors(answers, gate) < UNRELATED_BELOW)
    clean[is_faulty | answers.any(answers.is_open)] = -1.0
    # From the highest on, as of copies: the lower the score, the surer is the fault.
    faulty = np.where(is_faulty, 1.0 - scores, -1.0)
    found: dict[Shape, ShapeBounds] = {}
    for shape in Shape:
        rows = answers.shapes == shape.value
        if min(answers.labels[rows].sum(), (1 - answers.labels[rows]).sum()) < _FEWEST:
            continue
        chosen, is_right = answers.pick(rows), answers.labels[rows] > 0
        copied, copied_right = _fit(chosen, clean[rows], is_right, _STEPS)
        faults = np.unique([0.0, *np.round(1.0 - _STEPS[:-1], 2), *(0.6, 0.7, 0.8)])
        fails, fails_right = _fit(chosen, faulty[rows], ~is_right, faults)
        if copied is not None or fails is not None:
            below = None if fails is None else round(1.0 - fails, 4)
            found[shape] = ShapeBounds(
                copied_from=copied, copied_right=copied_right, fails_below=below, fails_right=fails_right
            )
    return found


def _fit(
    answers: MeasuredAnswers, values: FloatArray, is_right: Mask, steps: FloatArray
) -> tuple[float | None, float | None]:
    """Return the lowest bound that is right often enough on data left out, and how often it is; or None twice."""
    weights = np.where(is_right, 1.0 / is_right.sum(), 1.0 / (~is_right).sum())

    def share(rows: Mask, decided: Mask) -> float:
        total = weights[rows & decided].sum()
        return float(weights[rows & decided & is_right].sum() / total) if total else 0.0

    def choose(rows: Mask, aim: float) -> float | None:
        return next((float(step) for step in steps if share(rows, values >= step) >= aim), None)

    folds = split_folds(answers, parts=_FOLDS)
    everything = np.ones(len(answers), dtype=bool)
    for aim in _AIMS:
        decided = np.zeros(len(answers), dtype=bool)
        for left_out in folds:
            bound = choose(~left_out, aim)
            if bound is not None:
                decided |= left_out & (values >= bound)
        bound, right = choose(everything, aim), share(everything, decided)
        if bound is not None and right >= _RIGHT:
            return bound, round(right, 4)
    return None, None
