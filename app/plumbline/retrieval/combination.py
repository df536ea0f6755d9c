"""Fusion formulas for one query: normalise each run's scores, then combine them into one score per document."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, NamedTuple, get_args

import numpy as np

from plumbline.retrieval.run import FloatArray, Results

Norm = Literal["none", "min-max", "z-score"]
NORMS: tuple[Norm, ...] = get_args(Norm)

# Which of two documents with one score comes first; a list of ids has no ties.
TieOrder = Literal["docno_desc", "docno_asc", "input_order"]
TIE_ORDERS: tuple[TieOrder, ...] = get_args(TieOrder)


class RankedResults(NamedTuple):
    """Documents of one run for one query, best first, with their scores."""

    doc_ids: tuple[str, ...]
    scores: FloatArray


def rank_results(results: Results, *, ties: TieOrder = "docno_desc") -> RankedResults:
    """Return one query's documents with scores, best first; a list of n ids has 1 - i/n at position i, in (0, 1]."""
    if not isinstance(results, Mapping):
        doc_ids = tuple(dict.fromkeys(results))
        return RankedResults(doc_ids, 1.0 - np.arange(len(doc_ids)) / max(1, len(doc_ids)))
    # Sorts are stable, also in reverse.
    best_first = sorted(order_ties(results, ties=ties), key=results.__getitem__, reverse=True)
    return RankedResults(tuple(best_first), np.array([results[doc_id] for doc_id in best_first], dtype=np.float64))


def order_ties(doc_ids: Iterable[str], *, ties: TieOrder) -> list[str]:
    """Return the documents in the order that decides equal scores."""
    return list(doc_ids) if ties == "input_order" else sorted(doc_ids, reverse=ties == "docno_desc")


def normalise(scores: FloatArray, *, norm: Norm) -> FloatArray:
    """Normalise the scores of one run for one query, in the order given.

    Args:
        scores: shape (n,), finite, best first.
        norm: `none`: as they are. `min-max`: (s - min) / (max - min), in [0, 1]. `z-score`: zero mean, unit
            (population) variance.

    Where all scores are equal (so for a single document) there is no scale: `min-max` gives each 1, since nothing is
    better, and not the 0 of a document that was not retrieved (ranx gives 0); `z-score` 0.

    Sources: min-max, Lee, SIGIR 1997; z-score (zmuv), Montague & Aslam, CIKM 2001. Equal to ranx 0.3.21 but for the
    edges named.
    """
    return _SCALE_BY_NORM[norm](scores) if len(scores) else scores


def _by_range(scores: FloatArray) -> FloatArray:
    unit = _within_one(scores)
    spread = unit.max() - unit.min()
    return np.asarray((unit - unit.min()) / spread) if spread > 0.0 else np.ones_like(scores)


def _by_deviation(scores: FloatArray) -> FloatArray:
    unit = _within_one(scores)
    if unit.max() == unit.min():
        return np.zeros_like(scores)
    return np.asarray((unit - unit.mean()) / unit.std())


def _within_one(scores: FloatArray) -> FloatArray:
    """Divide by the largest magnitude, so that a difference or square of large scores cannot overflow."""
    peak = float(np.abs(scores).max())
    return scores / peak if peak > 0.0 else scores


_SCALE_BY_NORM: Mapping[Norm, Callable[[FloatArray], FloatArray]] = {
    "none": lambda scores: scores,
    "min-max": _by_range,
    "z-score": _by_deviation,
}


@dataclass(frozen=True, slots=True)
class Pool:
    """Results of all runs for one query: a row for each run, a column for each document that any run retrieved.

    Args:
        doc_ids: the columns, in the order in which they come where their scores are equal.
        ranks: shape (runs, documents), 1 is the best, 0 is not retrieved.
        scores: same shape, normalised; 0 where a run has none and none was filled in.
    """

    doc_ids: tuple[str, ...]
    ranks: FloatArray
    scores: FloatArray


def pool_rankings(rankings: Sequence[RankedResults], *, norm: Norm, fills_missing: bool, ties: TieOrder) -> Pool:
    """Align the rankings of one query by document; with `fills_missing`, those not retrieved get a run's lowest score.

    A run with nothing for the query is filled in nowhere.
    """
    doc_ids = order_ties(dict.fromkeys(doc_id for ranking in rankings for doc_id in ranking.doc_ids), ties=ties)
    column_by_id = {doc_id: column for column, doc_id in enumerate(doc_ids)}
    columns = [[column_by_id[doc_id] for doc_id in ranking.doc_ids] for ranking in rankings]
    shape = (len(rankings), len(column_by_id))
    ranks, scores = np.zeros(shape), np.zeros(shape)
    for row, (ranking, places) in enumerate(zip(rankings, columns, strict=True)):
        if not places:
            continue
        values = normalise(ranking.scores, norm=norm)
        if fills_missing:
            scores[row] = values.min()
        ranks[row, places] = np.arange(1, len(places) + 1)
        scores[row, places] = values
    return Pool(tuple(doc_ids), ranks, scores)


def _total(contributions: FloatArray) -> FloatArray:
    return np.asarray(np.sort(contributions, axis=0).sum(axis=0))


def _hits(pool: Pool) -> FloatArray:
    return np.asarray(np.count_nonzero(pool.ranks, axis=0), dtype=np.float64)


def _rrf(pool: Pool, weights: FloatArray, params: Mapping[str, float]) -> FloatArray:
    return _total(np.where(pool.ranks > 0.0, weights / (params["k"] + np.maximum(pool.ranks, 1.0)), 0.0))


def _borda(pool: Pool, weights: FloatArray, _: Mapping[str, float]) -> FloatArray:
    candidates = len(pool.doc_ids)
    points = np.zeros_like(pool.ranks)
    for row, ranks in enumerate(pool.ranks):
        length = int(np.count_nonzero(ranks))
        if length:
            points[row] = np.where(ranks > 0.0, candidates + 1.0 - ranks, (candidates - length + 1.0) / 2.0)
    return _total(points * weights)


# Each gives the fused score of a pool's columns, whatever the order of the runs; weights have the shape (runs, 1).
FORMULAS: Mapping[str, Callable[[Pool, FloatArray, Mapping[str, float]], FloatArray]] = MappingProxyType(
    {
        "rrf": _rrf,
        "wsum": lambda pool, weights, _: _total(pool.scores * weights),
        "combmnz": lambda pool, _weights, _: _total(pool.scores) * _hits(pool),
        "borda": _borda,
    }
)
# These read the ranks alone.
RANK_BASED = frozenset({"rrf", "borda"})
# These read the weights.
WEIGHTED = RANK_BASED | {"wsum"}
# Parameters of a method with their default, 0 or more.
PARAMS: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {"rrf": {"k": 60.0}}  # Cormack, Clarke & Büttcher, SIGIR 2009
)
