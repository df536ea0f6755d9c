"""TREC's files and tables: judgments and runs read line by line; errors name the line, and nothing is skipped silently.

A line that is blank, or whose first character is `#`, is a comment. Blanks are ASCII white space, as in C's isspace.
"""

import csv
import io
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from types import MappingProxyType
from typing import BinaryIO, Final, NamedTuple

from plumbline.ground.errors import InvalidInput, quoted
from plumbline.ground.printed_lists import parse_text_list
from plumbline.retrieval.run import MAX_GRADE, Qrels, Results, Run
from plumbline.retrieval.text_file import ReadLimits, file_error, format_place, numbered_lines, read_text_bytes

_QRELS_FORM: Final = "'query_id 0 doc_id relevance'"
_RUN_FORM: Final = "'query_id Q0 doc_id rank score tag'"
_RANKED_FORM: Final = "'query_id doc_id rank'"
_HEADER_FORM: Final = "'query-id corpus-id score'"
_QRELS_FIELDS: Final = 4
_RUN_FIELDS: Final = 6
_TRIPLE_FIELDS: Final = 3
# Names that the three columns of a judgment table go by, BEIR's first.
HEADER_NAMES: Final = (
    {"query-id", "query_id", "qid", "query", "q_id"},
    {"corpus-id", "corpus_id", "doc-id", "doc_id", "docid", "docno", "document_id", "pid", "doc"},
    {"score", "relevance", "rel", "label", "grade"},
)
_MAX_NUMBER_LENGTH: Final = 64

_Row = tuple[int, list[bytes]]


def read_qrels(source: bytes | BinaryIO, *, name: str, limits: ReadLimits) -> Qrels:
    """Read judgments from four columns `query_id 0 doc_id relevance`, or BEIR's table with its header.

    The second of four columns is not read, as in trec_eval; a fifth is refused, as in trec_eval. A table needs the
    header `query-id corpus-id score`; its ids may hold blanks when tabs separate them.

    Raises:
        InvalidInput: names the file and the line; also when the file holds no judgment.
    """
    data = read_text_bytes(source, name=name, limits=limits)
    qrels: dict[str, dict[str, int]] = {}
    for line_number, (query, doc, grade) in _qrels_rows(data, name, limits):
        judged = qrels.setdefault(query.decode(), {})
        doc_id = doc.decode()
        if doc_id in judged:
            raise _duplicate(name, line_number, doc_id, query)
        judged[doc_id] = _grade(grade, name, line_number)
    if not qrels:
        raise file_error(f"holds no judgment; expected lines of {_QRELS_FORM}", name)
    return qrels


def read_run(source: bytes | BinaryIO, *, name: str, limits: ReadLimits) -> Run:
    """Read a run from six columns `query_id Q0 doc_id rank score tag`, or MS MARCO's three `query_id doc_id rank`.

    Six columns give scores: the columns Q0, rank and tag are not read, and a seventh is ignored, as in trec_eval.
    Three columns give ranked lists in the order of their ranks: ranks are distinct and >= 0, gaps are closed.
    The first row decides which it is. The run is named `name`.

    Raises:
        InvalidInput: names the file and the line; also when the file holds no row.
    """
    data = read_text_bytes(source, name=name, limits=limits)
    rows = _rows(data, name, limits)
    first = next(rows, None)
    if first is None:
        raise file_error(f"holds no row; expected lines of {_RUN_FORM}", name)
    if len(first[1]) == _TRIPLE_FIELDS:
        return Run(name, _ranked_lists(chain([first], rows), name))
    if len(first[1]) >= _RUN_FIELDS:
        return Run(name, _scores(chain([first], rows), name))
    expected = f"expected 6 fields {_RUN_FORM} or 3 fields {_RANKED_FORM}"
    raise file_error(f"{expected}, found {len(first[1])}", name, first[0])


def format_run(run: Run) -> Iterator[str]:
    """Yield the lines of a run with scores, as its mappings are ordered; a query without documents has none."""
    for query_id, results in run.results.items():
        for rank, (doc_id, score) in enumerate(results.items() if isinstance(results, Mapping) else (), start=1):
            yield f"{query_id} Q0 {doc_id} {rank} {score!r} {run.name}\n"


def _rows(data: bytes, name: str, limits: ReadLimits) -> Iterator[_Row]:
    count = 0
    for line_number, line in numbered_lines(data):
        fields = line.split()
        if not fields or line.startswith(b"#"):
            continue
        count += 1
        if count > limits.max_rows:
            raise file_error(f"more than {limits.max_rows} rows, the limit", name, line_number)
        yield line_number, fields


