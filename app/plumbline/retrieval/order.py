"""Ranks of the judged documents of one query, without sorting the ranking by id.

The rank of a document is 1 + the documents with a greater score + the tied ones that the tie rule puts before it, so
only the scores are sorted, and ids are compared among documents tied with a judged one alone.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from plumbline.ground.errors import InvalidInput
from plumbline.ground.texts import CodedText
from plumbline.retrieval.combination import rank_results
from plumbline.retrieval.conventions import Conventions
from plumbline.retrieval.run import FloatArray, IntArray, Results, ScoreColumn, check_scores, document_place

IdNormaliser: TypeAlias = Callable[[str], str]
# Scores as they are compared: float64, or float32 where the conventions say so; ascending is best first.
_NegatedScores: TypeAlias = npt.NDArray[np.floating]
# Two scores may rise by chance.
_FEWEST_RISING: Final = 3


class Order(NamedTuple):
    """Retrieved judged documents of one query, one entry each, in no particular order.

    grades: as judged. ranks: from 1, among unique documents. positions: what a cutoff is compared with; None for
    that rank. retrieved: unique documents. duplicates: entries removed. unique_positions: of every unique document;
    None where these are 1 to `retrieved`. is_rising: each score is above the one before.
    """

    grades: list[int]
    ranks: IntArray
    retrieved: int
    positions: IntArray | None = None
    duplicates: int = 0
    unique_positions: IntArray | None = None
    is_rising: bool = False


def order(
    query_id: str,
    results: Results,
    *,
    grades: Mapping[str, int],
    conventions: Conventions,
    normalise_id: IdNormaliser | None,
    depth: int | None,
) -> Order:
    """Rank the judged documents of one query.

    The ids of `grades` are normalised already; `normalise_id` is applied to every retrieved id. No measure looks at
    ranks beyond `depth`, so a list is read no further; None for all.

    Raises InvalidInput: a score that is not a finite number, or a duplicate where none may be.
    """
    if conventions.max_documents is not None and len(results) > conventions.max_documents:
        results = _best(results, conventions.max_documents, conventions)
    is_filtered = conventions.judged_only or conventions.ignore_identical_ids
    if isinstance(results, Mapping):
        if normalise_id is None:
            scores = _filter(query_id, results, grades, conventions) if is_filtered else results
            return _order_scored(query_id, scores, grades, conventions)
        return _order_normalised(query_id, results, grades, conventions, normalise_id)
    if isinstance(results, str):
        raise InvalidInput(CodedText("text_for_results"), place=query_id)
    documents: Sequence[str] = results if normalise_id is None else [normalise_id(document) for document in results]
    if is_filtered:
        documents = [document for document in documents if _stays(query_id, document, grades, conventions)]
        depth = None
    return _order_listed(query_id, documents, grades, conventions, depth)


def _best(results: Results, most: int, conventions: Conventions) -> Results:
    if not isinstance(results, Mapping):
        return results[:most]
    ranked = rank_results(results, ties=conventions.ties).doc_ids
    return {document: results[document] for document in ranked[:most]}


def _stays(query_id: str, document: str, grades: Mapping[str, int], conventions: Conventions) -> bool:
    if conventions.judged_only and grades.get(document, -1) < 0:
        return False
    return not (conventions.ignore_identical_ids and document == query_id)


def _filter(
    query_id: str, scores: Mapping[str, float], grades: Mapping[str, int], conventions: Conventions
) -> Mapping[str, float]:
    # The common case, no document named like its query, costs no copy.
    if not conventions.judged_only and query_id not in scores:
        return scores
    check_scores(query_id, scores)  # a bad score is refused whether or not its document leaves
    return {document: score for document, score in scores.items() if _stays(query_id, document, grades, conventions)}


def _order_normalised(
    query_id: str,
    scores: Mapping[str, float],
    grades: Mapping[str, int],
    conventions: Conventions,
    normalise_id: IdNormaliser,
) -> Order:
    """Rank as `order`, for scores whose ids may become equal."""
    values = check_scores(query_id, scores)
    rows = [
        (document, value)
        for document, value in zip(map(normalise_id, scores), values.tolist(), strict=True)
        if _stays(query_id, document, grades, conventions)
    ]
    if conventions.dedupe == "after_cutoff":
        # Best first, duplicates next to their equals.
        if conventions.ties != "input_order":
            rows.sort(key=lambda row: row[0], reverse=conventions.ties == "docno_desc")
        negated = _negate(np.array([value for _, value in rows], dtype=np.float64), conventions).tolist()
        best_first = sorted(range(len(rows)), key=negated.__getitem__)
        return _order_listed(query_id, [rows[row][0] for row in best_first], grades, conventions, None)
    best: dict[str, float] = {}
    for document, value in rows:
        if value > best.get(document, -np.inf):
            best[document] = value
    if len(best) < len(rows) and conventions.duplicates == "error":
        raise _duplicate(query_id, (document for document, _ in rows))
    found = _order_scored(query_id, best, grades, conventions)
    return found._replace(duplicates=len(rows) - len(best))


def _order_scored(
    query_id: str, scores: Mapping[str, float], grades: Mapping[str, int], conventions: Conventions
) -> Order:
    negated = _negate(check_scores(query_id, scores), conventions)
    held = scores.find(grades) if isinstance(scores, ScoreColumn) else scores
    found = [document for document in grades if document in held]
    found_grades = [grades[document] for document in found]
    is_sorted = bool((negated[1:] >= negated[:-1]).all())
    is_rising = not is_sorted and len(negated) >= _FEWEST_RISING and bool((negated[1:] < negated[:-1]).all())
    if not found:
        return Order(found_grades, np.empty(0, dtype=np.int64), len(scores), is_rising=is_rising)
    ascending = negated if is_sorted else np.sort(negated)
    sought = _negate(np.array([held[document] for document in found], dtype=np.float64), conventions)
    first = ascending.searchsorted(sought) + 1
    sizes = ascending.searchsorted(sought, side="right") - first + 1
    if not (sizes > 1).any():
        return Order(found_grades, first, len(scores), is_rising=is_rising)
    tied = {value for value, size in zip(sought.tolist(), sizes.tolist(), strict=True) if size > 1}
    offsets = _offsets(zip(scores, negated.tolist(), strict=True), tied, conventions)
    before = np.array([offsets.get(document, 0) for document in found], dtype=np.int64)
    return Order(found_grades, first + before, len(scores))


def _offsets(rows: Iterable[tuple[str, float]], tied: set[float], conventions: Conventions) -> dict[str, int]:
    """Count the documents with the same score before each document whose score is in `tied`.

    Python compares text by code point, which is the order of the UTF-8 bytes that trec_eval's strcmp compares.
    """
    documents_by_score = defaultdict(list)
    for document, score in rows:
        if score in tied:
            documents_by_score[score].append(document)
    if conventions.ties != "input_order":
        for documents in documents_by_score.values():
            documents.sort(reverse=conventions.ties == "docno_desc")
    return {document: place for documents in documents_by_score.values() for place, document in enumerate(documents)}


def _order_listed(
    query_id: str, documents: Sequence[str], grades: Mapping[str, int], conventions: Conventions, depth: int | None
) -> Order:
    """Rank as `order`, for documents best first; a list repeats at most those within its cutoff."""
    head = documents if depth is None else documents[:depth]
    position_by_document = dict(zip(reversed(head), range(len(head), 0, -1), strict=True))
    found = [document for document in grades if document in position_by_document]
    found_grades = [grades[document] for document in found]
    positions = np.array([position_by_document[document] for document in found], dtype=np.int64)
    duplicates = len(head) - len(position_by_document)
    if not duplicates:
        return Order(found_grades, positions, len(documents))
    if conventions.duplicates == "error":
        raise _duplicate(query_id, documents)
    if conventions.dedupe == "before_cutoff":
        unique = list(dict.fromkeys(documents))
        return _order_listed(query_id, unique, grades, conventions, None)._replace(
            duplicates=len(documents) - len(unique)
        )
    unique_positions = np.sort(np.fromiter(position_by_document.values(), dtype=np.int64))
    ranks = unique_positions.searchsorted(positions) + 1
    retrieved = len(documents) - duplicates
    return Order(found_grades, ranks, retrieved, positions, duplicates, unique_positions)


def _negate(values: FloatArray, conventions: Conventions) -> _NegatedScores:
    if conventions.score_precision == "float64":
        return -values
    with np.errstate(over="ignore", under="ignore"):  # as C's cast: too large is infinite, too small is 0
        return -values.astype(np.float32)


def _duplicate(query_id: str, documents: Iterable[str]) -> InvalidInput:
    seen: set[str] = set()
    # set.add returns None, so this is the first document met twice.
    repeated = next(document for document in documents if document in seen or seen.add(document))  # type: ignore[func-returns-value]
    return InvalidInput(CodedText("retrieved_twice"), place=document_place(query_id, repeated))
