"""Corpora in rows of data files (JSON Lines, JSON, CSV, TSV, Parquet) by column names, BEIR folders among them."""

import glob
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from plumbline.extras.lab.corpus import BODY, Corpus, Document, Query
from plumbline.ground.errors import InvalidInput, quoted
from plumbline.retrieval.inputs import read_qrels
from plumbline.retrieval.run import Qrels
from plumbline.rows.records.data_file import parse_row_format
from plumbline.rows.records.reading import open_rows
from plumbline.rows.records.record import BadRow, checked_text

# One path or pattern, or several.
Paths = str | tuple[str, ...]


def find_files(paths: Paths, base: Path) -> Sequence[Path]:
    """Return the named files, each once; those of a pattern (`*`, `?`, `[..]`, `**`) sorted by name.

    Raises:
        InvalidInput: a path is no file, or no file fits a pattern.
    """
    found: dict[Path, None] = {}
    for named in (paths,) if isinstance(paths, str) else paths:
        path = base / named
        if path.is_file():
            found[path] = None
        elif glob.has_magic(named):
            fitting = sorted(base / name for name in glob.glob(named, root_dir=base, recursive=True))
            files = [each for each in fitting if each.is_file()]
            if not files:
                raise InvalidInput(f"no file fits the pattern, looked for in {str(base)!r}", place=named)
            found.update(dict.fromkeys(files))
        else:
            raise InvalidInput(f"no such file, looked for in {str(base)!r}", place=named)
    return tuple(found)


# Where it stands, for errors, and what stands there.
PlacedDocument = tuple[str, Document]
PlacedQuery = tuple[str, Query]

# White space parts the columns of a run's file; a `#` in front makes a line of it a comment.
_UNFIT: Final = re.compile(r"[\x00-\x20\x7f]|\A#")


class CorpusSettings(BaseModel):
    """Options for queries and judgments that do not match."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    unjudged: Literal["keep", "leave_out"] = Field(
        default="keep", description="Queries without judgments: searched and written to the runs, or left out."
    )
    unasked: Literal["refuse", "leave_out"] = Field(
        default="refuse", description="Judged queries that are not among the queries: an error, or left out."
    )

    def gather(
        self, name: str, documents: Iterable[PlacedDocument], queries: Iterable[PlacedQuery], qrels: Qrels
    ) -> Corpus:
        """Check and return the corpus, ids as `run_id` writes them.

        Raises:
            InvalidInput: there is no document or no query, an id is empty or stands twice, a query has no text, a
                judged query is not asked (`unasked`), or judgments and corpus have no query or no document in common.
        """
        seen: dict[str, str] = {}
        kept = [Document(_new_id(each.id, "document", place, seen), each.fields) for place, each in documents]
        ids = {document.id for document in kept}
        if not kept:
            raise InvalidInput("there is no document", place=name)
        asked, seen = [], {}
        for place, query in queries:
            query_id = _new_id(query.id, "query", place, seen)
            text = " ".join(query.text.split())
            if not text:
                raise InvalidInput(f"query {quoted(query.id)} has no text", place=place)
            asked.append(Query(query_id, text))
        if not asked:
            raise InvalidInput("there is no query", place=name)
        renamed = {run_id(q): {run_id(doc): grade for doc, grade in grades.items()} for q, grades in qrels.items()}
        query_ids = {query.id for query in asked}
        judged = {query_id: grades for query_id, grades in renamed.items() if query_id in query_ids}
        unasked = next((query_id for query_id in renamed if query_id not in query_ids), "")
        if not judged:
            example = f"judged is {quoted(unasked)}, asked is {quoted(asked[0].id)}"
            raise InvalidInput(f"no judged query is among the queries: {example}", place=name)
        if unasked and self.unasked == "refuse":
            count = len(renamed) - len(judged)
            found = f"{count} of {len(renamed)} judged queries are not among the queries, first {quoted(unasked)}"
            detail = f'{found}; are the ids the same? unasked = "leave_out" continues without them'
            raise InvalidInput(detail, place=name)
        judged_documents = {document_id for grades in judged.values() for document_id in grades}
        if not judged_documents & ids:
            example = f"judged is {quoted(min(judged_documents))}, the corpus has {quoted(kept[0].id)}"
            raise InvalidInput(f"no judged document is in the corpus: {example}", place=name)
        if self.unjudged == "leave_out":
            asked = [query for query in asked if query.id in judged]
        return Corpus(name, tuple(kept), tuple(asked), judged, len(judged_documents - ids))


def run_id(own_id: str) -> str:
    """Escape an id for a run file: white space, control characters and a leading `#` become `%20` and so on."""
    return _UNFIT.sub(lambda match: f"%{ord(match[0]):02X}", own_id)


def _new_id(own_id: str, what: str, place: str, seen: dict[str, str]) -> str:
    if not own_id:
        raise InvalidInput(f"the id of a {what} is empty", place=place)
    fit = run_id(own_id)
    if fit in seen:
        raise InvalidInput(f"{what} {quoted(own_id)} is there already, at {seen[fit]}", place=place)
    seen[fit] = place
    return fit


_TEXT: Final = "text"
_EXPECTED_ID: Final = "text that is not empty, or a whole number"


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns of a file's rows.

    `fields`: the column of each field. A column of `fields` that is null or absent in a row leaves its field empty;
    one that no row has is an error, but for those in `optional`.
    """

    id: str
    fields: Mapping[str, str]
    optional: frozenset[str] = frozenset()


