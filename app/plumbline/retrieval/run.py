"""Judgments and runs as values: mappings, ranked lists and columns; the check of their scores."""

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

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


class ScoreColumn(Mapping[str, float]):
    """Scores by document in pyarrow's columns; a dictionary of all is built only where it is asked for.

    documents: UTF-8 in a `binary` array, each once. scores: finite, one for each.
    """

    __slots__ = ("_documents", "_score_by_id", "scores")

    def __init__(self, documents: Any, scores: FloatArray) -> None:
        self._documents = documents
        self._score_by_id: dict[str, float] = {}
        self.scores = scores

    def find(self, documents: Iterable[str]) -> dict[str, float]:
        """Return the scores of those documents that are among these."""
        import pyarrow as arrow  # noqa: PLC0415 - an extra, which made these columns

        names = list(documents)
        # Half a surrogate pair becomes bytes that no file holds.
        sought = arrow.array([name.encode("utf-8", "surrogatepass") for name in names], type=self._documents.type)
        # NaN where there is none
        places = arrow.compute.index_in(self._documents, value_set=sought).to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(places >= 0)
        pairs = zip(places[rows].tolist(), self.scores[rows].tolist(), strict=True)
        return {names[int(place)]: score for place, score in pairs}

    def __contains__(self, document: object) -> bool:
        return isinstance(document, str) and document in self.find([document])

    def __getitem__(self, document: str) -> float:
        if not self._score_by_id:
            self._score_by_id = dict(zip(self, self.scores.tolist(), strict=True))
        return self._score_by_id[document]

    def __iter__(self) -> Iterator[str]:
        return map(bytes.decode, self._documents.to_pylist())

    def __len__(self) -> int:
        return len(self.scores)


def check_scores(query_id: str, scores: Mapping[str, float]) -> FloatArray:
    """Return the scores as an array; InvalidInput names the query and the document of one that is no finite number."""
    if isinstance(scores, ScoreColumn):
        return scores.scores
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
    `json`, `table`, `chain`, `lines`, `tokens`, or `none`. ties: ids held equal. excluded: ids that the reply says it
    leaves out. readings: two rankings that the reply may mean, if there are.
    """

    ids: tuple[str, ...]
    unknown: tuple[str, ...]
    duplicates_removed: int
    parse_ok: bool
    form: str
    ties: tuple[tuple[str, ...], ...] = ()
    excluded: tuple[str, ...] = ()
    readings: tuple[tuple[str, ...], ...] = ()
