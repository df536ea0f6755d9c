"""Several runs made into one."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median_low
from typing import Literal, TypeVar, get_args

import numpy as np

from plumbline.ground.errors import InvalidInput
from plumbline.retrieval.combination import FORMULAS, MAX_DUELISTS, PARAMS, RANK_BASED, WEIGHTED, Pool, combine, pooled
from plumbline.retrieval.measure import quoted
from plumbline.retrieval.normalisation import TIE_ORDERS, FloatArray, Norm, Ranked, TieOrder, checked_norm, ranked
from plumbline.retrieval.run import Results, Run

Missing = Literal["zero", "min"]
_Choice = TypeVar("_Choice", bound=str)
METHODS: tuple[str, ...] = tuple(FORMULAS)
MISSING: tuple[Missing, ...] = get_args(Missing)

# A choice, not a fit: BM25 tops out near 20 and a cosine at 1, two cosines stay within a factor of 2.
_SCALE_RATIO = 3.0
# Least and most that each parameter may be.
_BOUNDS: Mapping[str, tuple[float, float]] = {
    "k": (0.0, math.inf),
    "phi": (0.0, 1.0),
    "gamma": (0.0, math.inf),
    "sigma": (0.0, 1.0),
}


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that decides a fusion, resolved.

    Args:
        norm: `none` for the methods that read ranks alone.
        weights: one for each run; all 1 when none were given.
    """

    method: str
    norm: Norm
    weights: tuple[float, ...]
    params: Mapping[str, float]
    missing: Missing
    ties: TieOrder
    depth: int | None


@dataclass(frozen=True, slots=True)
class Fusion:
    """A fused run (scores by doc_id, best first), how it was made, and what the caller should know of it."""

    run: Run
    recipe: Recipe
    warnings: tuple[str, ...]


def fuse(
    runs: Sequence[Run],
    *,
    method: str,
    norm: str | None = None,
    weights: Sequence[float] | None = None,
    params: Mapping[str, float] | None = None,
    missing: str = "zero",
    ties: str = "docno_desc",
    depth: int | None = None,
    name: str | None = None,
) -> Fusion:
    """The runs as one, over the queries of any of them; queries are paired by id, never by position.

    Args:
        runs: at least one. A method that reads scores takes 1 - i/n for position i of a list of n ids.
        method: one of `METHODS`.
        norm: one of `NORMS`; `min-max` when not given. No effect on methods that read ranks alone.
        weights: one for each run, not negative, not all 0, used as they are (not made to add up to 1).
        params: `k` of rrf (60), `phi` of rbc (0.8), `gamma` of combgmnz (1), `sigma` of logn_isr (1).
        missing: what a method that reads scores takes for a document that a run did not retrieve: `zero`, nothing (the
            minimum, median and mean are over the runs that retrieved it), or `min`, the lowest score of that run for
            that query. `zero` is above the mean of a z-score: take `min` there. combmnz counts runs that retrieved it.
        ties: order of equal scores, in what is read and in what is returned; `docno_desc` is trec_eval's.
        depth: documents kept for each query; all when None.
        name: of the fused run; the method's when not given.

    Raises:
        InvalidInput: an argument is out of its range, scores too large to be added up, or more than 2,000 documents for
            one query with condorcet.
    """
    recipe = resolve(
        len(runs), method=method, norm=norm, weights=weights, params=params, missing=missing, ties=ties, depth=depth
    )
    # One pool at a time: all of them together are larger than the runs.
    results = _combined_all(_pools(runs, recipe), recipe)
    fused = Run(name if name is not None else method, results)
    return Fusion(fused, recipe, tuple(_warnings(runs, recipe, norm)))


def resolve(
    run_count: int,
    *,
    method: str,
    norm: str | None = None,
    weights: Sequence[float] | None = None,
    params: Mapping[str, float] | None = None,
    missing: str = "zero",
    ties: str = "docno_desc",
    depth: int | None = None,
) -> Recipe:
    """The recipe that these arguments of `fuse` mean, checked."""
    if run_count < 1:
        raise InvalidInput("fusion needs at least one run, found none")
    if method not in FORMULAS:
        raise InvalidInput(f"unknown fusion method {method!r}; expected one of {', '.join(METHODS)}")
    if depth is not None and depth < 1:
        raise InvalidInput(f"depth must be at least 1, found {depth!r}")
    known_norm = checked_norm("min-max" if norm is None else norm)
    return Recipe(
        method=method,
        norm="none" if method in RANK_BASED else known_norm,
        weights=_checked_weights(weights, method, run_count),
        params=_checked_params(params or {}, method),
        missing=_one_of(missing, MISSING, "missing"),
        ties=_one_of(ties, TIE_ORDERS, "ties"),
        depth=depth,
    )


def pool_queries(runs: Sequence[Run], recipe: Recipe) -> Mapping[str, Pool]:
    """What the runs say, side by side, by query_id; the part of a fusion that does not depend on the weights."""
    with np.errstate(over="ignore", invalid="ignore"):
        return dict(_pools(runs, recipe))


