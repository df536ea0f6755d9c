"""Read files, frames and JSON as what they hold: TREC's columns, a mapping by query, or rows with columns.

The content decides the form: the first bytes show Parquet, the first character JSON, and the names in its header a
table; anything else is TREC's. The name of the file does not count.
"""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from plumbline.ground.errors import FileTooLarge, InvalidInput, quoted
from plumbline.ground.printed_lists import parse_text_list
from plumbline.ground.texts import CodedText
from plumbline.retrieval.text_file import ReadLimits, file_error, format_place, numbered_lines, read_text_bytes
from plumbline.retrieval.trec import is_comment

# Names of columns, as `fold` writes them; the first that a row has counts.
QUERIES: Final = (
    "query_id", "qid", "q_id", "query", "question_id", "topic_id", "topic", "question", "user_input", "input",
)  # fmt: skip
DOCUMENTS: Final = (
    "corpus_id", "doc_id", "docid", "docno", "document_id", "passage_id", "chunk_id", "pid", "doc", "_id", "id",
)  # fmt: skip
GRADES: Final = ("relevance", "rel", "label", "grade", "score")
SCORES: Final = ("score", "sim", "similarity", "relevance_score", "_score")
RANKS: Final = ("rank", "position")
GOLD_LISTS: Final = (
    "expected_ids", "document_ids", "gold_ids", "relevant_ids", "reference_context_ids", "retrieval_gt",
    "reference_contexts", "context",
)  # fmt: skip
FOUND_LISTS: Final = (
    "retrieved_ids", "doc_ids", "retrieved_context_ids", "retrieved_contexts", "retrieval_context", "hits",
    "candidates",
)  # fmt: skip
REPLIES: Final = ("output", "outputs", "text", "response", "llm_output", "answer")
_KNOWN: Final = frozenset((*QUERIES, *DOCUMENTS, *GOLD_LISTS, *FOUND_LISTS))
# Under these an API or a tool lists its rows.
_WRAPPERS: Final = ("data", "rows", "records")

PARQUET: Final = b"PAR1"
_GAP: Final = re.compile(r"[\s-]+")
_SIGNS: Final = (b"\t", b",", b";")
_LINES: Final = msgspec.json.Decoder()
_MAX_COLUMNS_SHOWN: Final = 12


@dataclass(frozen=True, slots=True)
class NamedFile:
    """A file in memory, such as one of a request."""

    name: str
    content: bytes


class Row(NamedTuple):
    """Cells by folded column, and the place that an error names."""

    place: str
    cells: Mapping[str, Any]


Rows: TypeAlias = Iterable[Row]


def load(source: Any, limits: ReadLimits) -> "bytes | Mapping[Any, Any] | Rows":
    """Return what a source holds: the text of a TREC file, a mapping by query, or rows; raise InvalidInput."""
    if isinstance(source, str | Path | NamedFile):
        return _load_file(source, limits)
    if isinstance(source, Mapping):
        rows = _rows_of_mapping(source)
        return source if rows is None else _number(rows)
    if isinstance(source, Sequence) and all(isinstance(row, Mapping) for row in source):
        return _number(source)
    # its readers take a tenth of a second to import
    from plumbline.rows.records.frames import frame_rows  # noqa: PLC0415

    frame = frame_rows(source)
    if frame is None:
        raise InvalidInput(CodedText("source_unknown", found=type(source).__name__))
    return _number(frame)


def name_of(source: Any) -> str:
    """Return the name of a file; empty for anything else."""
    return Path(source).name if isinstance(source, str | Path) else source.name if isinstance(source, NamedFile) else ""


def first_of(cells: Mapping[str, Any], names: Iterable[str]) -> Any:
    """Return the cell of the first of these columns; None where a row has none of them."""
    return next((cells[name] for name in names if name in cells), None)


def _load_file(source: str | Path | NamedFile, limits: ReadLimits) -> "bytes | Mapping[Any, Any] | Rows":
    name = name_of(source)
    try:
        data = source.content if isinstance(source, NamedFile) else Path(source).read_bytes()
    except OSError as error:
        raise file_error(CodedText("unreadable", reason=str(error.strerror)), str(source)) from error
    if data.startswith(PARQUET):
        return _parquet(data, name, limits)
    data = read_text_bytes(data, name=name, limits=limits)
    if data.lstrip().startswith((b"{", b"[")):
        return _load_json(data, name)
    line_number, header = next(((at, line) for at, line in numbered_lines(data) if not is_comment(line)), (0, b""))
    sign = next((each for each in _SIGNS if each in header.strip()), b" ")
    names = [fold(cell) for cell in header.decode().strip().split(sign.decode() if sign != b" " else None)]
    if _KNOWN.isdisjoint(names) or any(cell.lstrip("-").isdigit() for cell in names):
        return data
    return _table(data, name, sign.decode(), line_number, limits)


def fold(name: object) -> str:
    """Return the name of a column without case, with underscores for blanks and hyphens."""
    return _GAP.sub("_", str(name).strip().strip("\"'").casefold())


