"""Fuse several runs into one, and tune the weights of a fusion by cross-validation."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from statistics import median_low
from typing import Any, Literal, get_args

import numpy as np

from plumbline.ground.deadline import within_deadline
from plumbline.ground.errors import InvalidInput
from plumbline.ground.texts import CodedText
from plumbline.retrieval.combination import (
    FORMULAS,
    NORMS,
    PARAMS,
    RANK_BASED,
    TIE_ORDERS,
    WEIGHTED,
    Norm,
    Pool,
    RankedResults,
    TieOrder,
    pool_rankings,
    rank_results,
)
from plumbline.retrieval.conventions import DEFAULT_CONVENTIONS, Conventions, require_choice
from plumbline.retrieval.evaluation import evaluate
from plumbline.retrieval.measure import parse_measure
from plumbline.retrieval.run import FloatArray, Qrels, Run, check_scores

Missing = Literal["zero", "min"]
METHODS: tuple[str, ...] = tuple(FORMULAS)
MISSING: tuple[Missing, ...] = get_args(Missing)

# A choice, not a fit: BM25 tops out near 20 and a cosine at 1, two cosines stay within a factor of 2.
_SCALE_RATIO = 3.0


@dataclass(frozen=True, slots=True)
class Recipe:
    """All resolved parameters of a fusion; `norm` is `none` for methods that read ranks alone."""

    method: str
    norm: Norm
    weights: tuple[float, ...]
    params: Mapping[str, float]
    missing: Missing
    ties: TieOrder
    depth: int | None


@dataclass(frozen=True, slots=True)
class Fusion:
    """A fused run (scores by doc_id, best first), its recipe, and warnings for the caller."""

    run: Run
    recipe: Recipe
    warnings: tuple[str, ...]


def fuse(runs: Sequence[Run], *, name: str | None = None, **options: Any) -> Fusion:
    """Fuse the runs over the queries of any of them; queries are paired by id, never by position.

    A method that reads scores takes 1 - i/n for position i of a list of n ids.

    Args:
        runs: at least one.
        name: of the fused run; the method's when not given.
        options: as in `resolve`.

    Raises InvalidInput: an argument is out of its range, or scores are too large to be added up.
    """
    recipe = resolve(len(runs), **options)
    # One pool at a time: all of them together are larger than the runs.
    results = _combine_queries(_pools(runs, recipe), recipe)
    fused = Run(name if name is not None else recipe.method, results)
    return Fusion(fused, recipe, tuple(_warnings(runs, recipe, options.get("norm"))))


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
    """Check the options of a fusion and return the recipe they mean.

    Args:
        method: one of `METHODS`.
        norm: one of `NORMS`; `min-max` when not given. No effect on methods that read ranks alone.
        weights: one for each run, not negative, not all 0, used as they are (not made to add up to 1).
        params: `k` of rrf (60).
        missing: what a method that reads scores takes for a document that a run did not retrieve: `zero`, nothing, or
            `min`, the lowest score of that run for that query. `zero` is above the mean of a z-score: take
            `min` there. combmnz counts runs that retrieved it.
        ties: order of equal scores, in what is read and in what is returned; `docno_desc` is trec_eval's.
        depth: documents kept for each query; all when None.

    Raises InvalidInput: an argument is out of its range.
    """
    if run_count < 1:
        raise InvalidInput(CodedText("run_needed"))
    require_choice(method, METHODS, "method")
    if depth is not None and depth < 1:
        raise InvalidInput(CodedText("depth_wrong", found=depth))
    known_norm = require_choice("min-max" if norm is None else norm, NORMS, CodedText("normalisation"))
    return Recipe(
        method=method,
        norm="none" if method in RANK_BASED else known_norm,
        weights=_check_weights(weights, method, run_count),
        params=_check_params(params or {}, method),
        missing=require_choice(missing, MISSING, "missing"),
        ties=require_choice(ties, TIE_ORDERS, "ties"),
        depth=depth,
    )


def _pools(runs: Sequence[Run], recipe: Recipe) -> Iterator[tuple[str, Pool]]:
    for query_id in within_deadline(dict.fromkeys(query_id for run in runs for query_id in run.results)):
        pool = pool_rankings(
            [_rank_query(query_id, run, recipe.ties) for run in runs],
            norm=recipe.norm,
            fills_missing=recipe.missing == "min",
            ties=recipe.ties,
        )
        yield query_id, pool


def _rank_query(query_id: str, run: Run, ties: TieOrder) -> RankedResults:
    results = run.results.get(query_id, ())
    if isinstance(results, Mapping):
        check_scores(query_id, results)
    return rank_results(results, ties=ties)


def _combine_queries(pools: Iterable[tuple[str, Pool]], recipe: Recipe) -> dict[str, dict[str, float]]:
    weights = np.array(recipe.weights, dtype=np.float64)[:, None]
    with np.errstate(over="ignore", invalid="ignore"):
        return {query_id: _combine_query(query_id, pool, weights, recipe) for query_id, pool in within_deadline(pools)}


def _combine_query(query_id: str, pool: Pool, weights: FloatArray, recipe: Recipe) -> dict[str, float]:
    if not pool.doc_ids:
        return {}
    scores = FORMULAS[recipe.method](pool, weights, recipe.params)
    if not np.isfinite(scores).all():
        raise InvalidInput(CodedText("scores_too_large", name=query_id[:80]))
    # The columns are in the order of ties, and the sort is stable.
    best_first = np.argsort(-scores, kind="stable")[: recipe.depth].tolist()
    return dict(zip([pool.doc_ids[column] for column in best_first], scores[best_first].tolist(), strict=True))


def _check_weights(weights: Sequence[float] | None, method: str, run_count: int) -> tuple[float, ...]:
    if weights is None:
        return (1.0,) * run_count
    if method not in WEIGHTED:
        raise InvalidInput(_no_weights(method))
    if len(weights) != run_count:
        raise InvalidInput(CodedText("weights_expected", count=run_count, found=len(weights)))
    if not all(math.isfinite(weight) and weight >= 0.0 for weight in weights) or not any(weights):
        raise InvalidInput(CodedText("weights_wrong", found=str(list(weights))))
    return tuple(float(weight) for weight in weights)


def _no_weights(method: str) -> CodedText:
    return CodedText("weights_not_taken", method=method, names=sorted(WEIGHTED))


def _check_params(params: Mapping[str, float], method: str) -> Mapping[str, float]:
    defaults = PARAMS.get(method, {})
    for key, value in params.items():
        if key not in defaults:
            hint = CodedText("expected_are", names=tuple(defaults)) if defaults else CodedText("takes_none")
            raise InvalidInput(CodedText("parameter_unknown", method=method, name=key, hint=hint))
        if not (math.isfinite(value) and value >= 0.0):
            raise InvalidInput(CodedText("parameter_wrong", name=key, method=method, found=value))
    return {**defaults, **{key: float(value) for key, value in params.items()}}


def _warnings(runs: Sequence[Run], recipe: Recipe, norm: str | None) -> Iterator[str]:
    """Yield one line for each thing that the caller may not have meant."""
    query_count = len({query_id for run in runs for query_id in run.results})
    for run in runs:
        if len(run.results) < query_count:
            lacking = query_count - len(run.results)
            yield CodedText("run_lacks_queries", name=run.name[:80], count=lacking, all=query_count)
    if recipe.method in RANK_BASED:
        if norm not in (None, "none"):
            yield CodedText("norm_without_effect", norm=norm, method=recipe.method)
        return
    for run in runs:
        unscored = sum(not isinstance(results, Mapping) for results in run.results.values())
        if unscored:
            yield CodedText("run_without_scores", name=run.name[:80], count=unscored)
    if recipe.norm == "none":
        yield from _scale_warning(runs, recipe.method)


def _scale_warning(runs: Sequence[Run], method: str) -> Iterator[str]:
    """Warn if the runs' scales (median over queries of the largest |score|) differ by a factor above 3."""
    scales = []
    for run in runs:
        found = [results for results in run.results.values() if len(results)]
        peaks = [max(map(abs, each.values())) if isinstance(each, Mapping) else 1.0 for each in found]
        if peaks:
            scales.append((median_low(peaks), run.name))
    scales.sort()
    if len(scales) > 1 and scales[-1][0] > _SCALE_RATIO * scales[0][0]:
        (low, low_name), (high, high_name) = scales[0], scales[-1]
        one, other = high_name[:80], low_name[:80]
        yield CodedText("scales_differ", method=method, one=one, high=high, other=other, low=low)


