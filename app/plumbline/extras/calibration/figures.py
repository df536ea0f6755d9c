"""Agreement of scores with labels, by data set, as a mean over data sets and pooled, with intervals. Pure, seeded."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, get_args

import numpy as np

from plumbline.extras.calibration.resampling import (
    DatasetRows,
    DrawPlan,
    DrawsByFigure,
    FigureName,
    FloatArray,
    ScoredRows,
    Weighing,
    by_dataset,
    number_or_none,
)
from plumbline.ground.errors import InvalidInput

# A rank score only orders rows: no threshold of 0.5, no calibration.
Scale = Literal["probability", "rank"]

_LEVEL: Final = 0.95
# The score from which a row passes.
_THRESHOLD: Final = 0.5
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
    """Figures of agreement between scores and labels, defined in `weighted`.

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
    brier_base_rate: Figure = _NONE
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
    weighing: Weighing = "balanced",
    scale: Scale = "probability",
    groups: Mapping[str, Collection[str]] = MappingProxyType({}),
    draws: int = 1_000,
    seed: int = 0,
) -> Agreement:
    """Measure agreement, with percentile intervals from `draws` draws of whole clusters within their data set.

    Args:
        scored: the rows; scores in [0, 1] on scale `probability`.
        weighing: `natural`, each row weighs the same in `brier`, `brier_base_rate` and `ece` (and in the pooled
            AUROC and best threshold); `balanced`, each data set does, and each label in it, and data sets with one
            label are left out of the pooled figures. Kappa is always natural: balanced, it would be
            2 * balanced accuracy - 1.
        scale: on `rank`, AUROC and the best balanced accuracy alone.
        groups: data sets by the name of their group; those without rows are ignored.
        draws: at least 1. A draw in which a figure is not defined for a data set (one label was drawn) is left out.
        seed: same seed, same intervals.

    A figure is None where it is not defined: with one label all but the natural `brier`, `brier_base_rate` and `ece`;
    an interval, with one cluster. An interval is that of these data sets, with other documents in them. Resampling
    raises `ece` and `best_balanced_accuracy`, so that their intervals lie high and may miss the value.

    Raises InvalidInput: there are no draws.
    """
    if draws < 1:
        raise InvalidInput(f"expected draws of at least 1, found {draws!r}")
    datasets = by_dataset(scored)
    names = _RANK_FIGURES if scale == "rank" else _FIGURES
    plan = DrawPlan(datasets, names, _THRESHOLD, weighing)
    values = plan.draw(draws, seed)
    both = [each for each in datasets if each.has_both_labels]
    chosen = {name: [each for each in both if each.name in members] for name, members in groups.items()}
    return Agreement(
        by_dataset={each.name: _figures([each], values[each.name], plan.best_threshold(each)) for each in datasets},
        macro=_figures(both, mean_over_datasets(values, both, names)),
        by_group={
            name: _figures(part, mean_over_datasets(values, part, names)) for name, part in chosen.items() if part
        },
        pooled=_figures(plan.pooled_datasets, values[None], plan.best_threshold(None)),
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
