"""Judgments and runs as values: mappings, ranked lists, and columns of scores that build texts only on demand."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

IntArray: TypeAlias = npt.NDArray[np.int64]
FloatArray: TypeAlias = npt.NDArray[np.float64]

# trec_eval keeps a grade in a C long; the bound leaves room for sums and is beyond any judge's scale.
MAX_GRADE: Final = 2**31 - 1
# query_id -> doc_id -> relevance: an integer grade; 0 and below is not relevant.
Qrels = Mapping[str, Mapping[str, int]]

# What was retrieved for one query: scores by doc_id (finite), or doc_ids best first.
Results = Mapping[str, float] | Sequence[str]


@dataclass(frozen=True, slots=True)
class Run:
    """Results of one system, by query_id."""

    name: str
    results: Mapping[str, Results]


_Integers: TypeAlias = npt.NDArray[np.int64] | npt.NDArray[np.int32]
_Words: TypeAlias = npt.NDArray[np.uint64]

WORD_BYTES: Final = 8
# by the number of bytes that count
WORD_MASKS: Final = np.array([(1 << (8 * kept)) - 1 for kept in range(WORD_BYTES + 1)], dtype=np.uint64)
_MIX: Final = 0x9E3779B97F4A7C15  # 2^64 / golden ratio, odd: Knuth, TAOCP 3, 6.4
_SHIFT: Final = 29
_ALL_BITS: Final = 2**64 - 1


@dataclass(frozen=True, slots=True)
class TextColumn:
    """Texts as UTF-8 within `buffer`, at `starts`, `lengths` bytes long (one entry each text).

    The buffer is at least 8 bytes longer than the last text's end.
    """

    buffer: npt.NDArray[np.uint8]
    starts: _Integers
    lengths: _Integers

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, row: int) -> str:
        start = int(self.starts[row])
        return self.buffer[start : start + int(self.lengths[row])].tobytes().decode()

    def between(self, start: int, end: int) -> "TextColumn":
        """Return the texts from `start` up to `end`; the buffer is shared."""
        return TextColumn(self.buffer, self.starts[start:end], self.lengths[start:end])

    def texts(self, rows: _Integers | slice = slice(None)) -> list[str]:
        """Return the texts of the rows, in their order."""
        starts = self.starts[rows]
        ends = (starts + self.lengths[rows]).tolist()
        data = self.buffer.data
        return [str(data[start:end], "utf-8") for start, end in zip(starts.tolist(), ends, strict=True)]

    def words(self, skipped: int, rows: _Integers | slice = slice(None)) -> _Words:
        """Return 8 bytes of each text from byte `skipped` on as little-endian numbers; bytes beyond the end are 0."""
        last = len(self.buffer) - WORD_BYTES
        at_each_byte: _Words = np.ndarray((last + 1,), dtype="<u8", buffer=self.buffer, strides=(1,))
        starts, lengths = self.starts[rows], self.lengths[rows]
        if skipped:
            starts, lengths = np.minimum(starts + skipped, last), np.maximum(lengths - skipped, 0)
        return at_each_byte[starts] & WORD_MASKS[np.minimum(lengths, WORD_BYTES)]

    def changes(self) -> _Integers:
        """Return the rows whose text differs from that of the row before; the first is not among them."""
        words = self.words(0)
        differs = (self.lengths[1:] != self.lengths[:-1]) | (words[1:] != words[:-1])
        # Only rows that are still equal and go on: one long text must not make all the short ones be read again.
        rows = np.flatnonzero(~differs & (self.lengths[1:] > WORD_BYTES)) + 1
        skipped = WORD_BYTES
        while len(rows):
            is_equal = self.words(skipped, rows) == self.words(skipped, rows - 1)
            differs[rows[~is_equal] - 1] = True
            skipped += WORD_BYTES
            rows = rows[is_equal & (self.lengths[rows] > skipped)]
        return np.flatnonzero(differs) + 1

    def fingerprints(self) -> _Words:
        """Hash each text as `fingerprint` does: equal texts have equal numbers, others seldom."""
        mixed = self.lengths.astype(np.uint64)
        rows: _Integers | slice = slice(None)
        for skipped in range(0, int(self.lengths.max(initial=0)), WORD_BYTES):
            if skipped:
                longer = self.lengths[rows] > skipped
                rows = np.flatnonzero(longer) if isinstance(rows, slice) else rows[longer]
            product = (mixed[rows] ^ self.words(skipped, rows)) * np.uint64(_MIX)
            mixed[rows] = product ^ (product >> np.uint64(_SHIFT))
        return mixed


def fingerprint(text: str) -> int:
    """Return the fingerprint of one text, in [0, 2^64)."""
    # a half surrogate pair becomes bytes that no UTF-8 text has
    data = text.encode("utf-8", "surrogatepass")
    mixed = len(data)
    for skipped in range(0, len(data), WORD_BYTES):
        product = (mixed ^ int.from_bytes(data[skipped : skipped + WORD_BYTES], "little")) * _MIX & _ALL_BITS
        mixed = product ^ (product >> _SHIFT)
    return mixed


def joined(columns: Sequence[TextColumn]) -> TextColumn:
    """Concatenate columns of one buffer."""
    starts, lengths = ([getattr(each, name) for each in columns] for name in ("starts", "lengths"))
    return TextColumn(columns[0].buffer, np.concatenate(starts), np.concatenate(lengths))


# So many are compared one by one sooner than sorted.
_FEW: Final = 8


class ScoreColumn(Mapping[str, float]):
    """Scores by document, a mapping whose dictionary is built only when it is iterated or indexed.

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

    def find_rows(self, documents: Sequence[str]) -> dict[str, int]:
        """Return the row of each document that was retrieved, in no particular order."""
        sought = np.array([fingerprint(document) for document in documents], dtype=np.uint64)
        if len(sought) <= _FEW:
            candidates = np.flatnonzero(self._fingerprints == sought[:, None]) % len(self)
        else:
            candidates = np.flatnonzero(np.isin(self._fingerprints, sought))
        wanted = frozenset(documents)
        found = zip(self._documents.texts(candidates), candidates.tolist(), strict=True)
        return {document: row for document, row in found if document in wanted}

    def documents_at(self, rows: npt.NDArray[np.int64]) -> list[str]:
        return self._documents.texts(rows)

    def __getitem__(self, document: str) -> float:
        return self._mapping()[document]

    def __contains__(self, document: object) -> bool:
        return isinstance(document, str) and document in self.find_rows([document])

    def __iter__(self) -> Iterator[str]:
        return iter(self._mapping())

    def __len__(self) -> int:
        return len(self.scores)

    def _mapping(self) -> dict[str, float]:
        if self._by_document is None:
            self._by_document = dict(zip(self._documents.texts(), self.scores.tolist(), strict=True))
        return self._by_document
