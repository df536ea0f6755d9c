"""Weights of a fusion chosen on some queries and tried on others."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from plumbline.ground.errors import InvalidInput
from plumbline.retrieval.combination import WEIGHTED
from plumbline.retrieval.fuse import Recipe, combine_queries, pool_queries, resolve, with_weights
from plumbline.retrieval.normalisation import FloatArray
from plumbline.retrieval.run import Run

# Value of each query, in the order of the ids handed in; higher is better.
Objective = Callable[[Run, Sequence[str]], FloatArray]

# Fusions and evaluations of all queries in one call: minutes for thousands of queries. Four runs in steps of 0.1: 286.
_MOST_POINTS = 2_000
# Two means this close differ by rounding.
_SCORE_NOISE = 1e-12
_SMALLEST_STEP = 1e-6


@dataclass(frozen=True, slots=True)
class Tuning:
    """Weights found, what they score where they were found, and what such weights score elsewhere.

    Args:
        weights: best over all queries; they add up to 1.
        in_sample_score: mean of these weights over the queries they were chosen on; flatters.
        held_out_score: mean over all queries, each valued with weights that were chosen without its fold.
        equal_score: mean with equal weights, which needed no tuning; the one to beat.
        fold_weights: what each fold's other queries chose; far apart means that the weights are not to be trusted.
        point_count: weights tried.
        query_ids: in what order the queries were dealt into folds: the i-th went into fold i mod `folds`.
    """

    weights: tuple[float, ...]
    in_sample_score: float
    held_out_score: float
    equal_score: float
    fold_weights: tuple[tuple[float, ...], ...]
    point_count: int
    query_ids: tuple[str, ...]
    recipe: Recipe


def tune_weights(
    runs: Sequence[Run],
    objective: Objective,
    *,
    query_ids: Sequence[str] | None = None,
    method: str = "wsum",
    norm: str | None = None,
    params: Mapping[str, float] | None = None,
    missing: str = "zero",
    ties: str = "docno_desc",
    depth: int | None = None,
    folds: int = 5,
    step: float = 0.1,
    seed: int = 0,
) -> Tuning:
    """The best weights of a grid over the simplex, with their score on queries that had no say in them.

    Args:
        objective: called once for each point of the grid, with the fused run and all queries.
        query_ids: the queries to tune on (those with judgments); all of the runs when None.
        folds: from 2 to the number of queries.
        step: 1 / step is a whole number; the grid then has C(1/step + runs - 1, runs - 1) points, none lost to
            rounding (ranx keeps 62 of 66 for three runs: it compares sums of floats with 1).
        seed: deals the queries into folds; their order in the runs does not matter.

    Of points that score the same the one nearest to equal weights is taken.

    Raises:
        InvalidInput: an argument is out of its range, the grid is too large, or the objective gave other than one
            finite value for each query.
    """
    recipe = resolve(len(runs), method=method, norm=norm, params=params, missing=missing, ties=ties, depth=depth)
    if method not in WEIGHTED:
        raise InvalidInput(f"{method} takes no weights; expected one of {', '.join(sorted(WEIGHTED))}")
    grid = simplex_grid(len(runs), step=step)
    shuffled = _shuffled(query_ids if query_ids is not None else _queries_of(runs), folds=folds, seed=seed)
    pools = pool_queries(runs, recipe)

    def valued(weights: Sequence[float]) -> FloatArray:
        fused = Run(method, combine_queries(pools, with_weights(recipe, weights)))
        return _checked_values(objective(fused, shuffled), len(shuffled))

    values = np.stack([valued(weights) for weights in grid])
    best = _best_point(values, grid)
    chosen, held_out = _cross_validated(values, grid, folds=folds)
    return Tuning(
        weights=grid[best],
        in_sample_score=float(values[best].mean()),
        held_out_score=float(held_out.mean()),
        equal_score=float(valued((1.0 / len(runs),) * len(runs)).mean()),
        fold_weights=tuple(grid[point] for point in chosen),
        point_count=len(grid),
        query_ids=tuple(shuffled),
        recipe=with_weights(recipe, grid[best]),
    )


def simplex_grid(run_count: int, *, step: float) -> tuple[tuple[float, ...], ...]:
    """Every way to share 1 among the runs in whole steps, counted in integers.

    Raises:
        InvalidInput: 1 / step is not a whole number, or the grid is too large.
    """
    if not (_SMALLEST_STEP <= step <= 1.0 and abs(1.0 / step - round(1.0 / step)) <= _SCORE_NOISE / step):
        raise InvalidInput(f"step must be 1 divided by a whole number, such as 0.1, found {step!r}")
    parts = round(1.0 / step)
    point_count = math.comb(parts + run_count - 1, run_count - 1)
    if point_count > _MOST_POINTS:
        raise InvalidInput(
            f"step {step!r} gives {point_count} weights for {run_count} runs; take a larger one, at most {_MOST_POINTS}"
        )
    return tuple(tuple(part / parts for part in shares) for shares in _compositions(parts, run_count))


def _compositions(total: int, places: int) -> Iterator[tuple[int, ...]]:
    if places == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in _compositions(total - first, places - 1):
            yield (first, *rest)


def _queries_of(runs: Sequence[Run]) -> list[str]:
    return list(dict.fromkeys(query_id for run in runs for query_id in run.results))


def _shuffled(query_ids: Sequence[str], *, folds: int, seed: int) -> list[str]:
    ordered = sorted(set(query_ids))
    least = 2
    if not least <= folds <= len(ordered):
        raise InvalidInput(f"folds must lie between 2 and the number of queries, {len(ordered)}; found {folds!r}")
    if seed < 0:
        raise InvalidInput(f"seed must not be negative, found {seed!r}")
    return [ordered[place] for place in np.random.default_rng(seed).permutation(len(ordered))]


def _checked_values(values: npt.ArrayLike, query_count: int) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (query_count,) or not np.isfinite(array).all():
        raise InvalidInput(f"the objective must give one finite value for each of {query_count} queries")
    return array


def _cross_validated(
    values: FloatArray, grid: Sequence[tuple[float, ...]], *, folds: int
) -> tuple[list[int], FloatArray]:
    """The point that each fold's other queries choose, and every query's value at the point chosen without it."""
    fold_of = np.arange(values.shape[1]) % folds
    held_out = np.empty(values.shape[1])
    chosen = []
    for fold in range(folds):
        point = _best_point(values[:, fold_of != fold], grid)
        held_out[fold_of == fold] = values[point, fold_of == fold]
        chosen.append(point)
    return chosen, held_out


def _best_point(values: FloatArray, grid: Sequence[tuple[float, ...]]) -> int:
    means = values.mean(axis=1)
    best = [point for point, mean in enumerate(means) if mean >= means.max() - _SCORE_NOISE]
    return min(best, key=lambda point: sum(weight * weight for weight in grid[point]))
