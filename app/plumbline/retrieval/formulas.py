"""Formulas of the measures, vectorised over all queries and rows of judged documents.

Notation: h(k) relevant documents among the first k; R relevant documents judged; n(k) unique documents among the
first k. Every value but a count lies in [0, 1] and is 0 where its denominator is 0. trec_eval's name of a measure is
given where it has one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from plumbline.ground.errors import InvalidInput
from plumbline.ground.texts import CodedText
from plumbline.retrieval.conventions import Conventions
from plumbline.retrieval.measure import Measure
from plumbline.retrieval.ranking import RankedRows, Rankings, precision_at_hits
from plumbline.retrieval.run import FloatArray, IntArray

# 2^grade must leave room for a sum over all documents.
_MAX_EXPONENT: Final = 512


@dataclass(frozen=True, slots=True)
class MeasureInputs:
    """Rankings under one relevance level. relevant: rows with a relevant document. total: R per query."""

    rankings: Rankings
    conventions: Conventions
    relevant: RankedRows
    total: FloatArray

    def hits(self, k: int | IntArray | None) -> FloatArray:
        """Return h(k) per query; k may be given per query."""
        per_row = k[self.relevant.query] if isinstance(k, np.ndarray) else k
        return self.rankings.per_query(self.relevant.query[self.relevant.within(per_row)])

    def summed(self, rows: RankedRows, weights: FloatArray) -> FloatArray:
        """Sum the weights per query."""
        return self.rankings.per_query(rows.query, weights)


_Formula = Callable[[MeasureInputs, Measure], FloatArray]


def build_inputs(rankings: Rankings, conventions: Conventions) -> MeasureInputs:
    """Decide relevance: a grade of at least `rel_level`."""
    level = conventions.rel_level
    total = rankings.per_query(rankings.pool_query[rankings.pool_grade >= level])
    return MeasureInputs(rankings, conventions, rankings.rows.where(rankings.rows.grade >= level), total)


def compute_measure(measure: Measure, inputs: MeasureInputs) -> FloatArray:
    """Compute the measure for every query, shape (queries,); raise InvalidInput where it is not defined."""
    return _FORMULAS[measure.name](inputs, measure)


def _recall(inputs: MeasureInputs, measure: Measure) -> FloatArray:
    """Return h(k) / R; trec_eval `recall`, `set_recall` without cutoff."""
    return _ratio(inputs.hits(measure.k), inputs.total)


def _capped_recall(inputs: MeasureInputs, measure: Measure) -> FloatArray:
    """Return h(k) / min(R, k); BEIR's R_cap."""
    return _ratio(inputs.hits(measure.k), _cap(inputs.total, measure.k))


def _precision(inputs: MeasureInputs, measure: Measure) -> FloatArray:
    """Return h(k) / k, however few were retrieved; trec_eval `P`."""
    return inputs.hits(measure.k) / float(measure.k or 1)


def _precision_retrieved(inputs: MeasureInputs, measure: Measure) -> FloatArray:
    """Return h(k) / n(k); without cutoff trec_eval `set_P`."""
    return _ratio(inputs.hits(measure.k), inputs.rankings.retrieved_within(measure.k))


def _success(inputs: MeasureInputs, measure: Measure) -> FloatArray:
    """Return 1 if h(k) > 0, else 0; trec_eval `success`."""
    return (inputs.hits(measure.k) > 0).astype(np.float64)


def _reciprocal_rank(inputs: MeasureInputs, measure: Measure) -> FloatArray:
    """Return 1 / rank of the first relevant document, 0 beyond the cutoff; trec_eval `recip_rank`."""
    rows = inputs.relevant
    queries, starts = np.unique(rows.query, return_index=True)
    values = np.zeros(len(inputs.total))
    values[queries] = rows.within(measure.k)[starts] / rows.rank[starts]
    return values


def _f1_retrieved(inputs: MeasureInputs, measure: Measure) -> FloatArray:
    """Return 2 P R / (P + R) = 2 h(k) / (n(k) + R); without cutoff trec_eval `set_F`."""
    return _ratio(2 * inputs.hits(measure.k), inputs.total + inputs.rankings.retrieved_within(measure.k))