def _pools(runs: Sequence[Run], recipe: Recipe) -> Iterator[tuple[str, Pool]]:
    nothing = Ranked((), np.empty(0))
    for query_id in dict.fromkeys(query_id for run in runs for query_id in run.results):
        pool = pooled(
            [ranked(run.results[query_id], ties=recipe.ties) if query_id in run.results else nothing for run in runs],
            norm=recipe.norm,
            fills_missing=recipe.missing == "min",
            ties=recipe.ties,
        )
        if recipe.method == "condorcet" and len(pool.doc_ids) > MAX_DUELISTS:
            raise InvalidInput(
                f"condorcet takes at most {MAX_DUELISTS} documents for a query, the runs have {len(pool.doc_ids)} for "
                f"{quoted(query_id)}; cut the runs first, or choose rrf"
            )
        yield query_id, pool


def combine_queries(pools: Mapping[str, Pool], recipe: Recipe) -> dict[str, dict[str, float]]:
    """Fused scores by doc_id, best first, by query_id."""
    return _combined_all(pools.items(), recipe)


def _combined_all(pools: Iterable[tuple[str, Pool]], recipe: Recipe) -> dict[str, dict[str, float]]:
    weights = np.array(recipe.weights, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        return {query_id: _combined(query_id, pool, weights, recipe) for query_id, pool in pools}


def _combined(query_id: str, pool: Pool, weights: FloatArray, recipe: Recipe) -> dict[str, float]:
    if not pool.doc_ids:
        return {}
    scores = combine(pool, weights, method=recipe.method, params=recipe.params)
    if not np.isfinite(scores).all():
        raise InvalidInput(
            f"scores of query {query_id[:80]!r} are too large to be added up; choose a normalisation such as 'min-max'"
        )
    # The columns are in the order of ties, and the sort is stable.
    best_first = np.argsort(-scores, kind="stable")[: recipe.depth].tolist()
    return dict(zip([pool.doc_ids[column] for column in best_first], scores[best_first].tolist(), strict=True))


def with_weights(recipe: Recipe, weights: Sequence[float]) -> Recipe:
    """The same recipe with other weights."""
    return replace(recipe, weights=_checked_weights(weights, recipe.method, len(recipe.weights)))


def _checked_weights(weights: Sequence[float] | None, method: str, run_count: int) -> tuple[float, ...]:
    if weights is None:
        return (1.0,) * run_count
    if method not in WEIGHTED:
        raise InvalidInput(f"{method} takes no weights; expected one of {', '.join(sorted(WEIGHTED))} with weights")
    if len(weights) != run_count:
        raise InvalidInput(f"expected one weight for each of {run_count} runs, found {len(weights)}")
    if not all(math.isfinite(weight) and weight >= 0.0 for weight in weights) or not any(weights):
        raise InvalidInput(f"weights must be finite, not negative and not all 0, found {list(weights)}")
    return tuple(float(weight) for weight in weights)


def _checked_params(params: Mapping[str, float], method: str) -> Mapping[str, float]:
    defaults = PARAMS.get(method, {})
    for key, value in params.items():
        if key not in defaults:
            wanted = f"expected {', '.join(defaults)}" if defaults else "it takes none"
            raise InvalidInput(f"{method} has no parameter {key!r}; {wanted}")
        least, most = _BOUNDS[key]
        if not (math.isfinite(value) and least <= value <= most):
            raise InvalidInput(
                f"parameter {key!r} of {method} must lie between {least:g} and {most:g}, found {value!r}"
            )
    return {**defaults, **{key: float(value) for key, value in params.items()}}


def _one_of(value: str, known: Sequence[_Choice], what: str) -> _Choice:
    for each in known:
        if each == value:
            return each
    raise InvalidInput(f"unknown {what} {value!r}; expected one of {', '.join(known)}")


def _warnings(runs: Sequence[Run], recipe: Recipe, norm: str | None) -> Iterator[str]:
    """What the caller may not have meant, one line each."""
    query_count = len({query_id for run in runs for query_id in run.results})
    for run in runs:
        if len(run.results) < query_count:
            lacking = query_count - len(run.results)
            yield f"run {run.name[:80]!r} has no results for {lacking} of {query_count} queries; the others decide them"
    if recipe.method in RANK_BASED:
        if norm not in (None, "none"):
            yield f"normalisation {norm!r} has no effect on {recipe.method}, which reads ranks alone"
        return
    for run in runs:
        unscored = sum(not isinstance(results, Mapping) for results in run.results.values())
        if unscored:
            yield f"run {run.name[:80]!r} lists ids without scores for {unscored} queries; took 1 - i/n by position"
    if recipe.norm == "none":
        yield from _scale_warning(runs, recipe.method)


def _scale_warning(runs: Sequence[Run], method: str) -> Iterator[str]:
    """A run's scale is the median over its queries of the largest |score|; a factor above 3 between two is a mix."""
    scales = sorted(
        (median_low([_peak(results) for results in run.results.values() if len(results)]), run.name)
        for run in runs
        if any(len(results) for results in run.results.values())
    )
    if len(scales) > 1 and scales[-1][0] > _SCALE_RATIO * scales[0][0]:
        (low, low_name), (high, high_name) = scales[0], scales[-1]
        yield (
            f"{method} mixes raw scores of different scales: run {high_name[:80]!r} tops out near {high:.3g}, "
            f"run {low_name[:80]!r} near {low:.3g}; choose a normalisation"
        )


def _peak(results: Results) -> float:
    return max(abs(score) for score in results.values()) if isinstance(results, Mapping) else 1.0
