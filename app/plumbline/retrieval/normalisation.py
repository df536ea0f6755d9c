"""Scores of one run for one query, made comparable with another run's."""

from collections.abc import Callable, Iterable, Mapping
from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from plumbline.ground.errors import InvalidInput
from plumbline.retrieval.run import Results

FloatArray = npt.NDArray[np.float64]

Norm = Literal["none", "min-max", "max", "sum", "z-score", "rank", "borda"]
NORMS: tuple[Norm, ...] = get_args(Norm)

# Which of two documents with one score comes first; a list of ids has no ties.
TieOrder = Literal["docno_desc", "docno_asc", "input_order"]
TIE_ORDERS: tuple[TieOrder, ...] = get_args(TieOrder)


class Ranked(NamedTuple):
    """One run's documents for one query, best first, with their scores."""

    doc_ids: tuple[str, ...]
    scores: FloatArray


def ranked(results: Results, *, ties: TieOrder = "docno_desc") -> Ranked:
    """Documents best first with their scores.

    A list of ids keeps its order, the first of two equal ids; its scores are derived from the ranks as 1 - i/n for the
    document at position i of n: in (0, 1], equally spaced.
    """
    if not isinstance(results, Mapping):
        doc_ids = tuple(dict.fromkeys(results))
        return Ranked(doc_ids, _falling(len(doc_ids), len(doc_ids)))
    # Sorts are stable, also in reverse.
    best_first = sorted(tie_ordered(results, ties=ties), key=results.__getitem__, reverse=True)
    return Ranked(tuple(best_first), np.array([results[doc_id] for doc_id in best_first], dtype=np.float64))


def tie_ordered(doc_ids: Iterable[str], *, ties: TieOrder) -> list[str]:
    """The documents in the order in which they come where their scores are equal."""
    return list(doc_ids) if ties == "input_order" else sorted(doc_ids, reverse=ties == "docno_desc")


def normalise(scores: FloatArray, *, norm: Norm) -> FloatArray:
    """The scores of one run for one query on a common scale, in the order given.

    Args:
        scores: shape (n,), finite, best first.
        norm: `none`: as they are. `min-max`: (s - min) / (max - min), in [0, 1]. `max`: s / max. `sum`:
            (s - min) / sum(s - min), so that they add up to 1. `z-score`: zero mean, unit (population) variance.
            `rank`: 1 - i/n at position i. `borda`: as `rank`, but with n the number of documents that any run
            retrieved for the query, which one run does not know: `borda_points` gives it.

    Where all scores are equal (so for a single document) there is no scale: `min-max` gives each 1, since nothing is
    better, and not the 0 of a document that was not retrieved (ranx gives 0); `sum` 1/n (ranx 0); `z-score` 0.
    `max` divides by the largest magnitude when no score is positive, so that the order stays.

    Sources: min-max, Lee, SIGIR 1997; sum and z-score (zmuv), Montague & Aslam, CIKM 2001; rank and borda, Renda &
    Straccia, SAC 2003. Equal to ranx 0.3.21 but for the edges named.
    """
    return _SCALE_BY_NORM[norm](scores) if len(scores) else scores


def borda_points(length: int, candidates: int) -> tuple[FloatArray, float]:
    """Points by position for the documents retrieved, and for each one that was not: the mean of those left over.

    In units of the number of candidates, so in [0, 1]; Aslam & Montague, SIGIR 2001 (times `candidates`).
    """
    return _falling(length, candidates), (candidates - length + 1) / (2.0 * candidates)


def checked_norm(norm: str) -> Norm:
    """The norm of that name.

    Raises:
        InvalidInput: there is none.
    """
    for known in NORMS:
        if known == norm:
            return known
    raise InvalidInput(f"unknown normalisation {norm!r}; expected one of {', '.join(NORMS)}")


def _falling(length: int, steps: int) -> FloatArray:
    return np.asarray(1.0 - np.arange(length, dtype=np.float64) / max(1, steps))


def _as_they_are(scores: FloatArray) -> FloatArray:
    return scores


def _by_rank(scores: FloatArray) -> FloatArray:
    return _falling(len(scores), len(scores))


def _by_maximum(scores: FloatArray) -> FloatArray:
    top = float(scores.max())
    divisor = top if top > 0.0 else float(np.abs(scores).max())
    return scores / divisor if divisor > 0.0 else scores


def _by_range(scores: FloatArray) -> FloatArray:
    unit = _within_one(scores)
    spread = unit.max() - unit.min()
    return np.asarray((unit - unit.min()) / spread) if spread > 0.0 else np.ones_like(scores)


def _by_sum(scores: FloatArray) -> FloatArray:
    unit = _within_one(scores)
    above = unit - unit.min()
    total = above.sum()
    return np.asarray(above / total) if total > 0.0 else np.full_like(scores, 1.0 / len(scores))


def _by_deviation(scores: FloatArray) -> FloatArray:
    unit = _within_one(scores)
    if unit.max() == unit.min():
        return np.zeros_like(scores)
    return np.asarray((unit - unit.mean()) / unit.std())


def _within_one(scores: FloatArray) -> FloatArray:
    """The same up to a factor, so that a difference or a square of large scores cannot overflow."""
    peak = float(np.abs(scores).max())
    return scores / peak if peak > 0.0 else scores


_SCALE_BY_NORM: Mapping[Norm, Callable[[FloatArray], FloatArray]] = {
    "none": _as_they_are,
    "min-max": _by_range,
    "max": _by_maximum,
    "sum": _by_sum,
    "z-score": _by_deviation,
    "rank": _by_rank,
    "borda": _by_rank,
}