def _r_precision(inputs: MeasureInputs, measure: Measure) -> FloatArray:
    """Return h(R) / R; trec_eval `Rprec`."""
    return _ratio(inputs.hits(inputs.total.astype(np.int64)), inputs.total)


def _judged(inputs: MeasureInputs, measure: Measure) -> FloatArray:
    """Return judged documents of any grade among the first k / n(k); ir_measures' Judged."""
    rows = inputs.rankings.rows
    seen = inputs.summed(rows, rows.weigh(np.ones_like, measure.k))
    return _ratio(seen, inputs.rankings.retrieved_within(measure.k))


def _rbp(inputs: MeasureInputs, measure: Measure) -> FloatArray:
    """Return (1 - p) sum of p^(rank - 1) over relevant documents; Moffat & Zobel, TOIS 2008, binary relevance."""
    return inputs.summed(inputs.relevant, _rbp_weights(inputs.relevant, measure))


def _rbp_weights(rows: RankedRows, measure: Measure) -> FloatArray:
    persistence = dict(measure.params)["p"]
    return rows.weigh(lambda ranks: (1 - persistence) * persistence ** (ranks - 1), measure.k)


def _rbp_graded(inputs: MeasureInputs, measure: Measure) -> FloatArray:
    """Return `rbp` with each term times grade / the highest grade judged for the query; trec_eval 10's `rbp`."""
    rankings = inputs.rankings
    highest = np.ones(len(inputs.total), dtype=np.int64)
    np.maximum.at(highest, rankings.pool_query, rankings.pool_grade)
    rows = rankings.rows
    shares: FloatArray = np.maximum(rows.grade, 0) / highest[rows.query]
    return inputs.summed(rows, _rbp_weights(rows, measure) * shares)


def _rbp_residual(inputs: MeasureInputs, measure: Measure) -> FloatArray:
    """Return (1 - p) sum of p^(rank - 1) over unjudged documents, and p^n for those beyond n retrieved.

    Moffat & Zobel 2008; as in trec_eval 10, 0 where every document retrieved is judged. A negative grade is none.
    """
    rows = inputs.rankings.rows.where(inputs.rankings.rows.grade >= 0)
    judged = inputs.summed(rows, _rbp_weights(rows, measure))
    retrieved = inputs.rankings.retrieved
    has_unjudged = retrieved > inputs.rankings.per_query(rows.query)
    # all weights, beyond the last document too, add up to 1
    return np.asarray(np.maximum(1.0 - judged, 0.0) * has_unjudged)


def _rbp_max(inputs: MeasureInputs, measure: Measure) -> FloatArray:
    """Return rbp + rbp_resid: the value if all unjudged documents were relevant."""
    return _rbp(inputs, measure) + _rbp_residual(inputs, measure)


def _precision_max(inputs: MeasureInputs, measure: Measure) -> FloatArray:
    """Return (h(k) + unjudged documents among the first k) / k: the precision if these were relevant."""
    rows = inputs.rankings.rows.where(inputs.rankings.rows.grade >= 0)
    judged = inputs.summed(rows, rows.weigh(np.ones_like, measure.k))
    return _precision(inputs, measure) + (inputs.rankings.retrieved_within(measure.k) - judged) / float(measure.k or 1)


def _interpolated_precision(inputs: MeasureInputs, measure: Measure) -> FloatArray:
    """Return the highest precision at or below the rank where recall r is reached; trec_eval `iprec_at_recall`."""
    recall, rows = dict(measure.params)["r"], inputs.relevant
    is_nearest = inputs.conventions.recall_points == "nearest"
    # C's lround, and the cast of trec_eval 9
    wanted = np.floor(recall * inputs.total + (0.5 if is_nearest else 0.9))
    found = np.arange(len(rows.rank)) - np.searchsorted(rows.query, rows.query) + 1
    values = np.zeros(len(inputs.total))
    np.maximum.at(values, rows.query, (found / rows.rank) * (found >= wanted[rows.query]))
    return values


def _f_beta(inputs: MeasureInputs, measure: Measure) -> FloatArray:
    """Return (1 + b^2) P R / (b^2 P + R) = (1 + b^2) h(k) / (k + b^2 R); van Rijsbergen 1979. `f1`: b = 1."""
    square = dict(measure.params).get("beta", 1.0) ** 2
    return _ratio((1 + square) * inputs.hits(measure.k), square * inputs.total + float(measure.k or 0))


