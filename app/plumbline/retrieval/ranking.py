"""Rankings of all queries as flat arrays: one row per judged document, so that a measure is a sum over rows."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from plumbline.ground.concurrency import within_deadline
from plumbline.ground.errors import InvalidInput, quoted
from plumbline.retrieval.conventions import Conventions
from plumbline.retrieval.order import IdNormaliser, Order, order
from plumbline.retrieval.run import MAX_GRADE, FloatArray, IntArray, Qrels, Results, Run, document_place

BoolArray: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class RankedRows:
    """Documents that were judged and retrieved, sorted by query and then by rank.

    query: index into the queries. rank: from 1; of the tied block's first document where ties are averaged.
    size: documents in the tied block, 1 without. position: what a cutoff is compared with. grade: as judged.
    """

    query: IntArray
    rank: IntArray
    size: IntArray
    position: IntArray
    grade: IntArray

    @property
    def has_ties(self) -> bool:
        """Return True if some document may stand at several ranks."""
        return bool((self.size > 1).any())

    def where(self, mask: BoolArray) -> "RankedRows":
        """Return the rows that the mask selects, in their order."""
        return RankedRows(self.query[mask], self.rank[mask], self.size[mask], self.position[mask], self.grade[mask])

    def within(self, k: int | IntArray | None) -> BoolArray:
        """Return which rows stand among the first k; k may be given per row."""
        return np.ones(len(self.rank), dtype=np.bool_) if k is None else self.position <= k

    def expected(self, weigh: Callable[[FloatArray], FloatArray], k: int | IntArray | None) -> FloatArray:
        """Return the mean of `weigh(rank)` over the ranks that each document may have; 0 at ranks beyond k."""
        if not self.has_ties:
            return np.asarray(weigh(self.rank.astype(np.float64)) * self.within(k))
        last = self.rank + self.size - 1
        prefix = np.concatenate([[0.0], np.cumsum(weigh(np.arange(1.0, last.max() + 1)))])
        seen = last if k is None else np.clip(last, self.rank - 1, np.maximum(k, self.rank - 1))
        return np.asarray((prefix[seen] - prefix[self.rank - 1]) / self.size)


@dataclass(frozen=True, slots=True)
class Rankings:
    """Rankings of all queries, from which every measure is computed.

    query_ids: the queries that count, in the order of the judgments. rows: judged documents that were retrieved.
    retrieved: unique documents per query. pool_query, pool_grade: all judged documents, retrieved or not.
    cut_query, cut_position: of every unique document, where duplicates leave after the cutoff; else None.
    rising: queries whose scores rise in the order given. lengths: of the documents retrieved, best first, by query.
    """

    query_ids: tuple[str, ...]
    rows: RankedRows
    retrieved: IntArray
    pool_query: IntArray
    pool_grade: IntArray
    duplicates_removed: int
    cut_query: IntArray | None = None
    cut_position: IntArray | None = None
    rising: int = 0
    lengths: tuple[FloatArray, ...] | None = None

    def per_query(self, query: IntArray, weights: FloatArray | None = None) -> FloatArray:
        """Sum the weights, or count the rows, by query."""
        return np.bincount(query, weights, minlength=len(self.query_ids)).astype(np.float64)

    def retrieved_within(self, k: int | None) -> FloatArray:
        """Count the unique documents among the first k, per query."""
        if k is None:
            return self.retrieved.astype(np.float64)
        if self.cut_query is None or self.cut_position is None:
            return np.minimum(self.retrieved, k).astype(np.float64)
        return self.per_query(self.cut_query[self.cut_position <= k])


def rank(
    qrels: Qrels,
    run: Run,
    *,
    query_ids: Iterable[str],
    conventions: Conventions,
    normalise_id: IdNormaliser | None = None,
    depth: int | None = None,
) -> Rankings:
    """Rank every query; one that the run lacks is an empty ranking.

    `qrels` are checked and `normalised`, and hold all of `query_ids`; the rest is as in `order`.

    Raises:
        InvalidInput: as `order`.
    """
    kept = tuple(query_ids)
    nothing: Results = ()
    orders = [
        order(
            query_id,
            run.results.get(query_id, nothing),
            grades=qrels[query_id],
            conventions=conventions,
            normalise_id=normalise_id,
            depth=depth,
        )
        for query_id in within_deadline(kept)
    ]
    pools = [qrels[query_id].values() for query_id in kept]
    cut_query, cut_position = _cut(orders)
    return Rankings(
        query_ids=kept,
        rows=_rows(orders),
        retrieved=np.array([found.retrieved for found in orders], dtype=np.int64),
        pool_query=np.repeat(np.arange(len(pools)), [len(pool) for pool in pools]),
        pool_grade=np.array([grade for pool in pools for grade in pool], dtype=np.int64),
        duplicates_removed=sum(found.duplicates for found in orders),
        cut_query=cut_query,
        cut_position=cut_position,
        rising=sum(found.is_rising for found in orders),
    )


def normalised(qrels: Qrels, normalise_id: IdNormaliser | None) -> Qrels:
    """Check grades and normalise ids; ids that become equal keep their highest grade.

    Raises:
        InvalidInput: a grade that is not a whole number (a boolean is none either) or beyond 2**31 - 1.
    """
    for query_id, grades in qrels.items():
        if not set(map(type, grades.values())) <= {int} or (
            grades and not (max(grades.values()) <= MAX_GRADE and min(grades.values()) >= -MAX_GRADE)
        ):
            document, grade = next(row for row in grades.items() if type(row[1]) is not int or abs(row[1]) > MAX_GRADE)
            detail = f"found the grade {quoted(repr(grade))}, wanted a whole number up to {MAX_GRADE}"
            raise InvalidInput(detail, place=document_place(query_id, document))
    if normalise_id is None:
        return qrels
    merged: dict[str, dict[str, int]] = {}
    for query_id, grades in qrels.items():
        own = merged[query_id] = {}
        for document, grade in grades.items():
            name = normalise_id(document)
            own[name] = max(grade, own.get(name, grade))
    return merged


def _rows(orders: list[Order]) -> RankedRows:
    query = np.repeat(np.arange(len(orders)), [len(found.grades) for found in orders])
    ranks = _joined([found.ranks for found in orders])
    sizes = _joined([np.ones_like(found.ranks) if found.sizes is None else found.sizes for found in orders])
    positions = _joined([found.ranks if found.positions is None else found.positions for found in orders])
    grades = np.array([grade for found in orders for grade in found.grades], dtype=np.int64)
    by_rank = np.lexsort((ranks, query))
    return RankedRows(query, ranks[by_rank], sizes[by_rank], positions[by_rank], grades[by_rank])


def _cut(orders: list[Order]) -> tuple[IntArray, IntArray] | tuple[None, None]:
    if all(found.unique_positions is None for found in orders):
        return None, None
    positions = [
        np.arange(1, found.retrieved + 1) if found.unique_positions is None else found.unique_positions
        for found in orders
    ]
    return np.repeat(np.arange(len(orders)), [len(own) for own in positions]), _joined(positions)


def _joined(arrays: list[IntArray]) -> IntArray:
    return np.concatenate([np.empty(0, dtype=np.int64), *arrays])


def first_hit_expectation(relevant: RankedRows, k: int | None, *, n_queries: int) -> tuple[FloatArray, FloatArray]:
    """Return the expected reciprocal rank of the first relevant document, and the chance that its rank is <= k.

    In the first block with a relevant document (first rank s, t documents, r of them relevant), the first hit is the
    block's j-th document with chance C(t - j, r - 1) / C(t, r), here by its recurrence.
    Both have the shape (n_queries,), 0 for a query without a relevant document retrieved.
    """
    reciprocal, chance = np.zeros(n_queries), np.zeros(n_queries)
    queries, starts = np.unique(relevant.query, return_index=True)
    _, block_hits = _blocks(relevant)
    for query, start in zip(queries.tolist(), starts.tolist(), strict=True):
        first, size = int(relevant.rank[start]), int(relevant.size[start])
        hits = int(block_hits[start])
        missed = np.arange(size - hits, dtype=np.float64)  # documents already seen, all of them misses
        survives = np.concatenate([[1.0], np.cumprod((size - hits - missed) / (size - missed))])
        chances = survives * hits / (size - np.arange(size - hits + 1))
        ranks = np.arange(first, first + len(chances))
        seen = chances if k is None else chances * (ranks <= k)
        reciprocal[query], chance[query] = (seen / ranks).sum(), seen.sum()
    return reciprocal, np.minimum(chance, 1.0)


def precision_at_hits(relevant: RankedRows, k: int | None) -> FloatArray:
    """Return precision at the rank of each relevant document, 0 beyond the cutoff: the terms of AP.

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


def _blocks(relevant: RankedRows) -> tuple[IntArray, IntArray]:
    """Return the index of the first row of each row's block, and the number of rows in it."""
    is_new = np.ones(len(relevant.rank), dtype=np.bool_)
    is_new[1:] = (np.diff(relevant.query) != 0) | (np.diff(relevant.rank) != 0)
    starts = np.flatnonzero(is_new)
    sizes = np.diff(np.append(starts, len(relevant.rank)))
    return np.repeat(starts, sizes), np.repeat(sizes, sizes)
