"""Documents with their fields, queries and judgments, and the settings of the files that they are read from."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from plumbline.ground.errors import InvalidInput, quoted
from plumbline.retrieval.inputs import read_qrels, read_text
from plumbline.retrieval.run import Qrels
from plumbline.rows.records.data_file import parse_row_format
from plumbline.rows.records.reading import open_rows
from plumbline.rows.records.record import BadRow

# The field that chunkings cut; every other field of a document (title, author ...) is kept whole in each chunk.
BODY: Final = "text"
_TITLE: Final = "title"
_SUFFIXES: Final = (".txt", ".md", ".markdown")
# White space separates the columns of a run file; a `#` in front makes a line of it a comment.
_UNFIT: Final = re.compile(r"[\x00-\x20\x7f]|\A#")


@dataclass(frozen=True, slots=True)
class Document:
    """One document: texts by field name, in reading order. A field may be empty, and `text` may be absent."""

    id: str
    fields: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Query:
    """A query."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Corpus:
    """Documents, queries and judgments, ids as a run file can hold them.

    `unjudged`: queries without judgments, which are left out. `judged_elsewhere`: judged documents that are not in the
    corpus; no retriever can find them.
    """

    documents: Sequence[Document]
    queries: Sequence[Query]
    qrels: Qrels
    unjudged: int
    judged_elsewhere: int


# The place of a row in its file, for errors, with the row's id and texts by field.
PlacedTexts = tuple[str, str, Mapping[str, str]]


def build_corpus(documents: Iterable[PlacedTexts], queries: Iterable[PlacedTexts], qrels: Qrels) -> Corpus:
    """Build the corpus of the judged queries.

    Raises:
        InvalidInput: there is no document or no query, an id is empty or stands twice, a query has no text, a judged
            query is not asked, or no judged document is in the corpus.
    """
    fields_by_id = _collect_by_id(documents, "document")
    query_texts = {key: fields[BODY] for key, fields in _collect_by_id(queries, "query").items()}
    judged = {
        escape_id(query): {escape_id(each): grade for each, grade in grades.items()} for query, grades in qrels.items()
    }
    if unasked := [query for query in judged if query not in query_texts]:
        detail = f"{len(unasked)} of {len(judged)} judged queries are not among the queries, first {quoted(unasked[0])}"
        raise InvalidInput(f"{detail}; are the ids the same?", place="qrels")
    judged_documents = {document for grades in judged.values() for document in grades}
    if not judged_documents & fields_by_id.keys():
        example = f"judged is {quoted(min(judged_documents, default=''))}, the corpus has"
        raise InvalidInput(f"no judged document is in the corpus: {example} {quoted(next(iter(fields_by_id)))}")
    if blank := next((query for query in judged if not query_texts[query]), None):
        raise InvalidInput(f"query {quoted(blank)} has no text")
    return Corpus(
        documents=[Document(key, fields) for key, fields in fields_by_id.items()],
        queries=[Query(query, text) for query, text in query_texts.items() if query in judged],
        qrels=judged,
        unjudged=len(query_texts) - len(judged),
        judged_elsewhere=len(judged_documents - fields_by_id.keys()),
    )


def escape_id(own_id: str) -> str:
    """Escape an id for a run file: white space, control characters and a leading `#` become `%20` and so on."""
    return _UNFIT.sub(lambda match: f"%{ord(match[0]):02X}", own_id)


def _collect_by_id(rows: Iterable[PlacedTexts], what: str) -> dict[str, Mapping[str, str]]:
    found: dict[str, Mapping[str, str]] = {}
    for place, own_id, fields in rows:
        key = escape_id(own_id)
        if not key or key in found:
            wrong = f"{what} {quoted(own_id)} is there already" if key else f"the id of a {what} is empty"
            raise InvalidInput(wrong, place=place)
        found[key] = fields
    if not found:
        raise InvalidInput(f"there is no {what}")
    return found


