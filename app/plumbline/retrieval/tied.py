"""Expectations over all orders of tied documents, in closed form, for measures that are not sums over documents.

After McSherry & Najork, "Computing information retrieval performance measures efficiently in the presence of tied
scores", ECIR 2008. Sums over documents (precision, recall, DCG, RBP) need only `Rows.expected`.
"""

import numpy as np

from plumbline.retrieval.order import FloatArray, IntArray
from plumbline.retrieval.ranking import Rows


def first_hit_expectation(relevant: Rows, k: int | None, *, n_queries: int) -> tuple[FloatArray, FloatArray]:
    """Expected reciprocal rank of the first relevant document, and the chance that it stands among the first k.

    In the first block with a relevant document (first rank s, t documents, r of them relevant), the first hit is the
    block's j-th document with chance C(t - j, r - 1) / C(t, r), here by its recurrence.

    Args:
        relevant: the relevant documents, sorted by query and rank.
        k: cutoff, or None.
        n_queries: length of both results; 0 for a query without a relevant document retrieved.
    """
    reciprocal, chance = np.zeros(n_queries), np.zeros(n_queries)
    queries, starts = np.unique(relevant.query, return_index=True)
    _, block_hits = _blocks(relevant)
    for query, start in zip(queries.tolist(), starts.tolist(), strict=True):
        first, size = int(relevant.rank[start]), int(relevant.size[start])
        chances = _first_hit_chances(size, int(block_hits[start]))
        ranks = np.arange(first, first + len(chances))
        seen = chances if k is None else chances * (ranks <= k)
        reciprocal[query], chance[query] = (seen / ranks).sum(), seen.sum()
    return reciprocal, np.minimum(chance, 1.0)


def _first_hit_chances(size: int, hits: int) -> FloatArray:
    """Chance that the first of `hits` hits among `size` documents in random order is the j-th, j = 1 .. size-hits+1."""
    missed = np.arange(size - hits, dtype=np.float64)  # documents already seen, all of them misses
    survives = np.concatenate([[1.0], np.cumprod((size - hits - missed) / (size - missed))])
    places = np.arange(size - hits + 1)
    return survives * hits / (size - places)


def precision_at_hits(relevant: Rows, k: int | None) -> FloatArray:
    """Precision at the rank of each relevant document, 0 beyond the cutoff: AP's terms.

    Without ties h(i) / i. In a block of t documents from rank s, r relevant, after H hits: a relevant document stands
    at each of the block's ranks i with chance 1/t, and then H + 1 + (i - s)(r - 1)/(t - 1) hits are expected up to i.
    """
    index = np.arange(len(relevant.rank))
    query_start = np.searchsorted(relevant.query, relevant.query)
    if not relevant.has_ties:
        return np.asarray((index - query_start + 1) / relevant.rank * relevant.within(k))
    block_start, block_hits = _blocks(relevant)
    first, last = relevant.rank, relevant.rank + relevant.size - 1
    seen = last if k is None else np.clip(k, first - 1, last)
    harmonic = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, last.max() + 1))])
    reciprocals = harmonic[seen] - harmonic[first - 1]
    slope = (block_hits - 1) / np.maximum(relevant.size - 1, 1)
    at_first = (block_start - query_start + 1) * reciprocals
    return np.asarray((at_first + slope * (seen - first + 1 - first * reciprocals)) / relevant.size)


def _blocks(relevant: Rows) -> tuple[IntArray, IntArray]:
    """Index of the first row of each row's block, and the number of rows in it."""
    is_new = np.ones(len(relevant.rank), dtype=np.bool_)
    is_new[1:] = (np.diff(relevant.query) != 0) | (np.diff(relevant.rank) != 0)
    starts = np.flatnonzero(is_new)
    sizes = np.diff(np.append(starts, len(relevant.rank)))
    return np.repeat(starts, sizes), np.repeat(sizes, sizes)