def _table(data: bytes, name: str, sign: str, header_line: int, limits: ReadLimits) -> Iterator[Row]:
    """Yield the rows below a header, after RFC 4180; a quoted cell may span lines, a `#` starts a comment."""
    text = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", newline="\n")
    start = header_line
    for _ in range(header_line - 1):
        text.readline()
    reader = csv.reader(text, delimiter=sign, strict=True, skipinitialspace=sign == " ")
    try:
        columns = [fold(cell) for cell in next(reader)]
        for column in columns:
            if column and columns.count(column) > 1:
                raise file_error(CodedText("named_twice", name=quoted(column)), name, header_line)
        start, count = header_line + reader.line_num, 0
        for record in reader:
            if record and not record[0].startswith("#"):
                count += 1
                if count > limits.max_rows:
                    raise file_error(CodedText("too_many_rows", limit=limits.max_rows), name, start)
                if len(record) != len(columns):
                    detail = CodedText("cells_expected", count=len(columns), found=len(record))
                    raise file_error(detail, name, start)
                cells = zip(columns, map(str.strip, record), strict=True)
                yield Row(format_place(name, start), {column: cell for column, cell in cells if column})
            start = header_line + reader.line_num
    except csv.Error as error:
        raise file_error(CodedText("row_unreadable", reason=str(error)), name, start) from error


def _parquet(data: bytes, name: str, limits: ReadLimits) -> Iterator[Row]:
    from plumbline.rows.records.binary_files import ParquetRows  # noqa: PLC0415 - an extra
    from plumbline.rows.records.record import BadRow  # noqa: PLC0415 - with it

    size = 0
    for raw in ParquetRows(Path(name), io.BytesIO(data)):
        place = f"{format_place(name)}: row {raw.row + 1}"
        if isinstance(raw.fields, BadRow):
            raise InvalidInput(raw.fields.text, place=place)
        size += sum(map(_size, raw.fields.values()))
        if raw.row >= limits.max_rows or size > limits.max_bytes:
            raise FileTooLarge(CodedText("file_too_large", limit=limits.max_bytes), place=format_place(name))
        yield Row(place, {fold(column): cell for column, cell in raw.fields.items()})


def _size(cell: object) -> int:
    return len(cell) if isinstance(cell, str) else sum(map(_size, cell)) if isinstance(cell, list) else 8


def _load_json(data: bytes, name: str) -> "Mapping[Any, Any] | Rows":
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        try:
            value = _LINES.decode_lines(data)
        except (msgspec.DecodeError, RecursionError):
            raise file_error(CodedText("file_not_json", reason=str(error)), name) from None
        filled = [number for number, line in numbered_lines(data) if line.strip()]
        return _number(value, [format_place(name, number) for number in filled])
    if isinstance(value, Mapping):
        rows = _rows_of_mapping(value)
        return value if rows is None else _number(rows, name=name)
    return _number(value, name=name)


def _number(rows: Iterable[Any], places: Sequence[str] = (), *, name: str = "") -> Iterator[Row]:
    start = f"{format_place(name)}: " if name else ""
    for number, (row, line) in enumerate(zip_longest(rows, places), start=1):
        place = line or f"{start}row {number}"
        if not isinstance(row, Mapping):
            raise InvalidInput(CodedText("row_expected", found=quoted(repr(row))), place=place)
        yield Row(place, {fold(column): cell for column, cell in row.items()})


def _rows_of_mapping(value: Mapping[Any, Any]) -> Iterable[Any] | None:
    """Return the rows of a table by its columns, as pandas writes it, or under a key; None for a mapping by query."""
    columns, data = value.get("columns"), next((value[key] for key in _WRAPPERS if key in value), None)
    if isinstance(columns, list) and isinstance(data, list):
        return [dict(zip(columns, row, strict=False)) for row in data if isinstance(row, list)]
    if isinstance(data, list) and all(isinstance(row, Mapping) for row in data):
        return data
    names = {fold(name): name for name in value}
    has_columns = any(name in names for name in QUERIES) and any(
        name in names for name in (*DOCUMENTS, *GOLD_LISTS, *FOUND_LISTS, *REPLIES)
    )
    if has_columns:
        cells = [list(each.values()) if isinstance(each, Mapping) else each for each in value.values()]
        if all(isinstance(each, list) and len(each) == len(cells[0]) for each in cells):
            return [dict(zip(value, row, strict=True)) for row in zip(*cells, strict=True)]
        return [value]
    first = next(iter(value.values()), None)
    is_table = isinstance(first, Mapping) and {"query_id", "qid"} & set(map(fold, first)) and len(first) > 1
    return list(value.values()) if is_table else None


def parse_cell(cell: Any, place: str, column: str) -> list[Any]:
    """Return the list in a cell: as it is, or printed as JSON, Python or numpy print it; raise InvalidInput."""
    if isinstance(cell, str):
        with suppress(ValueError, msgspec.DecodeError, RecursionError):
            nested = (
                msgspec.json.decode(cell) if cell.startswith("[[") else list(parse_text_list(cell, has_numbers=True))
            )
            return list(nested)
    elif isinstance(cell, Mapping) and isinstance(cell.get("hits"), list):
        return list(cell["hits"])
    elif isinstance(cell, list | tuple):
        return list(cell)
    raise InvalidInput(CodedText("list_expected", name=quoted(column), found=quoted(repr(cell))), place=place)


def list_columns(cells: Mapping[str, Any]) -> str:
    """Return the names of the columns of a row, for an error."""
    return ", ".join(quoted(name) for name in list(cells)[:_MAX_COLUMNS_SHOWN])