def read_rows(path: Path, id_column: str, columns: Mapping[str, str]) -> Iterator[PlacedTexts]:
    """Yield the rows of a file: JSON Lines, JSON, CSV, TSV or Parquet by its suffix, text also with `.gz`.

    Args:
        columns: the column of each field; a row without it, or with null, leaves the field empty.

    Raises:
        InvalidInput: the file or a row cannot be read, a value is no text, or the column of `text` is in no row.
    """
    has_body = False
    with closing(open_rows(path, parse_row_format(path))) as source:
        for raw in source:
            place = f"{path.name}:{raw.line or raw.row}"
            if isinstance(raw.fields, BadRow):
                raise InvalidInput(f"{raw.fields.found}; expected {raw.fields.expected}", place=place)
            has_body |= columns[BODY] in raw.fields
            texts = {field: _read_value(raw.fields, column, place) for field, column in columns.items()}
            yield place, _read_value(raw.fields, id_column, place), texts
    if not has_body:
        raise InvalidInput(f"no row has {quoted(columns[BODY])}", place=path.name)


def _read_value(row: Mapping[str, object], column: str, place: str) -> str:
    value = row.get(column)
    if not isinstance(value, str | int | float | None) or isinstance(value, bool):
        raise InvalidInput(f"{quoted(column)} is {type(value).__name__}; expected text or a number", place=place)
    # A half of a surrogate pair cannot be written to any file
    return "" if value is None else str(value).encode("utf-8", "replace").decode()


class _CorpusSettings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class BeirCorpus(_CorpusSettings):
    """Folder in BEIR's layout (Thakur et al. 2021, github.com/beir-cellar/beir), each file plain or with `.gz`."""

    kind: Literal["beir"]
    folder: str
    split: str = Field("test", pattern=r"^[^/\\]+$", description="Name of a file in qrels/")

    def read(self, base: Path) -> Corpus:
        """Read the corpus; the folder is relative to `base`. InvalidInput names file and line of an error."""

        def find(name: str) -> Path:
            plain = base / self.folder / name
            zipped = plain.with_name(f"{plain.name}.gz")
            return zipped if zipped.is_file() and not plain.is_file() else plain

        return build_corpus(
            read_rows(find("corpus.jsonl"), "_id", {_TITLE: _TITLE, BODY: "text"}),
            read_rows(find("queries.jsonl"), "_id", {BODY: "text"}),
            read_qrels(find(f"qrels/{self.split}.tsv")),
        )


class _AskedCorpus(_CorpusSettings):
    """Base of corpora with queries in rows and a file of judgments."""

    queries: str = Field(description="File of queries")
    qrels: str = Field(description="Judgments: TREC's four columns, or TSV with the header query-id corpus-id score")
    query_id_column: str = "id"
    query_text_column: str = "text"

    def read(self, base: Path) -> Corpus:
        """Read the corpus; paths are relative to `base`. InvalidInput names file and line of an error."""
        queries = read_rows(base / self.queries, self.query_id_column, {BODY: self.query_text_column})
        return build_corpus(self._read_documents(base), queries, read_qrels(base / self.qrels))

    def _read_documents(self, base: Path) -> Iterator[PlacedTexts]:
        raise NotImplementedError


class RowsCorpus(_AskedCorpus):
    """Documents and queries in rows with named columns."""

    kind: Literal["rows"]
    documents: str = Field(description="File of documents")
    id_column: str = "id"
    text_column: str = "text"
    field_columns: tuple[str, ...] = Field((), description="Other columns that are fields, under their own names")

    def _read_documents(self, base: Path) -> Iterator[PlacedTexts]:
        columns = {**{column: column for column in self.field_columns}, BODY: self.text_column}
        return read_rows(base / self.documents, self.id_column, columns)


class FolderCorpus(_AskedCorpus):
    """Texts of a folder and its subfolders (`.txt`, `.md`, `.markdown`), hidden ones skipped.

    A document's id is its path in the folder, `guides/setup.md`; its title is a heading on the first line.
    """

    kind: Literal["folder"]
    folder: str

    def _read_documents(self, base: Path) -> Iterator[PlacedTexts]:
        folder = base / self.folder
        for own_id, path in sorted((each.relative_to(folder).as_posix(), each) for each in folder.rglob("*")):
            is_hidden = any(part.startswith(".") for part in own_id.split("/"))
            if path.is_file() and not is_hidden and path.suffix.lower() in _SUFFIXES:
                text = read_text(path, name=own_id)
                first = text.partition("\n")[0]
                yield own_id, own_id, {_TITLE: first.strip("# \r") if first.startswith("#") else "", BODY: text}


AnyCorpus = Annotated[BeirCorpus | RowsCorpus | FolderCorpus, Field(discriminator="kind")]
