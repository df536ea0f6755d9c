"""Agreement of scores with labels, by data set, as a mean over data sets and pooled, with intervals. Pure, seeded."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, get_args
from zlib import crc32

import numpy as np
import numpy.typing as npt

from plumbline.ground.errors import InvalidInput

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
# Two balanced accuracies of the same counts, summed in another order, differ by less.
_ROUNDING: Final = 1e-12


@dataclass(frozen=True, slots=True)
class SortedRows:
    """Scores and labels of n rows by ascending score; `tie_starts`: the first position of each distinct score."""

    scores: FloatArray
    is_faithful: BoolArray
    tie_starts: IntArray


def sort_rows(scores: FloatArray, is_faithful: BoolArray) -> SortedRows:
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
    """Return the highest balanced accuracy over all thresholds, on these rows, and the lowest score that reaches it."""
    faithful, other = _by_tie(rows, weights)
    at_each = 0.5 + 0.5 * (_share_below(other) - _share_below(faithful))
    best = np.argmax(at_each >= at_each.max(axis=1, keepdims=True) - _ROUNDING, axis=1)
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
    shape = np.broadcast_shapes(above.shape, below.shape)
    ratio: FloatArray = np.full(shape, np.nan)
    np.divide(above, below, out=ratio, where=np.broadcast_to(below > 0.0, shape))
    return ratio


# Weights held at once: 8 MiB, whatever the numbers of rows and draws.
_CHUNK_CELLS = 1 << 20


@dataclass(frozen=True, slots=True)
class ScoredRows:
    """n scored rows, n >= 1, each field of shape (n,): finite scores, labels 1 for faithful and 0 for not.

    Rows of one data set and one cluster are drawn together.
    """

    scores: FloatArray
    labels: IntArray
    datasets: Sequence[str]
    clusters: Sequence[str]


@dataclass(frozen=True, slots=True)
class DatasetRows:
    """The rows of one data set: their columns in the weights, and their clusters numbered from 0."""

    name: str
    rows: SortedRows
    columns: slice
    cluster_of: IntArray
    clusters: int

    @property
    def has_both_labels(self) -> bool:
        return bool(self.rows.is_faithful.any()) and not bool(self.rows.is_faithful.all())


def by_dataset(scored: ScoredRows) -> tuple[DatasetRows, ...]:
    """Return the data sets by name; their columns are adjacent, each ascending by score."""
    labels = np.asarray(scored.labels) == 1
    names, dataset_of = np.unique(np.asarray(scored.datasets, dtype=object), return_inverse=True)
    order = np.lexsort((scored.scores, dataset_of))
    ends = np.cumsum(np.bincount(dataset_of))
    clusters = np.asarray(scored.clusters, dtype=object)
    found, start = [], 0
    for name, end in zip(names.tolist(), ends.tolist(), strict=True):
        places = order[start:end]
        # Numbered by name, not by place: the order of the scores does not change which clusters are drawn.
        cluster_names, cluster_of = np.unique(clusters[places], return_inverse=True)
        rows = sort_rows(scored.scores[places], labels[places])
        found.append(DatasetRows(name, rows, slice(start, end), cluster_of, len(cluster_names)))
        start = end
    return tuple(found)


def draw_weights(datasets: Sequence[DatasetRows], *, draws: int, seed: int) -> Iterator[FloatArray]:
    """Yield the weights of each row: first one row of ones, then `draws` rows in chunks; shape (chunk, columns).

    Clusters are drawn with replacement within their data set (Field & Welsh, JRSS B 2007; the data sets themselves are
    not drawn). The draws of a data set depend on the seed, its name and its clusters alone, so that two tiers on the
    same rows are drawn alike and differences between them are paired.
    """
    width = datasets[-1].columns.stop
    yield np.ones((1, width))
    generators = [np.random.default_rng([seed, crc32(each.name.encode("utf-8", "replace"))]) for each in datasets]
    chunk = max(1, _CHUNK_CELLS // width)
    for start in range(0, draws, chunk):
        rows = min(chunk, draws - start)
        weights = np.empty((rows, width))
        for each, generator in zip(datasets, generators, strict=True):
            drawn = generator.integers(0, each.clusters, size=(rows, each.clusters))
            drawn += np.arange(rows)[:, None] * each.clusters
            counts = np.bincount(drawn.ravel(), minlength=rows * each.clusters).reshape(rows, each.clusters)
            weights[:, each.columns] = counts[:, each.cluster_of]
        yield weights


FigureName = Literal["auroc", "best_balanced_accuracy", "balanced_accuracy", "kappa", "brier", "ece"]
DrawsByFigure = Mapping[FigureName, FloatArray]

_CALIBRATION_BINS: Final = 10
# The score from which a row passes.
_THRESHOLD: Final = 0.5


class DrawPlan:
    """The figures of each draw: of every data set, and of all rows together under None."""

    def __init__(self, datasets: Sequence[DatasetRows], names: Sequence[FigureName]) -> None:
        self._datasets = datasets
        self._names = names
        scores = np.concatenate([each.rows.scores for each in datasets])
        labels = np.concatenate([each.rows.is_faithful for each in datasets])
        self._order = np.argsort(scores, kind="stable")
        self._pooled = sort_rows(scores[self._order], labels[self._order])
        self._weights = self._weigh_all(np.ones((1, len(scores))))
        self._bins: dict[str | None, IntArray] = {
            each.name: _bins(each.rows, self._weights[each.name][0]) for each in datasets
        }
        self._bins[None] = _bins(self._pooled, self._weights[None][0])

    def draw(self, draws: int, seed: int) -> dict[str | None, DrawsByFigure]:
        """Return by data set and figure an array of shape (1 + draws,): the value, then that of each draw."""
        chunks: dict[str | None, dict[FigureName, list[FloatArray]]] = defaultdict(lambda: defaultdict(list))
        for counts in draw_weights(self._datasets, draws=draws, seed=seed):
            weights = self._weigh_all(counts)
            for each in self._datasets:
                self._add(chunks[each.name], each.name, each.rows, counts[:, each.columns], weights[each.name])
            if len(self._names) > 1:
                self._add(chunks[None], None, self._pooled, counts[:, self._order], weights[None])
        return {name: {figure: np.concatenate(parts) for figure, parts in by.items()} for name, by in chunks.items()}

    def best_threshold(self, dataset: DatasetRows | None) -> float | None:
        """Return the threshold of the best balanced accuracy of a data set, or of all rows."""
        name, rows = (dataset.name, dataset.rows) if dataset else (None, self._pooled)
        return number_or_none(best_balanced_accuracy(rows, self._weights[name])[1][0])

    def _weigh_all(self, counts: FloatArray) -> dict[str | None, FloatArray]:
        weights: dict[str | None, FloatArray] = {}
        for each in self._datasets:
            weights[each.name] = _balance(each.rows, counts[:, each.columns])
        weights[None] = np.concatenate(list(weights.values()), axis=1)[:, self._order]
        return weights

    def _add(
        self,
        parts: dict[FigureName, list[FloatArray]],
        name: str | None,
        rows: SortedRows,
        counts: FloatArray,
        weights: FloatArray,
    ) -> None:
        formulas: dict[FigureName, Callable[[], FloatArray]] = {
            "auroc": lambda: auroc(rows, weights),
            "best_balanced_accuracy": lambda: best_balanced_accuracy(rows, weights)[0],
            "balanced_accuracy": lambda: balanced_accuracy(rows, weights, _THRESHOLD),
            "kappa": lambda: cohen_kappa(rows, counts, _THRESHOLD),
            "brier": lambda: brier(rows, weights),
            "ece": lambda: calibration_error(rows, weights, self._bins[name]),
        }
        for figure in self._names:
            parts[figure].append(formulas[figure]())


def _balance(rows: SortedRows, counts: FloatArray) -> FloatArray:
    """Return weights of a data set's rows, equal for both labels: they sum to 1, or 0 if one label is missing."""
    faithful, other = counts @ rows.is_faithful.astype(np.float64), counts @ (~rows.is_faithful).astype(np.float64)
    has_both = (faithful > 0.0) & (other > 0.0)
    scales = [np.divide(0.5, sums, out=np.zeros_like(sums), where=has_both) for sums in (faithful, other)]
    return np.where(rows.is_faithful, counts * scales[0][:, None], counts * scales[1][:, None])


