"""Records from a data file of any size: one row at a time, bad rows reported."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final, Protocol, Self

from plumbline.ground.errors import InvalidInput, quoted
from plumbline.rows.records.binary_files import ParquetRows, SheetRows
from plumbline.rows.records.columns import (
    TRACE_PRESETS,
    ChosenColumns,
    ColumnMap,
    apply_preset,
    check_columns,
    detect_columns,
)
from plumbline.rows.records.data_file import SHEET_FORM, parse_row_format
from plumbline.rows.records.json_rows import JsonArrayRows, JsonLineRows
from plumbline.rows.records.record import BadRow, RawRow, ReadPosition, Record, RecordProblem
from plumbline.rows.records.record_fields import build_record, nested_names, parse_custom_id
from plumbline.rows.records.table_rows import TableRows
from plumbline.rows.records.traces import TraceRows

# Rows inspected for columns; a file whose first rows are all unknown has another format.
_ROWS_LOOKED_AT: Final = 100


class RowSource(Protocol):
    """The rows of one file; `columns` is None if each row names its own fields."""

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The names of the columns."""

    def __iter__(self) -> Iterator[RawRow]:
        """Yield the rows, once."""

    def close(self) -> None:
        """Close the file."""


# Stands for the file's format where a preset of traces is named
_TRACES: Final = "traces"
_SOURCES: Final[Mapping[str, Callable[[Path], RowSource]]] = {
    "jsonl": JsonLineRows,
    "json": JsonArrayRows,
    "csv": TableRows,
    "tsv": partial(TableRows, delimiter="\t"),
    "parquet": ParquetRows,
    SHEET_FORM: SheetRows,
    _TRACES: TraceRows,
}


class RecordReader(Iterator[Record | RecordProblem]):
    """Iterator over the records of a file, once and in file order; a context manager.

    `columns` is the map in use and `explanation` one line on how it was chosen. `position` is the end of the last row.

    Args:
        format: `jsonl`, `json` (an array), `csv`, `tsv`, `parquet` or `xlsx`; None: by the suffix without `.gz`.
        columns: a map, the name of a preset, or None to detect the columns in the first rows.

    Duplicates: the second row of a custom_id is a problem. Ids are kept as 64-bit hashes, `SeenIds` has the bounds.

    Raises:
        InvalidInput: the file cannot be opened, its format or its columns are unknown, or no row of it is good; when
            iterated: it is truncated or damaged, after the rows before the damage.
    """

    def __init__(
        self,
        path: Path,
        *,
        format: str | None = None,  # noqa: A002
        columns: ColumnMap | str | None = None,
    ) -> None:
        self.name = path.name
        is_traces = format == _TRACES or columns in TRACE_PRESETS
        self.format = _TRACES if is_traces else parse_row_format(path, format, is_own=True)
        self.position = ReadPosition()
        open_source = _SOURCES[self.format]
        try:
            with closing(open_source(path)) as source:
                chosen = choose_columns(source.columns, source, columns)
        except InvalidInput as error:
            raise error if error.place else InvalidInput(error.detail, place=path.name) from error
        self.columns = chosen.map
        self.explanation = chosen.explanation
        self._seen = SeenIds()
        self._source = open_source(path)
        self._rows = iter(self._source)

    def __next__(self) -> Record | RecordProblem:
        raw = next(self._rows)
        self.position = raw.after
        return record_or_problem(raw, self.columns, self._seen)

    def close(self) -> None:
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_rows(path: Path, form: str) -> RowSource:
    """Open the raw rows of a file, before their columns are mapped; raises as `RecordReader`."""
    return _SOURCES[form](path)


def record_or_problem(raw: RawRow, columns: ColumnMap, seen: "SeenIds | None" = None) -> Record | RecordProblem:
    """Build the record of a row, or its problem; its id is added to `seen`, the ids of earlier rows."""
    custom_id: str | None = None
    try:
        custom_id = parse_custom_id(raw, columns)
        if seen is not None and seen.add(custom_id):
            found, custom_id = f"custom_id {quoted(custom_id)}, which an earlier row has", None
            raise BadRow(found, "one row for each custom_id")
        return build_record(raw, columns, custom_id=custom_id)
    except BadRow as bad:
        return RecordProblem(raw.row, raw.line, custom_id, bad.found, bad.expected)


def choose_columns(
    found: Iterable[str] | None, rows: Iterable[RawRow], columns: ColumnMap | str | None
) -> ChosenColumns:
    """Choose the columns of rows: as named, by a preset, or detected from their names.

    Args:
        found: the columns of a table; None where each row names its own fields: the first of `rows` decide.

    Raises:
        InvalidInput: they do not have the columns, or no row is good.
    """
    if isinstance(columns, ColumnMap):
        return check_columns(columns, found)
    if found is None:
        return _by_rows(columns, rows)
    found = list(found)
    # Objects in the first row, also as JSON in a cell, add the names in them
    first = next(iter(rows), None)
    if first is not None and not isinstance(first.fields, BadRow):
        found = list(dict.fromkeys((*found, *nested_names(first.fields))))
    chosen = _by_name(columns, found)
    # No later row of a table has other columns: a name that is absent now would be refused when the map is used again
    return ChosenColumns(chosen.map.drop_absent(found), chosen.explanation)


def _by_name(preset: str | None, found: Iterable[str]) -> ChosenColumns:
    return detect_columns(found) if preset is None else apply_preset(preset, found)


def _by_rows(preset: str | None, source: Iterable[RawRow]) -> ChosenColumns:
    unknown: InvalidInput | None = None
    bad: RecordProblem | None = None
    for looked_at, raw in enumerate(source):
        if looked_at == _ROWS_LOOKED_AT:
            break
        if isinstance(raw.fields, BadRow):
            bad = bad or RecordProblem(raw.row, raw.line, None, raw.fields.found, raw.fields.expected)
            continue
        try:
            return _by_name(preset, (*raw.fields, *nested_names(raw.fields)))
        except InvalidInput as error:
            unknown = unknown or error
    if unknown is not None:
        raise unknown
    first = f"; {bad}" if bad else ""
    raise InvalidInput(f"holds no good row among its first {_ROWS_LOOKED_AT}{first}")


# Their hashes take 128 MiB.
_MOST_IDS: Final = 2_000_000


class SeenIds:
    """A set of ids by their 64-bit hashes: the first two million of a file, to bound memory.

    Among them the chance that any two share a hash is one in ten million (n^2 / 2^65).
    """

    def __init__(self, *, most: int = _MOST_IDS) -> None:
        self._most = most
        self._hashes: set[int] = set()

    def add(self, text: str) -> bool:
        """Add an id while there is room; return True if it was present."""
        key = hash(text)
        if key in self._hashes:
            return True
        if len(self._hashes) < self._most:
            self._hashes.add(key)
        return False