def _scores(rows: Iterable[_Row], name: str) -> dict[str, Results]:
    results: dict[str, Results] = {}
    current, scores = b"", dict[str, float]()
    for line_number, fields in rows:
        if len(fields) < _RUN_FIELDS:
            raise file_error(f"expected 6 fields {_RUN_FORM}, found {len(fields)}", name, line_number)
        if fields[0] != current:
            current = fields[0]
            scores = results.setdefault(current.decode(), {})  # type: ignore[assignment]  # only dicts go in
        doc_id = fields[2].decode()
        if doc_id in scores:
            raise _duplicate(name, line_number, doc_id, current)
        scores[doc_id] = _number(fields[4], name, line_number, "score")
    return results


def _ranked_lists(rows: Iterable[_Row], name: str) -> dict[str, Results]:
    ranked: dict[str, tuple[dict[str, int], set[int]]] = {}
    for line_number, fields in rows:
        if len(fields) != _TRIPLE_FIELDS:
            raise file_error(f"expected 3 fields {_RANKED_FORM}, found {len(fields)}", name, line_number)
        rank_by_doc, ranks = ranked.setdefault(fields[0].decode(), ({}, set()))
        doc_id = fields[1].decode()
        if len(fields[2]) > _MAX_NUMBER_LENGTH or not fields[2].isdigit():
            detail = f"rank {quoted(fields[2])} is not an integer >= 0; expected 3 fields {_RANKED_FORM}"
            raise file_error(detail, name, line_number)
        rank = int(fields[2])
        if doc_id in rank_by_doc:
            raise _duplicate(name, line_number, doc_id, fields[0])
        if rank in ranks:
            detail = f"rank {rank} is taken by another document of query {quoted(fields[0])}"
            raise file_error(detail, name, line_number)
        rank_by_doc[doc_id] = rank
        ranks.add(rank)
    return {query_id: tuple(sorted(by_doc, key=by_doc.__getitem__)) for query_id, (by_doc, _) in ranked.items()}


def _qrels_rows(data: bytes, name: str, limits: ReadLimits) -> Iterator[tuple[int, tuple[bytes, bytes, bytes]]]:
    """Yield query, document and grade of each row, in the form that the first row has."""
    rows = _rows(data, name, limits)
    first = next(rows, None)
    if first is None:
        return
    if len(first[1]) == _TRIPLE_FIELDS:
        words = [field.decode().lower() for field in first[1]]
        if not all(word in names for word, names in zip(words, HEADER_NAMES, strict=True)):
            detail = f"expected 4 fields {_QRELS_FORM}, found 3; a table of 3 columns needs the header {_HEADER_FORM}"
            raise file_error(detail, name, first[0])
        yield from _table_rows(data, rows, name, header_line=first[0])
        return
    for line_number, fields in chain([first], rows):
        if len(fields) != _QRELS_FIELDS:
            raise file_error(f"expected 4 fields {_QRELS_FORM}, found {len(fields)}", name, line_number)
        yield line_number, (fields[0], fields[2], fields[3])


def _table_rows(
    data: bytes, rows: Iterator[_Row], name: str, *, header_line: int
) -> Iterator[tuple[int, tuple[bytes, bytes, bytes]]]:
    lines = numbered_lines(data)
    header = next(line for line_number, line in lines if line_number == header_line)
    has_tabs = b"\t" in header.strip()
    for line_number, blank_separated in rows:
        fields = blank_separated
        if has_tabs:
            line = next(line for number, line in lines if number == line_number)
            fields = [field.strip() for field in line.split(b"\t")]
        if len(fields) != _TRIPLE_FIELDS:
            raise file_error(f"expected 3 fields {_HEADER_FORM}, found {len(fields)}", name, line_number)
        if not all(fields):
            raise file_error("a field is empty", name, line_number)
        yield line_number, (fields[0], fields[1], fields[2])


def _grade(field: bytes, name: str, line_number: int) -> int:
    value = _number(field, name, line_number, "relevance")
    if not value.is_integer():
        detail = f"relevance {quoted(field)} is not an integer; round it or scale the grades"
        raise file_error(detail, name, line_number)
    if abs(value) > MAX_GRADE:
        raise file_error(f"relevance {quoted(field)} is beyond {MAX_GRADE}", name, line_number)
    return int(value)


def _number(field: bytes, name: str, line_number: int, what: str) -> float:
    try:
        value = float(field)
    except ValueError:
        value = math.nan
    # Python reads 1_0 as 10; no other reader of these files does.
    if not math.isfinite(value) or b"_" in field:
        raise file_error(f"{what} {quoted(field)} is not a finite number", name, line_number)
    return value