def _all_gold(inputs: MeasureInputs, measure: Measure) -> FloatArray:
    """Return 1 if h(k) = R > 0, else 0: every document of a question that needs several."""
    return np.asarray((inputs.hits(measure.k) == inputs.total) & (inputs.total > 0), dtype=np.float64)


def _recall_budget(inputs: MeasureInputs, measure: Measure) -> FloatArray:
    """Return h(k) / R, k being the first documents that together fit the tokens."""
    tokens = dict(measure.params)["tokens"]
    if inputs.rankings.lengths is None:
        raise InvalidInput(CodedText("lengths_needed", name=str(measure)), place="lengths")
    depths = [int(np.searchsorted(np.cumsum(each), tokens, side="right")) for each in inputs.rankings.lengths]
    return _ratio(inputs.hits(np.array(depths, dtype=np.int64)), inputs.total)


def _bpref(inputs: MeasureInputs, measure: Measure) -> FloatArray:
    """Return 1/R sum over relevant retrieved of 1 - min(judged non-relevant above, R) / min(N, R); trec_eval `bpref`.

    N documents judged non-relevant, with a grade from 0; Buckley & Voorhees, SIGIR 2004, as trec_eval 8.1 and later.
    """
    rows, level = inputs.rankings.rows, inputs.conventions.rel_level
    is_relevant = rows.grade >= level
    is_nonrelevant = (rows.grade >= 0) & ~is_relevant
    above = np.cumsum(is_nonrelevant)
    start = np.searchsorted(rows.query, rows.query)
    above = above - (above - is_nonrelevant)[start]
    pool = inputs.rankings.pool_grade
    judged_nonrelevant = inputs.rankings.per_query(inputs.rankings.pool_query[(pool >= 0) & (pool < level)])
    worst = np.minimum(judged_nonrelevant, inputs.total)[rows.query]
    lost = _ratio(np.minimum(above, inputs.total[rows.query]), worst)
    return _ratio(inputs.summed(rows, (1 - lost) * is_relevant), inputs.total)


def _average_precision(inputs: MeasureInputs, measure: Measure) -> FloatArray:
    """Return 1/Z sum of h(i)/i over relevant documents at ranks i <= k; trec_eval `map`, `map_cut` with Z = R."""
    return _weighted_average_precision(inputs, measure, lambda grades: np.ones(len(grades)))


def _graded_average_precision(inputs: MeasureInputs, measure: Measure) -> FloatArray:
    """Return `map` with each term times grade / max_rel; a perfect ranking reaches 1 only with Z = sum_of_weights.

    MedCorpus' graded MAP (seed 2) has max_rel = 2.
    """
    max_rel = inputs.conventions.max_rel
    highest = int(inputs.rankings.pool_grade.max(initial=1))
    if max_rel is not None and highest > max_rel:
        raise InvalidInput(CodedText("grade_above_max_rel", grade=highest, limit=max_rel))
    return _weighted_average_precision(inputs, measure, lambda grades: grades / float(max_rel or highest))


def _weighted_average_precision(
    inputs: MeasureInputs, measure: Measure, weigh: Callable[[IntArray], FloatArray]
) -> FloatArray:
    terms = precision_at_hits(inputs.relevant, measure.k) * weigh(inputs.relevant.grade)
    return _ratio(inputs.summed(inputs.relevant, terms), _map_normaliser(inputs, measure, weigh))


def _map_normaliser(inputs: MeasureInputs, measure: Measure, weigh: Callable[[IntArray], FloatArray]) -> FloatArray:
    """Return Z: R, min(R, k), h(k), or the weights of all relevant documents (R when they weigh 1)."""
    kind = inputs.conventions.map_normaliser
    if kind == "min_R_k":
        return _cap(inputs.total, measure.k)
    if kind == "retrieved_relevant":
        return inputs.hits(measure.k)
    if kind == "sum_of_weights":
        is_relevant = inputs.rankings.pool_grade >= inputs.conventions.rel_level
        weights = weigh(inputs.rankings.pool_grade[is_relevant])
        return inputs.rankings.per_query(inputs.rankings.pool_query[is_relevant], weights)
    return inputs.total


