"""Documents, queries and judgments of an experiment, read from files, and documents cut into chunks."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from plumbline.ground.errors import InvalidInput, quoted
from plumbline.judging.text.segmentation import split_sentences
from plumbline.retrieval.inputs import read_qrels
from plumbline.retrieval.run import Qrels
from plumbline.rows.records.data_file import parse_row_format
from plumbline.rows.records.reading import open_rows
from plumbline.rows.records.record import BadRow

# The field that chunkings cut; every other field of a document (title, author ...) is kept whole in each chunk.
BODY: Final = "text"
# White space separates the columns of a run file; a `#` in front makes a line of it a comment.
_UNFIT: Final = re.compile(r"[\x00-\x20\x7f]|\A#")
# A word stands between blanks; in Han and kana, which have no blanks, a character is a word with its punctuation.
_UNSPACED: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
_WORD: Final = re.compile(rf"[{_UNSPACED}][、。，．…！？：；》〉）】」』”’]*+|[^\s{_UNSPACED}]++")
_CHUNKING: Final = re.compile(r"whole|(tokens|sentences)-([1-9]\d{0,5})(?:-(\d{1,5}))?")

Span = tuple[int, int]
# The place of a row in its file, for errors, with the row's id and texts by field.
PlacedTexts = tuple[str, str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Unit of indexing and retrieval: a document or a part of its text, with the document's other fields whole."""

    id: str
    document_id: str
    fields: Mapping[str, str]

    @property
    def text(self) -> str:
        """Return all fields that are not empty, a line each, for an encoder."""
        return "\n".join(text for text in self.fields.values() if text)


@dataclass(frozen=True, slots=True)
class Corpus:
    """Texts by field of documents, texts of queries, and judgments, by ids that a run file can hold.

    unjudged: queries without judgments, left out. judged_elsewhere: judged documents that the corpus lacks.
    """

    documents: Mapping[str, Mapping[str, str]]
    queries: Mapping[str, str]
    qrels: Qrels
    unjudged: int
    judged_elsewhere: int


