"""One query's scores as columns: a thousand documents are compared with a few judged ones, never made into texts."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from plumbline.retrieval.text_column import TextColumn, fingerprint_of

# So many are compared one by one sooner than sorted.
_FEW: Final = 8


class ScoreColumn(Mapping[str, float]):
    """Scores by document, as a mapping that is built only when somebody walks it.

    Args:
        documents: without duplicates.
        fingerprints: of `documents`.
        scores: finite, as long as `documents`.
    """

    __slots__ = ("_by_document", "_documents", "_fingerprints", "scores")

    def __init__(
        self, documents: TextColumn, fingerprints: npt.NDArray[np.uint64], scores: npt.NDArray[np.float64]
    ) -> None:
        self._documents = documents
        self._fingerprints = fingerprints
        self._by_document: dict[str, float] | None = None
        self.scores = scores

    def rows_of(self, documents: Sequence[str]) -> dict[str, int]:
        """The row of each document that was retrieved, in no particular order."""
        sought = np.array([fingerprint_of(document) for document in documents], dtype=np.uint64)
        if len(sought) <= _FEW:
            candidates = np.flatnonzero(self._fingerprints == sought[:, None]) % len(self)
        else:
            candidates = np.flatnonzero(np.isin(self._fingerprints, sought))
        wanted = frozenset(documents)
        found = zip(self._documents.texts(candidates), candidates.tolist(), strict=True)
        return {document: row for document, row in found if document in wanted}

    def documents_at(self, rows: npt.NDArray[np.int64]) -> list[str]:
        """The documents of the rows, in their order."""
        return self._documents.texts(rows)

    def __getitem__(self, document: str) -> float:
        """The score of a document; KeyError when it was not retrieved."""
        return self._mapping()[document]

    def __contains__(self, document: object) -> bool:
        """Whether the document was retrieved."""
        return isinstance(document, str) and document in self.rows_of([document])

    def __iter__(self) -> Iterator[str]:
        """The documents in the order of the file."""
        return iter(self._mapping())

    def __len__(self) -> int:
        """How many were retrieved."""
        return len(self.scores)

    def _mapping(self) -> dict[str, float]:
        if self._by_document is None:
            self._by_document = dict(zip(self._documents.texts(), self.scores.tolist(), strict=True))
        return self._by_document