def _ndcg(inputs: MeasureInputs, measure: Measure) -> FloatArray:
    """Return DCG(k) / ideal DCG(k), DCG = sum of gain / log2(rank + 1); trec_eval `ndcg`, `ndcg_cut` with linear gain.

    The ideal ranking holds all judged documents, retrieved or not. Linear gain after Järvelin & Kekäläinen, TOIS 2002;
    2^grade - 1 after Burges et al., ICML 2005.
    """
    rankings = inputs.rankings
    gains = _gains(rankings.rows.grade, inputs.conventions, measure)
    dcg = inputs.summed(rankings.rows, gains * rankings.rows.weigh(lambda ranks: 1.0 / np.log2(ranks + 1), measure.k))
    return _ratio(dcg, _ideal_dcg(rankings, _gains(rankings.pool_grade, inputs.conventions, measure), measure.k))


def _ideal_dcg(rankings: Rankings, gains: FloatArray, k: int | None) -> FloatArray:
    has_gain = gains > 0
    query, gains = rankings.pool_query[has_gain], gains[has_gain]
    best_first = np.lexsort((-gains, query))
    rank = np.arange(len(query)) - np.searchsorted(query, query) + 1  # `query` ascends, and so does query[best_first]
    terms = gains[best_first] * (1.0 / np.log2(rank + 1.0))
    return rankings.per_query(query, terms if k is None else terms * (rank <= k))


def _gains(grades: IntArray, conventions: Conventions, measure: Measure) -> FloatArray:
    """Return the gain of each grade: 0 for 0 and below, and below `rel_level` with ndcg_rel_level "drop_below"."""
    lowest = conventions.rel_level if conventions.ndcg_rel_level == "drop_below" else 1
    kept = np.where(grades >= lowest, grades, 0)
    if measure.name == "ndcg_exp":
        if kept.max(initial=0) > _MAX_EXPONENT:
            raise InvalidInput(CodedText("grade_too_high", grade=int(kept.max()), limit=_MAX_EXPONENT))
        return np.asarray(np.exp2(kept.astype(np.float64)) - 1)
    if measure.name != "ndcg_gains":
        return kept.astype(np.float64)
    if conventions.gain_map is None:
        raise InvalidInput(CodedText("gains_needed"), place="gain_map")
    gain_by_grade = {0: 0.0, **dict(conventions.gain_map)}
    distinct, index = np.unique(kept, return_inverse=True)
    unknown = [grade for grade in distinct.tolist() if grade not in gain_by_grade]
    if unknown:
        raise InvalidInput(CodedText("gain_missing", grade=unknown[0]), place="gain_map")
    return np.array([gain_by_grade[grade] for grade in distinct.tolist()], dtype=np.float64)[index]


def _cap(total: FloatArray, k: int | None) -> FloatArray:
    return total if k is None else np.minimum(total, float(k))


def _ratio(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    return np.divide(numerator, denominator, out=np.zeros(len(numerator)), where=denominator > 0)


_FORMULAS: Final[Mapping[str, _Formula]] = {
    "recall": _recall,
    "capped_recall": _capped_recall,
    "precision": _precision,
    "precision_ret": _precision_retrieved,
    "success": _success,
    "mrr": _reciprocal_rank,
    "ndcg": _ndcg,
    "ndcg_exp": _ndcg,
    "ndcg_gains": _ndcg,
    "map": _average_precision,
    "map_graded": _graded_average_precision,
    "f1": _f_beta,
    "f1_ret": _f1_retrieved,
    "r_precision": _r_precision,
    "bpref": _bpref,
    "rbp": _rbp,
    "context_recall": _recall,
    "context_precision": _precision_retrieved,
    "context_f1": _f1_retrieved,
    "judged": _judged,
    "rbp_graded": _rbp_graded,
    "rbp_resid": _rbp_residual,
    "rbp_max": _rbp_max,
    "precision_max": _precision_max,
    "iprec": _interpolated_precision,
    "f_beta": _f_beta,
    "all_gold": _all_gold,
    "recall_budget": _recall_budget,
    "num_q": lambda inputs, _: np.ones(len(inputs.total)),
    "num_ret": lambda inputs, _: inputs.rankings.retrieved_within(None),
    "num_rel": lambda inputs, _: inputs.total,
    "num_rel_ret": lambda inputs, _: inputs.hits(None),
}
