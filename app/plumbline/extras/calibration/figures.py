"""Agreement of scores with labels, by data set, as a mean over data sets and pooled, with intervals. Pure, seeded."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final, Literal, get_args
from zlib import crc32

import numpy as np
import numpy.typing as npt

from plumbline.ground.errors import InvalidInput

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
FigureName = Literal["auroc", "best_balanced_accuracy", "best_threshold", "balanced_accuracy", "brier", "ece"]
# By figure: its value, then that of each draw, shape (1 + draws,); NaN where it is not defined.
DrawsByFigure = Mapping[FigureName, FloatArray]

_FIGURES: Final[tuple[FigureName, ...]] = get_args(FigureName)
# Two balanced accuracies of the same counts, summed in another order, differ by less.
_ROUNDING: Final = 1e-12
_CALIBRATION_BINS: Final = 10
# The score from which a row passes.
_THRESHOLD: Final = 0.5


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
    """The rows of one data set, with its clusters numbered from 0."""

    name: str
    scores: FloatArray
    labels: IntArray
    cluster_of: IntArray
    clusters: int

    @property
    def has_both_labels(self) -> bool:
        return len(np.unique(self.labels)) > 1


def by_dataset(scored: ScoredRows) -> tuple[DatasetRows, ...]:
    """Return the data sets by name."""
    clusters = np.asarray(scored.clusters, dtype=object)
    names, dataset_of = np.unique(np.asarray(scored.datasets, dtype=object), return_inverse=True)
    found = []
    for number, name in enumerate(names.tolist()):
        rows = dataset_of == number
        # Numbered by name, not by place: the order of the rows does not change which clusters are drawn.
        cluster_names, cluster_of = np.unique(clusters[rows], return_inverse=True)
        found.append(DatasetRows(name, scored.scores[rows], scored.labels[rows], cluster_of, len(cluster_names)))
    return tuple(found)


def draw_counts(dataset: DatasetRows, *, draws: int, seed: int) -> Iterator[IntArray]:
    """Yield how often each row counts: once, then as often as it is drawn.

    Clusters are drawn with replacement within their data set (Field & Welsh, JRSS B 2007; the data sets themselves are
    not drawn). The draws of a data set depend on the seed, its name and its clusters alone, so that two tiers on the
    same rows are drawn alike and differences between them are paired.
    """
    yield np.ones_like(dataset.labels)
    generator = np.random.default_rng([seed, crc32(dataset.name.encode("utf-8", "replace"))])
    for _ in range(draws):
        drawn = generator.integers(0, dataset.clusters, size=dataset.clusters)
        yield np.bincount(drawn, minlength=dataset.clusters)[dataset.cluster_of]


def draw_figures(datasets: Sequence[DatasetRows], *, draws: int, seed: int) -> dict[str | None, DrawsByFigure]:
    """Return the figures of every data set, and of all rows together under None."""
    found: dict[str | None, list[FloatArray]] = defaultdict(list)
    scores, labels = (np.concatenate([getattr(each, name) for each in datasets]) for name in ("scores", "labels"))
    formulas: dict[str | None, FigureFormulas] = {}
    for counts in zip(*(draw_counts(each, draws=draws, seed=seed) for each in datasets), strict=True):
        weights: dict[str | None, FloatArray] = {
            each.name: _balance(each.labels, count) for each, count in zip(datasets, counts, strict=True)
        }
        weights[None] = np.concatenate(list(weights.values()))
        if not formulas:
            formulas = {each.name: FigureFormulas(each.scores, each.labels, weights[each.name]) for each in datasets}
            formulas[None] = FigureFormulas(scores, labels, weights[None])
        for name, formula in formulas.items():
            found[name].append(formula.compute(weights[name]))
    return {name: dict(zip(_FIGURES, np.array(rows).T, strict=True)) for name, rows in found.items()}


def _balance(labels: IntArray, counts: IntArray) -> FloatArray:
    """Return weights of a data set's rows, equal for both labels: they sum to 1, or 0 if one label is missing."""
    sums = np.bincount(labels, counts, minlength=2)
    return counts / (2.0 * sums[labels]) if sums.all() else np.zeros(len(labels))