def number_or_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _bins(rows: SortedRows, weights: FloatArray) -> IntArray:
    # A data set that weighs nothing has no figures; any bin will do.
    return equal_mass_bins(rows, weights, _CALIBRATION_BINS) if weights.any() else rows.tie_starts[:1]


# A rank score only orders rows: no threshold of 0.5, no calibration.
Scale = Literal["probability", "rank"]

_LEVEL: Final = 0.95
_RANK_FIGURES: Final[tuple[FigureName, ...]] = ("auroc", "best_balanced_accuracy")
_FIGURES: Final[tuple[FigureName, ...]] = get_args(FigureName)


@dataclass(frozen=True, slots=True)
class Figure:
    """A value and its 95 % interval; None if undefined."""

    value: float | None
    low: float | None
    high: float | None


_NONE: Final = Figure(None, None, None)


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of agreement between scores and labels.

    `best_threshold` is the lowest score that must pass for `best_balanced_accuracy`; a mean over data sets has none.
    """

    rows: int
    faithful: int
    auroc: Figure = _NONE
    best_balanced_accuracy: Figure = _NONE
    best_threshold: float | None = None
    balanced_accuracy: Figure = _NONE
    kappa: Figure = _NONE
    brier: Figure = _NONE
    ece: Figure = _NONE


@dataclass(frozen=True, slots=True)
class Agreement:
    """The figures of each data set, their mean over data sets, and those of all rows together.

    `macro` and `by_group` average over the data sets that have both labels; `one_label` names the others. `pooled`
    has its best threshold in common for all data sets.
    """

    by_dataset: Mapping[str, Figures]
    macro: Figures
    by_group: Mapping[str, Figures]
    pooled: Figures
    one_label: tuple[str, ...]


def measure_agreement(
    scored: ScoredRows,
    *,
    scale: Scale = "probability",
    groups: Mapping[str, Collection[str]] = MappingProxyType({}),
    draws: int = 1_000,
    seed: int = 0,
) -> Agreement:
    """Measure agreement, with percentile intervals from `draws` draws of whole clusters within their data set.

    Args:
        scored: the rows; scores in [0, 1] on scale `probability`.
        scale: on `rank`, AUROC and the best balanced accuracy alone.
        groups: data sets by the name of their group; those without rows are ignored.
        draws: at least 1. A draw in which a figure is not defined for a data set (one label was drawn) is left out.
        seed: same seed, same intervals.

    In `brier`, `ece` and the pooled figures each data set weighs the same, and each label in it; data sets with one
    label are left out. Kappa counts rows: weighed so, it would be 2 * balanced accuracy - 1.
    A figure is None where it is not defined; an interval, with one cluster. An interval is that of these data sets,
    with other documents in them. Resampling raises `ece` and `best_balanced_accuracy`, so that their intervals lie high
    and may miss the value.

    Raises InvalidInput: there are no draws.
    """
    if draws < 1:
        raise InvalidInput(f"expected draws of at least 1, found {draws!r}")
    datasets = by_dataset(scored)
    names = _RANK_FIGURES if scale == "rank" else _FIGURES
    plan = DrawPlan(datasets, names)
    values = plan.draw(draws, seed)
    both = [each for each in datasets if each.has_both_labels]
    chosen = {name: [each for each in both if each.name in members] for name, members in groups.items()}
    return Agreement(
        by_dataset={each.name: _figures([each], values[each.name], plan.best_threshold(each)) for each in datasets},
        macro=_figures(both, mean_over_datasets(values, both, names)),
        by_group={
            name: _figures(part, mean_over_datasets(values, part, names)) for name, part in chosen.items() if part
        },
        pooled=_figures(both, values[None], plan.best_threshold(None)),
        one_label=tuple(each.name for each in datasets if not each.has_both_labels),
    )


def mean_over_datasets(
    values: Mapping[str | None, DrawsByFigure], datasets: Sequence[DatasetRows], names: Iterable[FigureName]
) -> DrawsByFigure:
    """Return the mean over data sets in each draw, over those where the figure is defined."""
    return {name: _mean(np.stack([values[each.name][name] for each in datasets])) for name in names if datasets}


def _mean(stacked: FloatArray) -> FloatArray:
    is_defined = ~np.isnan(stacked)
    count = is_defined.sum(axis=0)
    means: FloatArray = np.full(stacked.shape[1], np.nan)
    np.divide(np.where(is_defined, stacked, 0.0).sum(axis=0), count, out=means, where=count > 0)
    return means


def _figures(datasets: Sequence[DatasetRows], values: DrawsByFigure, best_threshold: float | None = None) -> Figures:
    has_interval = any(each.clusters > 1 for each in datasets)
    figure_by_name = {name: build_figure(draws, has_interval=has_interval) for name, draws in values.items()}
    return Figures(
        rows=sum(len(each.rows.scores) for each in datasets),
        faithful=sum(int(each.rows.is_faithful.sum()) for each in datasets),
        best_threshold=best_threshold,
        **figure_by_name,
    )


def build_figure(draws: FloatArray, *, has_interval: bool) -> Figure:
    value, resampled = number_or_none(draws[0]), draws[1:][~np.isnan(draws[1:])]
    if value is None or not has_interval or not len(resampled):
        return Figure(value, None, None)
    low, high = np.quantile(resampled, [(1.0 - _LEVEL) / 2.0, (1.0 + _LEVEL) / 2.0])
    return Figure(value, float(low), float(high))
