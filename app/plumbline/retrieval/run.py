"""Judgments and runs as values: mappings and ranked lists; the check of their scores."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from plumbline.ground.errors import InvalidInput, quoted
from plumbline.ground.texts import CodedText

IntArray: TypeAlias = npt.NDArray[np.int64]
FloatArray: TypeAlias = npt.NDArray[np.float64]

# trec_eval keeps a grade in a C long; the bound leaves room for sums and is beyond any judge's scale.
MAX_GRADE: Final = 2**31 - 1
# query_id -> doc_id -> relevance: an integer grade; 0 and below is not relevant.
Qrels = Mapping[str, Mapping[str, int]]

# Results of one query: scores by doc_id (finite), or doc_ids best first.
Results = Mapping[str, float] | Sequence[str]


@dataclass(frozen=True, slots=True)
class Run:
    name: str
    results: Mapping[str, Results]


def check_scores(query_id: str, scores: Mapping[str, float]) -> FloatArray:
    """Return the scores as an array; InvalidInput names the query and the document of one that is no finite number."""
    try:
        # twice as quick as numpy.fromiter
        values = np.frombuffer(struct.pack(f"{len(scores)}d", *scores.values()), dtype=np.float64)
    except (struct.error, OverflowError):
        values = np.array([np.nan])
    if not np.isfinite(values).all():
        document, score = next(row for row in scores.items() if not _is_finite(row[1]))
        detail = CodedText("score_expected", found=quoted(str(score)))
        raise InvalidInput(detail, place=document_place(query_id, document))
    return values


def _is_finite(score: object) -> bool:
    try:
        return isinstance(score, int | float) and bool(np.isfinite(float(score)))
    except OverflowError:
        return False


def document_place(query_id: str, document: str) -> str:
    """Return the place that an error names: `query/document`, each without control characters."""
    return f"{quoted(query_id)[1:-1]}/{quoted(document)[1:-1]}"


@dataclass(frozen=True, slots=True)
class ParsedRanking:
    """Ranking parsed from an LLM's reply: its ids best first, each once, if `parse_ok`: the reply holds just one.

    unknown: ids that the reply names and the candidates do not hold. duplicates_removed: later mentions of an id. form:
    `json`, `elements`, `table`, `chain`, `lines`, `places`, `tokens`, or `none`. ties: ids held equal. excluded: ids
    that the reply says it leaves out. readings: two rankings that the reply may mean, if there are.
    """

    ids: tuple[str, ...]
    unknown: tuple[str, ...]
    duplicates_removed: int
    parse_ok: bool
    form: str
    ties: tuple[tuple[str, ...], ...] = ()
    excluded: tuple[str, ...] = ()
    readings: tuple[tuple[str, ...], ...] = ()