def _duplicate(name: str, line_number: int, doc_id: str, query: bytes) -> InvalidInput:
    detail = f"document {quoted(doc_id)} is listed twice for query {quoted(query)}"
    return file_error(detail, name, line_number)


# The names that LiveRAG's result and DataMorgana's question files use.
QUERY_COLUMN: Final = "qid"
RETRIEVED_COLUMN: Final = "doc_ids"
GOLD_COLUMN: Final = "document_ids"

_MAX_COLUMNS_SHOWN: Final = 12


def read_results_table(source: bytes | BinaryIO, *, name: str, limits: ReadLimits) -> Run:
    """Read a run named `name`: each query's retrieved ids, best first, as the cell lists them (repeats included).

    The cell is a JSON list or a printed Python list of strings or integers. Other columns are not read.

    Raises:
        InvalidInput: names the file and the line at which the row starts.
    """
    return Run(name, {query_id: ids for _, query_id, ids in _listed_rows(source, name, limits, RETRIEVED_COLUMN)})


def read_reference_table(source: bytes | BinaryIO, *, name: str, limits: ReadLimits) -> Qrels:
    """Read judgments: each query's gold ids with relevance 1; an empty list is a query without relevant documents.

    Raises:
        InvalidInput: as `read_results_table`, and for an id that a list holds twice.
    """
    qrels: dict[str, dict[str, int]] = {}
    for line_number, query_id, ids in _listed_rows(source, name, limits, GOLD_COLUMN):
        qrels[query_id] = dict.fromkeys(ids, 1)
        if len(qrels[query_id]) != len(ids):
            raise file_error("an id is listed twice for one query", name, line_number)
    return qrels


def _listed_rows(
    source: bytes | BinaryIO, name: str, limits: ReadLimits, ids_column: str
) -> Iterator[tuple[int, str, tuple[str, ...]]]:
    seen: set[str] = set()
    for line_number, (query_id, listed) in _records(source, name, limits, (QUERY_COLUMN, ids_column)):
        place = format_place(name, line_number)
        if not query_id:
            raise InvalidInput(f"column {quoted(QUERY_COLUMN)} is empty", place=place)
        if query_id in seen:
            raise InvalidInput(f"query {quoted(query_id)} has a second row", place=place)
        seen.add(query_id)
        ids: tuple[str, ...] = ("",)
        with suppress(ValueError):
            ids = parse_text_list(listed, has_numbers=True)
        if not all(map(str.strip, ids)):
            detail = (
                f"column {quoted(ids_column)} should hold a list such as ['doc-1', 'doc-2'], found {quoted(listed)}"
            )
            raise InvalidInput(detail, place=place)
        yield line_number, query_id, ids
    if not seen:
        raise file_error("holds no row below the header", name)


def _records(
    source: bytes | BinaryIO, name: str, limits: ReadLimits, columns: tuple[str, str]
) -> Iterator[tuple[int, list[str]]]:
    """Yield the two cells of each row and the line where it starts; a quoted cell may span lines."""
    data = read_text_bytes(source, name=name, limits=limits)
    text = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", newline="")
    reader = csv.reader(text, delimiter="\t", strict=True)
    start, count = 1, 0
    try:
        header = next(reader, None)
        positions = _positions(header, columns, name)
        start = reader.line_num + 1
        for record in reader:
            if record:
                count += 1
                if count > limits.max_rows:
                    raise file_error(f"more than {limits.max_rows} rows, the limit", name, start)
                if len(record) != len(header or ()):
                    detail = f"expected {len(header or ())} tab-separated cells, found {len(record)}"
                    raise file_error(detail, name, start)
                yield start, [record[position].strip() for position in positions]
            start = reader.line_num + 1
    except csv.Error as error:
        raise file_error(f"the row cannot be read: {error}", name, start) from error


def _positions(header: list[str] | None, columns: tuple[str, str], name: str) -> list[int]:
    if not header:
        raise file_error("the first line should be a header; it is empty", name)
    names = [cell.strip() for cell in header]
    for column in columns:
        if names.count(column) != 1:
            what = "missing" if column not in names else "named twice"
            found = ", ".join(quoted(cell) for cell in names[:_MAX_COLUMNS_SHOWN])
            raise file_error(f"column {quoted(column)} is {what}; found {found}", name, 1)
    return [names.index(column) for column in columns]


class FileFormat(NamedTuple):
    """Readers of one file format: `(source, *, name, limits)`; InvalidInput names the file and the line."""

    read_qrels: Callable[..., Qrels]
    read_run: Callable[..., Run]


FILE_FORMATS: Mapping[str, FileFormat] = MappingProxyType(
    {
        "trec": FileFormat(read_qrels, read_run),
        "tables": FileFormat(read_reference_table, read_results_table),
    }
)
