"""Weighted figures of agreement: many bootstrap draws at once, each a row of weights over the same sorted rows.

Every function takes `weights` of shape (draws, n), at least 0, over rows that ascend by score, and returns shape
(draws,), NaN in a draw for which the figure is not defined; callers turn NaN into None.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class SortedRows:
    """Scores and labels of n rows by ascending score.

    `tie_starts` has the position of the first row of each distinct score; rows of one score are never told apart.
    """

    scores: FloatArray
    is_faithful: BoolArray
    tie_starts: IntArray


def sorted_rows(scores: FloatArray, is_faithful: BoolArray) -> SortedRows:
    """Build the rows from scores that ascend already, shape (n,), n >= 1."""
    return SortedRows(scores, is_faithful, np.flatnonzero(np.diff(scores, prepend=scores[0] - 1.0) != 0.0))


def auroc(rows: SortedRows, weights: FloatArray) -> FloatArray:
    """Return the AUROC, ties counting half: Hanley & McNeil 1982."""
    faithful, other = _by_tie(rows, weights)
    below = np.cumsum(other, axis=1) - other
    wins = (faithful * (below + 0.5 * other)).sum(axis=1)
    return _ratio(wins, faithful.sum(axis=1) * other.sum(axis=1))


def balanced_accuracy(rows: SortedRows, weights: FloatArray, threshold: float) -> FloatArray:
    """Return the mean of sensitivity and specificity; a row passes at `threshold` or above."""
    faithful, other, faithful_passed, other_passed = _confusion(rows, weights, threshold)
    return 0.5 + 0.5 * (_ratio(faithful_passed, faithful) - _ratio(other_passed, other))


def best_balanced_accuracy(rows: SortedRows, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the highest balanced accuracy over all thresholds, and the lowest score that reaches it.

    Chosen on the rows it is measured on: an upper bound of what a threshold can do.
    """
    faithful, other = _by_tie(rows, weights)
    at_each = 0.5 + 0.5 * (_share_below(other) - _share_below(faithful))
    best = np.argmax(at_each, axis=1)
    values = np.take_along_axis(at_each, best[:, None], axis=1)[:, 0]
    return values, np.where(np.isnan(values), np.nan, rows.scores[rows.tie_starts[best]])


def cohen_kappa(rows: SortedRows, weights: FloatArray, threshold: float) -> FloatArray:
    """Return Cohen's kappa of pass or fail with the label, in [-1, 1]; NaN with one label. Cohen 1960."""
    faithful, other, faithful_passed, other_passed = _confusion(rows, weights, threshold)
    total = faithful + other
    observed = _ratio(faithful_passed + other - other_passed, total)
    passed = _ratio(faithful_passed + other_passed, total)
    share = _ratio(faithful, total)
    by_chance = passed * share + (1.0 - passed) * (1.0 - share)
    return np.where(faithful * other > 0.0, _ratio(observed - by_chance, 1.0 - by_chance), np.nan)


def brier(rows: SortedRows, weights: FloatArray) -> FloatArray:
    """Return the mean squared difference of score and label, in [0, 1]: Brier 1950."""
    return _ratio(weights @ np.square(rows.scores - rows.is_faithful), weights.sum(axis=1))


def brier_of_base_rate(rows: SortedRows, weights: FloatArray) -> FloatArray:
    """Return the Brier score of a constant at the share of faithful rows: share * (1 - share)."""
    share = _ratio(weights @ rows.is_faithful.astype(np.float64), weights.sum(axis=1))
    return share * (1.0 - share)


def calibration_error(rows: SortedRows, weights: FloatArray, bin_starts: IntArray) -> FloatArray:
    """Return the expected calibration error: mean over bins, by weight, of |share of faithful rows - mean score|.

    Naeini et al., AAAI 2015, and Guo et al., ICML 2017, except that the bins hold equal mass, not equal width: scores
    crowd together, and a bin of a few rows measures nothing. It is above 0 even for a perfect score, more so the fewer
    rows there are (Kumar et al., NeurIPS 2019); a resampled one is higher still.
    """
    gaps = np.add.reduceat(weights * (rows.is_faithful - rows.scores), bin_starts, axis=1)
    return _ratio(np.abs(gaps).sum(axis=1), weights.sum(axis=1))


def equal_mass_bins(rows: SortedRows, weights: FloatArray, bins: int) -> IntArray:
    """Return the first position of each of at most `bins` bins of about equal weight; `weights`: shape (n,), sum > 0.

    Rows of one score share a bin, the one that the middle of their weight falls in, so that the order of rows says
    nothing; empty bins are left out.
    """
    mass = np.add.reduceat(weights, rows.tie_starts)
    middle = (np.cumsum(mass) - 0.5 * mass) / mass.sum()
    bin_of_tie = np.minimum((middle * bins).astype(np.int64), bins - 1)
    return rows.tie_starts[np.flatnonzero(np.diff(bin_of_tie, prepend=-1) > 0)]


def _by_tie(rows: SortedRows, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the weight of faithful and of other rows at each distinct score, shape (draws, ties)."""
    faithful = np.add.reduceat(weights * rows.is_faithful, rows.tie_starts, axis=1)
    return faithful, np.add.reduceat(weights * ~rows.is_faithful, rows.tie_starts, axis=1)


def _share_below(mass: FloatArray) -> FloatArray:
    cumulated = np.cumsum(mass, axis=1)
    return _ratio(cumulated - mass, cumulated[:, -1:])


def _confusion(
    rows: SortedRows, weights: FloatArray, threshold: float
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return the weight of faithful and other rows, and of those of each that pass."""
    first = int(np.searchsorted(rows.scores, threshold, side="left"))
    faithful = rows.is_faithful.astype(np.float64)
    passing = weights[:, first:]
    return (
        weights @ faithful,
        weights @ (1.0 - faithful),
        passing @ faithful[first:],
        passing @ (1.0 - faithful[first:]),
    )


def _ratio(above: FloatArray, below: FloatArray) -> FloatArray:
    """Return `above / below`, NaN if undefined."""
    shape = np.broadcast_shapes(above.shape, below.shape)
    ratio: FloatArray = np.full(shape, np.nan)
    np.divide(above, below, out=ratio, where=np.broadcast_to(below > 0.0, shape))
    return ratio
