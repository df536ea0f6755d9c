"""File formats of judgments and runs by name, and the reader of tables with a list of ids in one cell."""

import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import BinaryIO, Final, NamedTuple

from plumbline.ground.errors import InvalidInput
from plumbline.retrieval.run import Qrels, Run
from plumbline.retrieval.text_file import ReadLimits, format_place, quoted, read_text_bytes
from plumbline.retrieval.trec import read_qrels, read_run

# The names that LiveRAG's result and DataMorgana's question files use.
QUERY_COLUMN: Final = "qid"
RETRIEVED_COLUMN: Final = "doc_ids"
GOLD_COLUMN: Final = "document_ids"

_MAX_COLUMNS_SHOWN: Final = 12
# One item of a printed Python list; numpy prints its arrays without commas. Possessive: no character is read twice.
_ITEM: Final = re.compile(
    r"""\s*+(?:'((?:[^'\\]|\\.)*+)'|"((?:[^"\\]|\\.)*+)"|(-?[0-9]++))(?:\s*+,|\s++|\Z)""", re.DOTALL
)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)


def read_results_table(source: bytes | BinaryIO, *, name: str, limits: ReadLimits) -> Run:
    """Read a run named `name`: each query's retrieved ids, best first, as the cell lists them (repeats included).

    The cell is a JSON list or a printed Python list of strings or integers. Other columns are not read.

    Raises:
        InvalidInput: names the file and the line at which the row starts.
    """
    return Run(name, {query_id: ids for _, query_id, ids in _rows(source, name, limits, RETRIEVED_COLUMN)})


def read_reference_table(source: bytes | BinaryIO, *, name: str, limits: ReadLimits) -> Qrels:
    """Read judgments: each query's gold ids with relevance 1; an empty list is a query without relevant documents.

    Raises:
        InvalidInput: as `read_results_table`, and for an id that a list holds twice.
    """
    qrels: dict[str, dict[str, int]] = {}
    for line_number, query_id, ids in _rows(source, name, limits, GOLD_COLUMN):
        qrels[query_id] = dict.fromkeys(ids, 1)
        if len(qrels[query_id]) != len(ids):
            raise InvalidInput("an id is listed twice for one query", place=format_place(name, line_number))
    return qrels


def _rows(
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
        ids = _parse_ids(listed)
        if ids is None:
            detail = (
                f"column {quoted(ids_column)} should hold a list such as ['doc-1', 'doc-2'], found {quoted(listed)}"
            )
            raise InvalidInput(detail, place=place)
        yield line_number, query_id, ids
    if not seen:
        raise InvalidInput("holds no row below the header", place=format_place(name))


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
                    raise InvalidInput(f"more than {limits.max_rows} rows, the limit", place=format_place(name, start))
                if len(record) != len(header or ()):
                    detail = f"expected {len(header or ())} tab-separated cells, found {len(record)}"
                    raise InvalidInput(detail, place=format_place(name, start))
                yield start, [record[position].strip() for position in positions]
            start = reader.line_num + 1
    except csv.Error as error:
        raise InvalidInput(f"the row cannot be read: {error}", place=format_place(name, start)) from error


def _positions(header: list[str] | None, columns: tuple[str, str], name: str) -> list[int]:
    if not header:
        raise InvalidInput("the first line should be a header; it is empty", place=format_place(name))
    names = [cell.strip() for cell in header]
    for column in columns:
        if names.count(column) != 1:
            what = "missing" if column not in names else "named twice"
            found = ", ".join(quoted(cell) for cell in names[:_MAX_COLUMNS_SHOWN])
            raise InvalidInput(f"column {quoted(column)} is {what}; found {found}", place=format_place(name, 1))
    return [names.index(column) for column in columns]


def _parse_ids(cell: str) -> tuple[str, ...] | None:
    """Parse the list of ids in a cell; return None if it is no such list. Nothing is evaluated."""
    if not (cell.startswith("[") and cell.endswith("]")):
        return None
    try:
        listed = json.loads(cell, parse_int=str, parse_float=float)
    except (ValueError, RecursionError):
        return _printed_ids(cell[1:-1].strip())
    if not all(isinstance(item, str) and item.strip() for item in listed):
        return None
    return tuple(listed)


def _printed_ids(inside: str) -> tuple[str, ...] | None:
    ids = []
    position = 0
    while position < len(inside):
        item = _ITEM.match(inside, position)
        if item is None:
            return None
        text = next(group for group in item.groups() if group is not None)
        # Backslashes stand before quotes and backslashes alone.
        if not text.strip() or any(match[1] not in "'\"\\" for match in _ESCAPE.finditer(text)):
            return None
        ids.append(_ESCAPE.sub(r"\1", text))
        position = item.end()
    return tuple(ids)


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