# Fusions and evaluations of all queries in one call: minutes for thousands of queries. Four runs in steps of 0.1: 286.
_MOST_POINTS = 2_000
# Two means this close differ by rounding.
_SCORE_NOISE = 1e-12
_SMALLEST_STEP = 1e-6


@dataclass(frozen=True, slots=True)
class Tuning:
    """Tuned weights with the means of the measure.

    Args:
        weights: best over all queries; they add up to 1.
        in_sample_score: mean of these weights over the queries they were chosen on; flatters.
        held_out_score: mean over all queries, each with weights that were chosen without its fold.
        equal_score: mean with equal weights, which needed no tuning; the one to beat.
    """

    weights: tuple[float, ...]
    in_sample_score: float
    held_out_score: float
    equal_score: float


def tune_weights(
    runs: Sequence[Run],
    qrels: Qrels,
    measure: str,
    *,
    conventions: Conventions = DEFAULT_CONVENTIONS,
    folds: int = 5,
    step: float = 0.1,
    seed: int = 0,
    weights: Sequence[float] | None = None,
    **options: Any,
) -> Tuning:
    """Return the weights of a grid over the simplex that are best by a measure, with their cross-validated score.

    Args:
        qrels: judgments of the queries to tune on.
        folds: from 2 to the number of queries.
        step: 1 / step is a whole number; the grid then has C(1/step + runs - 1, runs - 1) points, none lost to
            rounding (ranx keeps 62 of 66 for three runs: it compares sums of floats with 1).
        seed: deals the queries into folds; their order in the judgments does not matter.
        options: of the fusion, as in `resolve`; the method is `wsum` unless given.

    Of points that score the same the one nearest to equal weights is taken.

    Raises InvalidInput: an argument is out of its range, the grid is too large, or the conventions leave queries out.
    """
    if weights is not None:
        raise InvalidInput(CodedText("weights_or_tuning"), place="weights")
    recipe = resolve(len(runs), **{"method": "wsum", **options})
    if recipe.method not in WEIGHTED:
        raise InvalidInput(_no_weights(recipe.method))
    text, grid = str(parse_measure(measure)), simplex_grid(len(runs), step=step)
    judged = {query: qrels[query] for query in _shuffle(qrels, folds=folds, seed=seed)}
    with np.errstate(over="ignore", invalid="ignore"):
        pools = list(_pools(runs, recipe))

    def value_weights(weights: tuple[float, ...]) -> FloatArray:
        fused = Run(recipe.method, _combine_queries(pools, replace(recipe, weights=weights)))
        values = evaluate(judged, fused, [text], conventions=conventions).values[text]
        if len(values) < len(judged):
            raise InvalidInput(CodedText("tuning_leaves_out", count=len(judged), found=len(values)))
        return values

    values = np.stack([value_weights(weights) for weights in grid])
    best = _best_point(values, grid)
    fold_of = np.arange(len(judged)) % folds
    held_out = np.empty(len(judged))
    for fold in range(folds):
        point = _best_point(values[:, fold_of != fold], grid)
        held_out[fold_of == fold] = values[point, fold_of == fold]
    return Tuning(
        weights=grid[best],
        in_sample_score=float(values[best].mean()),
        held_out_score=float(held_out.mean()),
        equal_score=float(value_weights((1.0 / len(runs),) * len(runs)).mean()),
    )


