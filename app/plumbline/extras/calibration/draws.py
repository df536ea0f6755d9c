"""The figures of every data set, and of all rows together, in each draw of the bootstrap."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from plumbline.extras.calibration import weighted
from plumbline.extras.calibration.resampling import DatasetRows, draw_weights
from plumbline.extras.calibration.weighted import BoolArray, FloatArray, IntArray, SortedRows

Weighing = Literal["natural", "balanced"]
FigureName = Literal["auroc", "best_balanced_accuracy", "balanced_accuracy", "kappa", "brier", "brier_base_rate", "ece"]
DrawsByFigure = Mapping[FigureName, FloatArray]

CALIBRATION_BINS: Final = 10


@dataclass(frozen=True, slots=True)
class ReliabilityBin:
    """One bin of the calibration error: scores from `low` to `high`, and what people said of those rows.

    `weight` is the bin's share of all weight, `mean_score` and `share_faithful` are weighted means; all in [0, 1].
    """

    low: float
    high: float
    rows: int
    weight: float
    mean_score: float
    share_faithful: float


class DrawPlan:
    """What is computed in each draw: the figures of every data set, and of all rows together under None."""

    def __init__(
        self, datasets: Sequence[DatasetRows], names: Sequence[FigureName], threshold: float, weighing: Weighing
    ) -> None:
        self._datasets = datasets
        self._names = names
        self._threshold = threshold
        self._weighing = weighing
        self.pooled_datasets = [each for each in datasets if weighing == "natural" or each.has_both_labels]
        scores = np.concatenate([each.rows.scores for each in datasets])
        labels = np.concatenate([each.rows.is_faithful for each in datasets])
        self._order = np.argsort(scores, kind="stable")
        self._pooled = weighted.sorted_rows(scores[self._order], labels[self._order])
        ones = np.ones((1, len(scores)))
        self._weights: dict[str | None, FloatArray] = {
            each.name: self._weigh(each, ones[:, each.columns]) for each in datasets
        }
        self._weights[None] = self._pool(self._weights)
        self._bins: dict[str | None, IntArray] = {
            each.name: _bins(each.rows, self._weights[each.name][0]) for each in datasets
        }
        self._bins[None] = _bins(self._pooled, self._weights[None][0])

    def draw(self, draws: int, seed: int) -> dict[str | None, DrawsByFigure]:
        """By data set and figure, shape (1 + draws,): first the value, then that of each draw."""
        chunks: dict[str | None, dict[FigureName, list[FloatArray]]] = defaultdict(lambda: defaultdict(list))
        for counts in draw_weights(self._datasets, draws=draws, seed=seed):
            weights: dict[str | None, FloatArray] = {
                each.name: self._weigh(each, counts[:, each.columns]) for each in self._datasets
            }
            for each in self._datasets:
                self._add(chunks[each.name], each.name, each.rows, counts[:, each.columns], weights[each.name])
            if len(self._names) > 1:
                natural = counts[:, self._order]
                self._add(chunks[None], None, self._pooled, natural, self._pool(weights))
        return {name: {figure: np.concatenate(parts) for figure, parts in by.items()} for name, by in chunks.items()}

    def best_threshold(self, dataset: DatasetRows | None) -> float | None:
        """The threshold of the best balanced accuracy of a data set, or of all rows."""
        name, rows = (dataset.name, dataset.rows) if dataset else (None, self._pooled)
        return number_or_none(weighted.best_balanced_accuracy(rows, self._weights[name])[1][0])

    def reliability(self) -> tuple[ReliabilityBin, ...]:
        """The bins of the pooled calibration error."""
        rows, weights, starts = self._pooled, self._weights[None][0], self._bins[None]
        stops = [*starts[1:].tolist(), len(rows.scores)]
        return tuple(
            _bin(rows.scores[start:stop], rows.is_faithful[start:stop], weights[start:stop], weights.sum())
            for start, stop in zip(starts.tolist(), stops, strict=True)
            if weights[start:stop].any()
        )

    def _weigh(self, dataset: DatasetRows, counts: FloatArray) -> FloatArray:
        """Weights of a data set's rows; balanced, they sum to 1, or are all 0 where one label is missing."""
        if self._weighing == "natural":
            return counts
        is_faithful = dataset.rows.is_faithful
        faithful, other = counts @ is_faithful.astype(np.float64), counts @ (~is_faithful).astype(np.float64)
        has_both = (faithful > 0.0) & (other > 0.0)
        scales = [np.divide(0.5, sums, out=np.zeros_like(sums), where=has_both) for sums in (faithful, other)]
        return np.where(is_faithful, counts * scales[0][:, None], counts * scales[1][:, None])

    def _pool(self, weights: Mapping[str | None, FloatArray]) -> FloatArray:
        return np.concatenate([weights[each.name] for each in self._datasets], axis=1)[:, self._order]

    def _add(
        self,
        parts: dict[FigureName, list[FloatArray]],
        name: str | None,
        rows: SortedRows,
        counts: FloatArray,
        weights: FloatArray,
    ) -> None:
        for figure in self._names:
            draws = _Draws(rows, counts, weights, self._bins[name], self._threshold)
            parts[figure].append(_FORMULAS[figure](draws))


def number_or_none(value: float) -> float | None:
    """The value, None in place of NaN."""
    return None if np.isnan(value) else float(value)


def _bins(rows: SortedRows, weights: FloatArray) -> IntArray:
    # A data set that weighs nothing has no figures; any bin will do.
    return weighted.equal_mass_bins(rows, weights, CALIBRATION_BINS) if weights.any() else rows.tie_starts[:1]


def _bin(scores: FloatArray, is_faithful: BoolArray, weights: FloatArray, total: float) -> ReliabilityBin:
    weight = float(weights.sum())
    return ReliabilityBin(
        low=float(scores[0]),
        high=float(scores[-1]),
        rows=int(np.count_nonzero(weights)),
        weight=weight / float(total),
        mean_score=float(weights @ scores) / weight,
        share_faithful=float(weights @ is_faithful) / weight,
    )


@dataclass(frozen=True, slots=True)
class _Draws:
    """Some rows with the counts of each draw, and what those weigh."""

    rows: SortedRows
    counts: FloatArray
    weights: FloatArray
    bin_starts: IntArray
    threshold: float


_FORMULAS: Final[Mapping[FigureName, Callable[[_Draws], FloatArray]]] = {
    "auroc": lambda each: weighted.auroc(each.rows, each.weights),
    "best_balanced_accuracy": lambda each: weighted.best_balanced_accuracy(each.rows, each.weights)[0],
    "balanced_accuracy": lambda each: weighted.balanced_accuracy(each.rows, each.weights, each.threshold),
    "kappa": lambda each: weighted.cohen_kappa(each.rows, each.counts, each.threshold),
    "brier": lambda each: weighted.brier(each.rows, each.weights),
    "brier_base_rate": lambda each: weighted.brier_of_base_rate(each.rows, each.weights),
    "ece": lambda each: weighted.calibration_error(each.rows, each.weights, each.bin_starts),
}
