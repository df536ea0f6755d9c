"""Documents, queries and judgments of an experiment, read from files, and documents cut into chunks."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import BaseModel, Field

from plumbline.ground.errors import InvalidInput, quoted
from plumbline.judging.text.segmentation import split_sentences
from plumbline.retrieval.inputs import read_qrels
from plumbline.retrieval.run import Qrels
from plumbline.rows.records.data_file import parse_row_format
from plumbline.rows.records.reading import open_rows
from plumbline.rows.records.record import BadRow

# The field that chunkings cut; every other field of a document (title, author ...) is kept whole in each chunk.
BODY: Final = "text"
_ID_COLUMNS: Final = ("id", "_id")
# A word stands between blanks; in Han and kana, which have no blanks, a character is a word with its punctuation.
_UNSPACED: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
_WORD: Final = re.compile(rf"[{_UNSPACED}][、。，．…！？：；》〉）】」』”’]*+|[^\s{_UNSPACED}]++")
_CHUNKING: Final = re.compile(r"whole|(tokens|sentences)-([1-9]\d{0,5})(?:-(\d{1,5}))?")

Span = tuple[int, int]
Fields = Mapping[str, str]


class LabTable(BaseModel, extra="forbid", frozen=True):
    """A table of an experiment file."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Unit of indexing and retrieval: a document or a part of its text, with the document's other fields whole."""

    id: str
    document_id: str
    fields: Fields

    @property
    def text(self) -> str:
        """Return all fields that are not empty, a line each, for an encoder."""
        return "\n".join(text for text in self.fields.values() if text)


@dataclass(frozen=True, slots=True)
class Corpus:
    """Fields of documents, texts of the judged queries, and judgments, by id. `unjudged`: queries left out."""

    documents: Mapping[str, Fields]
    queries: Mapping[str, str]
    qrels: Qrels
    unjudged: int


class CorpusFiles(LabTable):
    """`[corpus]`: files of documents, queries and judgments; the defaults are those of a folder in BEIR's layout."""

    folder: str = Field(".", description="Folder of the files")
    documents: str = Field("corpus.jsonl", description="Rows with `id` or `_id` and `fields`")
    queries: str = Field("queries.jsonl", description="Rows with `id` or `_id` and `text`")
    qrels: str = Field("qrels/test.tsv", description="Judgments, in a form of `plumbline retrieval evaluate`")
    fields: tuple[str, ...] = Field(("title", BODY), description="Columns of documents that are read")

    def read(self, base: Path) -> Corpus:
        """Read the corpus of the judged queries, from a folder relative to `base`; InvalidInput names file and line."""
        folder = base / self.folder
        documents, asked = _read_texts(folder / self.documents, self.fields), _read_texts(folder / self.queries, [BODY])
        qrels = read_qrels(folder / self.qrels).qrels
        if unasked := [query for query in qrels if not asked.get(query)]:
            detail = f"{len(unasked)} of {len(qrels)} judged queries have no text in {self.queries}"
            raise InvalidInput(f"{detail}, first {quoted(unasked[0])}; are the ids the same?", place=self.qrels)
        if not any(document in documents for grades in qrels.values() for document in grades):
            raise InvalidInput(f"no judged document is in {self.documents}; are the ids the same?", place=self.qrels)
        return Corpus(documents, {query: asked[query][BODY] for query in qrels}, qrels, len(asked) - len(qrels))


def _read_texts(path: Path, fields: Sequence[str]) -> dict[str, Fields]:
    """Return the fields of each row that are not empty, by id."""
    found: dict[str, Fields] = {}
    with closing(open_rows(path, parse_row_format(path))) as source:
        for raw in source:
            place = f"{path.name}:{raw.line or raw.row}"
            if isinstance(raw.fields, BadRow):
                raise InvalidInput(raw.fields.text, place=place)
            key = next((_read_value(raw.fields, name, place) for name in _ID_COLUMNS if name in raw.fields), "")
            if not key or key in found:
                raise InvalidInput(
                    f"id {quoted(key)} is there already" if key else "expected `id` or `_id`", place=place
                )
            found[key] = {name: text for name in fields if (text := _read_value(raw.fields, name, place))}
    if not any(BODY in texts for texts in found.values()):
        raise InvalidInput(f"no row has a {quoted(BODY)}", place=path.name)
    return found


def _read_value(row: Mapping[str, object], column: str, place: str) -> str:
    value = row.get(column)
    if not isinstance(value, str | int | float | None) or isinstance(value, bool):
        raise InvalidInput(f"{quoted(column)} is {type(value).__name__}; expected text or a number", place=place)
    # Half of a surrogate pair can be neither written nor encoded.
    return "" if value is None else str(value).encode("utf-8", "replace").decode()


@dataclass(frozen=True, slots=True)
class Chunking:
    """A way to cut documents: `whole`, windows of words (`tokens-200-50`), or whole sentences (`sentences-100-1`).

    size: of the longest chunk, in words. overlap: what a chunk repeats of the one before, in words or sentences.
    """

    kind: str
    size: int
    overlap: int

    def cut(self, document_id: str, fields: Fields) -> Iterator[Chunk]:
        """Yield verbatim chunks `<document id>#<n>`, n from 0; a whole document keeps its id."""
        if self.kind == "whole":
            yield Chunk(document_id, document_id, fields)
            return
        text = fields.get(BODY, "")
        for number, (start, end) in enumerate(list(self._spans(text)) or [(0, 0)]):
            yield Chunk(f"{document_id}#{number}", document_id, {**fields, BODY: text[start:end]})

    def _spans(self, text: str) -> Iterator[Span]:
        window: list[Sequence[Span]] = []
        for piece in self._pieces(text):
            if sum(map(len, window)) + len(piece) > self.size:
                yield window[0][0][0], window[-1][-1][1]
                window = window[len(window) - self.overlap :] if self.overlap < len(window) else window
                # What is repeated gives way where nothing new would fit behind it.
                while sum(map(len, window)) + len(piece) > self.size:
                    del window[0]
            window.append(piece)
        if window:
            yield window[0][0][0], window[-1][-1][1]

    def _pieces(self, text: str) -> Iterator[Sequence[Span]]:
        """Yield the words, or the words of each sentence, a long one in several pieces."""
        units = (
            [(0, len(text))] if self.kind == "tokens" else [(each.start, each.end) for each in split_sentences(text)]
        )
        length = 1 if self.kind == "tokens" else self.size
        for start, end in units:
            words = [match.span() for match in _WORD.finditer(text, start, end)]
            yield from (words[first : first + length] for first in range(0, len(words), length))


def parse_chunking(name: str) -> Chunking:
    found = _CHUNKING.fullmatch(name)
    if found is None:
        wanted = "expected whole, tokens-SIZE-OVERLAP or sentences-SIZE-OVERLAP, such as tokens-200-50"
        raise InvalidInput(f"there is no chunking {name[:80]!r}; {wanted}")
    chunking = Chunking(found[1] or "whole", int(found[2] or 0), int(found[3] or 0))
    if chunking.kind == "tokens" and chunking.overlap >= chunking.size:
        raise InvalidInput(f"{name}: the overlap is not less than the size")
    return chunking