def simplex_grid(run_count: int, *, step: float) -> tuple[tuple[float, ...], ...]:
    """Return every way to share 1 among the runs in whole steps, counted in integers; raise InvalidInput."""
    if not (_SMALLEST_STEP <= step <= 1.0 and abs(1.0 / step - round(1.0 / step)) <= _SCORE_NOISE / step):
        raise InvalidInput(CodedText("step_wrong", found=step))
    parts = round(1.0 / step)
    point_count = math.comb(parts + run_count - 1, run_count - 1)
    if point_count > _MOST_POINTS:
        raise InvalidInput(
            CodedText("step_too_small", step=step, found=point_count, runs=run_count, limit=_MOST_POINTS)
        )
    # Bars among stars: what lies between two bars is a run's share.
    places = parts + run_count - 1
    bars = ((-1, *chosen, places) for chosen in combinations(range(places), run_count - 1))
    return tuple(tuple((right - left - 1) / parts for left, right in pairwise(each)) for each in bars)


def _shuffle(query_ids: Iterable[str], *, folds: int, seed: int) -> list[str]:
    ordered = sorted(set(query_ids))
    least = 2
    if not least <= folds <= len(ordered):
        raise InvalidInput(CodedText("folds_wrong", limit=len(ordered), found=folds))
    if seed < 0:
        raise InvalidInput(CodedText("seed_negative", found=seed))
    return [ordered[place] for place in np.random.default_rng(seed).permutation(len(ordered))]


def _best_point(values: FloatArray, grid: Sequence[tuple[float, ...]]) -> int:
    means = values.mean(axis=1)
    best = [point for point, mean in enumerate(means) if mean >= means.max() - _SCORE_NOISE]
    return min(best, key=lambda point: sum(weight * weight for weight in grid[point]))