def read_documents(files: Sequence[Path], columns: Columns, form: str | None) -> Iterator[PlacedDocument]:
    """Yield a document for each row."""
    for place, own_id, fields in read_texts(files, columns, form):
        yield place, Document(own_id, fields)


def read_queries(files: Sequence[Path], id_column: str, text_column: str, form: str | None) -> Iterator[PlacedQuery]:
    """Yield a query for each row."""
    for place, own_id, fields in read_texts(files, Columns(id_column, {_TEXT: text_column}), form):
        yield place, Query(own_id, fields[_TEXT])


def read_texts(files: Sequence[Path], columns: Columns, form: str | None) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Yield place, id and fields of each row of the files.

    Raises:
        InvalidInput: a file cannot be read, a row cannot be read or has a value of another kind, or a column is
            nowhere; names file and line, or file and row for Parquet.
    """
    for path in files:
        missing = {columns.id, *columns.fields.values()} - columns.optional
        is_empty = True
        for place, row in _read_rows(path, missing, form):
            is_empty = False
            missing -= {column for column in missing if _find_value(row, column)[0]}
            try:
                fields = {field: _read_text(row, column) for field, column in columns.fields.items()}
                _, own_id = _find_value(row, columns.id)
                if own_id is None:
                    raise BadRow(f"no value for {quoted(columns.id)}", _EXPECTED_ID)
                if not isinstance(own_id, int) or isinstance(own_id, bool):
                    own_id = checked_text(own_id, quoted(columns.id), _EXPECTED_ID)
                yield place, str(own_id), fields
            except BadRow as bad:
                raise InvalidInput(f"{bad.found}; expected {bad.expected}", place=place) from None
        if missing and not is_empty:
            raise InvalidInput(f"no row has {', '.join(map(quoted, sorted(missing)))}", place=path.name)


def _read_rows(path: Path, needed: set[str], form: str | None) -> Iterator[tuple[str, Mapping[str, object]]]:
    with closing(open_rows(path, parse_row_format(path, form))) as source:
        there = source.columns
        absent = [] if there is None else [each for each in needed if not {each, each.partition(".")[0]} & {*there}]
        if absent and there is not None:
            named = ", ".join(map(quoted, sorted(absent)))
            detail = f"there is no column {named}; there are {', '.join(map(quoted, there))}"
            raise InvalidInput(detail, place=path.name)
        for raw in source:
            place = f"{path.name}, row {raw.row}" if raw.line is None else f"{path.name}:{raw.line}"
            if isinstance(raw.fields, BadRow):
                raise InvalidInput(f"{raw.fields.found}; expected {raw.fields.expected}", place=place)
            yield place, raw.fields


def _read_text(row: Mapping[str, object], column: str) -> str:
    """Return the text at a column; a number as it is written."""
    _, value = _find_value(row, column)
    if value is None:
        return ""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return checked_text(value, quoted(column), "text")


def _find_value(row: Mapping[str, object], column: str) -> tuple[bool, object]:
    """Return True if the row has the column, with its value; `a.b` is also b inside the object a."""
    if column in row:
        return True, row[column]
    outer, _, inner = column.partition(".")
    within = row.get(outer)
    return (True, within[inner]) if isinstance(within, Mapping) and inner in within else (False, None)


RowForm = Literal["jsonl", "json", "csv", "tsv", "parquet"]


class AskedCorpus(CorpusSettings):
    """Base of corpora with queries in rows and a file of judgments."""

    queries: Paths = Field(description="File or files of queries: JSON Lines, JSON, CSV, TSV or Parquet.")
    qrels: str = Field(description="Judgments: TREC's four columns, or TSV with the header query-id corpus-id score.")
    query_id_column: str = Field(default="id", description="Where a query's id stands: text or a whole number.")
    query_text_column: str = Field(default="text", description="Where a query's text stands.")
    query_format: RowForm | None = Field(default=None, description="Of the queries, where the suffix does not say it.")

    def read_query_files(self, base: Path) -> Iterator[PlacedQuery]:
        """Yield the queries."""
        files = find_files(self.queries, base)
        return read_queries(files, self.query_id_column, self.query_text_column, self.query_format)


class RowsCorpus(AskedCorpus):
    """Documents and queries with named columns; `a.b` is b inside the object a."""

    kind: Literal["rows"]
    documents: Paths = Field(description="File or files of documents, or patterns.")
    format: RowForm | None = Field(default=None, description="Of the documents, where the suffix does not say it.")
    id_column: str = Field(default="id", description="Where a document's id stands: text or a whole number.")
    text_column: str = Field(default="text", description="Where a document's text stands.")
    field_columns: tuple[str, ...] = Field(
        default=(), description="Other columns that are fields of the document, under their own names."
    )

    def read(self, name: str, base: Path) -> Corpus:
        """Read the corpus; paths are relative to `base`. InvalidInput names file and line of what is wrong."""
        fields = {column: column for column in self.field_columns} | {BODY: self.text_column}
        documents = read_documents(find_files(self.documents, base), Columns(self.id_column, fields), self.format)
        return self.gather(name, documents, self.read_query_files(base), read_qrels(base / self.qrels))


_BEIR_ID: Final = "_id"
_TITLE: Final = "title"


class BeirCorpus(CorpusSettings):
    """Folder in BEIR's layout (Thakur et al. 2021, github.com/beir-cellar/beir), each file plain or with `.gz`."""

    kind: Literal["beir"]
    folder: str = Field(description="The folder.")
    split: str = Field(
        default="test", description="Which judgments: the name of a file in qrels/.", pattern=r"^[^/\\]+$"
    )
    metadata_fields: tuple[str, ...] = Field(
        default=(), description="Names inside of `metadata` that are fields of the document."
    )
    unjudged: Literal["keep", "leave_out"] = Field(
        default="leave_out",
        description="Queries without judgments in the split; queries.jsonl holds the queries of all splits.",
    )

    def read(self, name: str, base: Path) -> Corpus:
        """Read the corpus; the folder is relative to `base`. InvalidInput names file and line of what is wrong."""
        folder = base / self.folder
        fields = {_TITLE: _TITLE} | {each: f"metadata.{each}" for each in self.metadata_fields} | {BODY: "text"}
        columns = Columns(_BEIR_ID, fields, optional=frozenset(fields.values()) - {"text"})
        qrels = read_qrels(self._file(folder, f"qrels/{self.split}.tsv"))
        documents = read_documents([self._file(folder, "corpus.jsonl")], columns, "jsonl")
        queries = read_queries([self._file(folder, "queries.jsonl")], _BEIR_ID, "text", "jsonl")
        return self.gather(name, documents, queries, qrels)

    def _file(self, folder: Path, name: str) -> Path:
        for path in (folder / name, folder / f"{name}.gz"):
            if path.is_file():
                return path
        raise InvalidInput(f"the folder {self.folder!r} has no such file, nor with .gz", place=name)