class CorpusFiles(BaseModel):
    """`[corpus]`: a folder in BEIR's layout (Thakur et al. 2021), or files of documents, queries and judgments."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    folder: str | None = Field(None, description="Holds corpus.jsonl, queries.jsonl and qrels/, plain or with .gz")
    split: str = Field("test", pattern=r"^[^/\\]+$", description="The name of a file in qrels/ of `folder`")
    documents: str | None = Field(None, description="File of documents")
    queries: str | None = Field(None, description="File of queries")
    qrels: str | None = Field(None, description="File of judgments, in a form of `plumbline retrieval evaluate`")
    id_column: str = "id"
    text_column: str = "text"
    field_columns: tuple[str, ...] = Field((), description="Other columns that are fields, under their own names")
    query_id_column: str = "id"
    query_text_column: str = "text"

    @model_validator(mode="after")
    def _check_files(self) -> Self:
        files = (self.documents, self.queries, self.qrels)
        if any(files) == (self.folder is not None) or (any(files) and not all(files)):
            raise ValueError("expected `folder`, or `documents`, `queries` and `qrels`")
        return self

    def read(self, base: Path) -> Corpus:
        """Read the corpus of the judged queries, from paths relative to `base`; InvalidInput names file and line."""
        columns = {**dict(zip(self.field_columns, self.field_columns, strict=True)), BODY: self.text_column}
        files = (self.documents, self.queries, self.qrels)
        ids, query_columns = (self.id_column, self.query_id_column), {BODY: self.query_text_column}
        if self.folder is not None:
            files = ("corpus.jsonl", "queries.jsonl", f"qrels/{self.split}.tsv")
            ids, columns, query_columns = ("_id", "_id"), {"title": "title", BODY: "text"}, {BODY: "text"}
        documents, queries, judged = (_plain_or_zipped(base / (self.folder or "") / str(each)) for each in files)
        fields_by_id = _collect_by_id(_read_rows(documents, ids[0], columns), "document")
        query_fields = _collect_by_id(_read_rows(queries, ids[1], query_columns), "query")
        query_texts = {key: fields[BODY] for key, fields in query_fields.items()}
        return _check_corpus(fields_by_id, query_texts, read_qrels(judged).qrels)


def _plain_or_zipped(path: Path) -> Path:
    zipped = path.with_name(f"{path.name}.gz")
    return zipped if zipped.is_file() and not path.is_file() else path


def _check_corpus(fields_by_id: Mapping[str, Mapping[str, str]], query_texts: Mapping[str, str], read: Qrels) -> Corpus:
    qrels = {_escape_id(query): {_escape_id(each): grade for each, grade in of.items()} for query, of in read.items()}
    if unasked := [query for query in qrels if query not in query_texts]:
        detail = f"{len(unasked)} of {len(qrels)} judged queries are not among the queries, first {quoted(unasked[0])}"
        raise InvalidInput(f"{detail}; are the ids the same?", place="qrels")
    judged = {document for grades in qrels.values() for document in grades}
    if not judged & fields_by_id.keys():
        example = f"judged is {quoted(min(judged, default=''))}, the corpus has"
        raise InvalidInput(f"no judged document is in the corpus: {example} {quoted(next(iter(fields_by_id)))}")
    if blank := next((query for query in qrels if not query_texts[query]), None):
        raise InvalidInput(f"query {quoted(blank)} has no text")
    return Corpus(
        documents=fields_by_id,
        queries={query: text for query, text in query_texts.items() if query in qrels},
        qrels=qrels,
        unjudged=len(query_texts) - len(qrels),
        judged_elsewhere=len(judged - fields_by_id.keys()),
    )


def _escape_id(own_id: str) -> str:
    return _UNFIT.sub(lambda match: f"%{ord(match[0]):02X}", own_id)


def _collect_by_id(rows: Iterable[PlacedTexts], what: str) -> dict[str, Mapping[str, str]]:
    found: dict[str, Mapping[str, str]] = {}
    for place, own_id, fields in rows:
        key = _escape_id(own_id)
        if not key or key in found:
            wrong = f"{what} {quoted(own_id)} is there already" if key else f"the id of a {what} is empty"
            raise InvalidInput(wrong, place=place)
        found[key] = fields
    if not found:
        raise InvalidInput(f"there is no {what}")
    return found


def _read_rows(path: Path, id_column: str, column_by_field: Mapping[str, str]) -> Iterator[PlacedTexts]:
    """Yield the rows of a file; a row without a column, or with null in it, leaves the field empty."""
    has_body = False
    with closing(open_rows(path, parse_row_format(path))) as source:
        for raw in source:
            place = f"{path.name}:{raw.line or raw.row}"
            if isinstance(raw.fields, BadRow):
                raise InvalidInput(raw.fields.text, place=place)
            has_body |= column_by_field[BODY] in raw.fields
            texts = {name: _read_value(raw.fields, column, place) for name, column in column_by_field.items()}
            yield place, _read_value(raw.fields, id_column, place), texts
    if not has_body:
        raise InvalidInput(f"no row has {quoted(column_by_field[BODY])}", place=path.name)


def _read_value(row: Mapping[str, object], column: str, place: str) -> str:
    value = row.get(column)
    if not isinstance(value, str | int | float | None) or isinstance(value, bool):
        raise InvalidInput(f"{quoted(column)} is {type(value).__name__}; expected text or a number", place=place)
    # Half of a surrogate pair cannot be written to any file.
    return "" if value is None else str(value).encode("utf-8", "replace").decode()


@dataclass(frozen=True, slots=True)
class Chunking:
    """A way to cut documents: `whole`, windows of words (`tokens-200-50`), or whole sentences (`sentences-100-1`).

    size: of the longest chunk, in words. overlap: what a chunk repeats of the one before, in words or sentences.
    """

    name: str
    kind: str = "whole"
    size: int = 0
    overlap: int = 0

    def cut(self, document_id: str, fields: Mapping[str, str]) -> Iterator[Chunk]:
        """Yield verbatim chunks `<document id>#<n>`, n from 0; a whole document keeps its id."""
        text = fields.get(BODY, "")
        if self.kind == "whole":
            yield Chunk(document_id, document_id, {**fields, BODY: text})
            return
        spans = self._sentence_spans(text) if self.kind == "sentences" else self._windows(_words(text), self.overlap)
        for number, (start, end) in enumerate(list(spans) or [(0, 0)]):
            yield Chunk(f"{document_id}#{number}", document_id, {**fields, BODY: text[start:end]})

    def _windows(self, words: Sequence[Span], overlap: int) -> Iterator[Span]:
        for first in range(0, max(len(words) - overlap, min(len(words), 1)), self.size - overlap):
            yield words[first][0], words[min(first + self.size, len(words)) - 1][1]

    def _sentence_spans(self, text: str) -> Iterator[Span]:
        sentences = [_words(text, each.start, each.end) for each in split_sentences(text)]
        pieces = [piece for words in sentences for piece in self._windows(words, 0)]
        lengths = [len(_words(text, start, end)) for start, end in pieces]
        first = after = 0
        while after < len(pieces):
            # A repeated sentence gives way where no new one would fit behind it.
            while first < after and sum(lengths[first : after + 1]) > self.size:
                first += 1
            after += 1
            while after < len(pieces) and sum(lengths[first : after + 1]) <= self.size:
                after += 1
            yield pieces[first][0], pieces[after - 1][1]
            first = max(first, after - self.overlap)


def parse_chunking(name: str) -> Chunking:
    found = _CHUNKING.fullmatch(name)
    if found is None:
        wanted = "expected whole, tokens-SIZE-OVERLAP or sentences-SIZE-OVERLAP, such as tokens-200-50"
        raise InvalidInput(f"there is no chunking {name[:80]!r}; {wanted}")
    chunking = Chunking(name, found[1] or "whole", int(found[2] or 0), int(found[3] or 0))
    if chunking.kind == "tokens" and chunking.overlap >= chunking.size:
        raise InvalidInput(f"{name}: the overlap is not less than the size")
    return chunking


def _words(text: str, start: int = 0, end: int | None = None) -> list[Span]:
    return [match.span() for match in _WORD.finditer(text, start, len(text) if end is None else end)]