class FigureFormulas:
    """The figures of rows, for weights of them that are the same for both labels."""

    def __init__(self, scores: FloatArray, labels: IntArray, weights: FloatArray) -> None:
        self._scores, self._labels = scores, labels
        self._distinct, self._place = np.unique(scores, return_inverse=True)
        # Bins of about equal weight. Rows of one score share the one that the middle of their weight falls in, so that
        # the order of rows says nothing.
        mass = np.bincount(self._place, weights)
        middle = (np.cumsum(mass) - 0.5 * mass) / (mass.sum() or 1.0)
        self._bin = np.minimum((middle * _CALIBRATION_BINS).astype(np.int64), _CALIBRATION_BINS - 1)[self._place]

    def compute(self, weights: FloatArray) -> FloatArray:
        """Return the figures in the order of their names; NaN where nothing weighs anything.

        AUROC: ties count half (Hanley & McNeil 1982). Balanced accuracy: mean of sensitivity and specificity. Brier
        score: the mean squared difference of score and label (Brier 1950). Expected calibration error: mean over bins,
        by weight, of |share of faithful rows - mean score| (Naeini et al., AAAI 2015; Guo et al., ICML 2017), except
        that bins hold equal mass, not equal width: scores crowd together, and a bin of a few rows measures nothing. It
        is above 0 even for a perfect score, more so the fewer rows there are (Kumar et al., NeurIPS 2019); a resampled
        one is higher still.
        """
        if not weights.any():
            return np.full(len(_FIGURES), np.nan)
        weights = weights / weights.sum()
        faithful, other = (np.bincount(self._place, weights * (self._labels == label)) for label in (1, 0))
        # Each label weighs one half.
        wins = faithful @ (np.cumsum(other) - 0.5 * other)
        accuracies = 0.5 + np.cumsum(other - faithful) - (other - faithful)
        best = np.argmax(accuracies >= accuracies.max() - _ROUNDING)
        at_threshold = np.append(accuracies, 0.5)[np.searchsorted(self._distinct, _THRESHOLD)]
        brier = weights @ np.square(self._scores - self._labels)
        ece = np.abs(np.bincount(self._bin, weights * (self._labels - self._scores))).sum()
        return np.array([4.0 * wins, accuracies[best], self._distinct[best], at_threshold, brier, ece])


# A rank score only orders rows: no threshold of 0.5, no calibration.
Scale = Literal["probability", "rank"]

_LEVEL: Final = 0.95
_RANK_FIGURES: Final[tuple[FigureName, ...]] = ("auroc", "best_balanced_accuracy")


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
    label are left out.
    A figure is None where it is not defined; an interval, with one cluster. An interval is that of these data sets,
    with other documents in them. Resampling raises `ece` and `best_balanced_accuracy`, so that their intervals lie high
    and may miss the value.

    Raises InvalidInput: there are no draws.
    """
    if draws < 1:
        raise InvalidInput(f"expected draws of at least 1, found {draws!r}")
    datasets = by_dataset(scored)
    values = draw_figures(datasets, draws=draws, seed=seed)
    both = [each for each in datasets if each.has_both_labels]
    chosen = {name: [each for each in both if each.name in members] for name, members in groups.items()}
    return Agreement(
        by_dataset={each.name: _figures([each], values[each.name], scale) for each in datasets},
        macro=_macro_figures(both, values, scale),
        by_group={name: _macro_figures(part, values, scale) for name, part in chosen.items() if part},
        pooled=_figures(both, values[None], scale),
        one_label=tuple(each.name for each in datasets if not each.has_both_labels),
    )


def _macro_figures(
    datasets: Sequence[DatasetRows], values: Mapping[str | None, DrawsByFigure], scale: Scale
) -> Figures:
    return replace(_figures(datasets, mean_over_datasets(values, datasets), scale), best_threshold=None)


def mean_over_datasets(values: Mapping[str | None, DrawsByFigure], datasets: Sequence[DatasetRows]) -> DrawsByFigure:
    """Return the mean over data sets in each draw, over those where the figure is defined."""
    if not datasets:
        return {}
    stacked = {name: np.ma.masked_invalid([values[each.name][name] for each in datasets]) for name in _FIGURES}
    return {name: each.mean(axis=0).filled(np.nan) for name, each in stacked.items()}


def _figures(datasets: Sequence[DatasetRows], values: DrawsByFigure, scale: Scale) -> Figures:
    has_interval = any(each.clusters > 1 for each in datasets)
    found = {name: build_figure(draws, has_interval=has_interval) for name, draws in values.items()}
    threshold = found.pop("best_threshold", _NONE).value
    return Figures(
        rows=sum(len(each.labels) for each in datasets),
        faithful=sum(int(each.labels.sum()) for each in datasets),
        best_threshold=threshold,
        **{name: each for name, each in found.items() if scale == "probability" or name in _RANK_FIGURES},
    )


def build_figure(draws: FloatArray, *, has_interval: bool) -> Figure:
    if np.isnan(draws[0]):
        return _NONE
    resampled = draws[1:][~np.isnan(draws[1:])]
    if not has_interval or not len(resampled):
        return Figure(float(draws[0]), None, None)
    low, high = np.quantile(resampled, [(1.0 - _LEVEL) / 2.0, (1.0 + _LEVEL) / 2.0])
    return Figure(float(draws[0]), float(low), float(high))
