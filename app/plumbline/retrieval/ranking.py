"""Rankings of all queries as flat arrays: one row per judged document, so that a measure is a sum over rows."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from plumbline.ground.deadline import within_deadline
from plumbline.ground.errors import InvalidInput, quoted
from plumbline.ground.texts import CodedText
from plumbline.retrieval.conventions import Conventions
from plumbline.retrieval.order import IdNormaliser, Order, order
from plumbline.retrieval.run import MAX_GRADE, FloatArray, IntArray, Qrels, Results, Run, document_place

BoolArray: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class RankedRows:
    """Documents that were judged and retrieved, sorted by query and then by rank.

    query: index into the queries. rank: from 1. position: what a cutoff is compared with. grade: as judged.
    """

    query: IntArray
    rank: IntArray
    position: IntArray
    grade: IntArray

    def where(self, mask: BoolArray) -> "RankedRows":
        return RankedRows(self.query[mask], self.rank[mask], self.position[mask], self.grade[mask])

    def within(self, k: int | IntArray | None) -> BoolArray:
        return np.ones(len(self.rank), dtype=np.bool_) if k is None else self.position <= k

    def weigh(self, weigh_rank: Callable[[FloatArray], FloatArray], k: int | IntArray | None) -> FloatArray:
        """Return `weigh_rank(rank)` of each document; 0 beyond the first k."""
        return np.asarray(weigh_rank(self.rank.astype(np.float64)) * self.within(k))


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
        return np.bincount(query, weights, minlength=len(self.query_ids)).astype(np.float64)

    def retrieved_within(self, k: int | None) -> FloatArray:
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
    """Rank every query of the normalised `qrels`; one that the run lacks is an empty ranking; raise as `order`."""
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


def normalise_qrels(qrels: Qrels, normalise_id: IdNormaliser | None) -> Qrels:
    """Check grades and normalise ids, of which equal ones keep their highest grade; raise InvalidInput."""
    for query_id, grades in qrels.items():
        if not set(map(type, grades.values())) <= {int} or (
            grades and not (max(grades.values()) <= MAX_GRADE and min(grades.values()) >= -MAX_GRADE)
        ):
            document, grade = next(row for row in grades.items() if type(row[1]) is not int or abs(row[1]) > MAX_GRADE)
            detail = CodedText("grade_expected", found=quoted(repr(grade)), limit=MAX_GRADE)
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
    ranks = _concatenate([found.ranks for found in orders])
    positions = _concatenate([found.ranks if found.positions is None else found.positions for found in orders])
    grades = np.array([grade for found in orders for grade in found.grades], dtype=np.int64)
    by_rank = np.lexsort((ranks, query))
    return RankedRows(query, ranks[by_rank], positions[by_rank], grades[by_rank])


def _cut(orders: list[Order]) -> tuple[IntArray, IntArray] | tuple[None, None]:
    if all(found.unique_positions is None for found in orders):
        return None, None
    positions = [
        np.arange(1, found.retrieved + 1) if found.unique_positions is None else found.unique_positions
        for found in orders
    ]
    return np.repeat(np.arange(len(orders)), [len(own) for own in positions]), _concatenate(positions)


def _concatenate(arrays: list[IntArray]) -> IntArray:
    return np.concatenate([np.empty(0, dtype=np.int64), *arrays])


def precision_at_hits(relevant: RankedRows, k: int | None) -> FloatArray:
    """Return precision at the rank of each relevant document, h(i) / i, 0 beyond the cutoff: the terms of AP."""
    query_start = np.searchsorted(relevant.query, relevant.query)
    hits = np.arange(len(relevant.rank)) - query_start + 1
    return np.asarray(hits / relevant.rank * relevant.within(k))
