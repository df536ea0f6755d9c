"""Records from a data file of any size: one row at a time, bad rows reported."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final, Self

from plumbline.ground.errors import InvalidInput, quoted
from plumbline.ground.texts import CodedText, join_texts
from plumbline.judging.text.sample import Sample
from plumbline.rows.records.binary_files import ParquetRows, SheetRows
from plumbline.rows.records.columns import (
    NONE_NAMED,
    TRACE_PRESETS,
    ChosenColumns,
    ColumnMap,
    NamedColumns,
    apply_preset,
    check_columns,
    detect_columns,
)
from plumbline.rows.records.data_file import SHEET_FORM, find_encoding, parse_row_format
from plumbline.rows.records.encodings import UTF_8, check_encoding
from plumbline.rows.records.json_rows import open_json
from plumbline.rows.records.record import BadRow, RawRow, ReadPosition, Record, RecordProblem, RowSource
from plumbline.rows.records.record_fields import RowNames, build_record, parse_custom_id
from plumbline.rows.records.table_rows import TableRows
from plumbline.rows.records.traces import TraceRows, is_trace

# Rows inspected for columns; a file whose first rows are all unknown has another format.
_ROWS_LOOKED_AT: Final = 100
_JSON_FORMS: Final = ("jsonl", "json")
# Stands for the file's format where it holds spans
_TRACES: Final = "traces"
_TEXT_FORMS: Final = ("jsonl", "json", "csv", "tsv", _TRACES)
_SOURCES: Final[Mapping[str, Callable[..., RowSource]]] = {
    "jsonl": open_json,
    "json": open_json,
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
        format: `jsonl`, `json`, `csv`, `tsv`, `parquet` or `xlsx`; None: by the suffix without `.gz`.
        columns: a map, the name of a preset, or None to detect the columns in the first rows.
        named: columns of some fields; the others are found.
        encoding: of a file of text; None: by its bytes, as `detect_encoding`.

        has_unique_ids: the second row of a custom_id is a problem.

    Ids are kept as 64-bit hashes, `SeenIds` has the bounds.

    Raises InvalidInput: the file cannot be opened, its format or its columns are unknown, or no row of it is good; when
    iterated: it is truncated or damaged, after the rows before the damage.
    """

    def __init__(
        self,
        path: Path,
        *,
        format: str | None = None,  # noqa: A002
        columns: ColumnMap | str | None = None,
        named: NamedColumns = NONE_NAMED,
        encoding: str | None = None,
        has_unique_ids: bool = True,
    ) -> None:
        self.name = path.name
        is_traces = format == _TRACES or columns in TRACE_PRESETS
        self.format = _TRACES if is_traces else parse_row_format(path, format, is_own=True)
        self.position = ReadPosition()
        given, notes = {}, []
        if self.format in _TEXT_FORMS:
            given["encoding"] = find_encoding(path) if encoding is None else check_encoding(encoding)
            if encoding is None and given["encoding"] not in (UTF_8, "utf-16"):
                notes.append(f"not UTF-8: read as {given['encoding']} (--encoding NAME names another)")
        is_json = self.format in _JSON_FORMS
        fits = {"fits": partial(_fit, columns=columns, named=named)} if is_json else {}
        source: Callable[[], RowSource] = partial(_SOURCES[self.format], path, **given, **fits)
        try:
            try:
                chosen, note = _choose(source, columns, named)
            except InvalidInput:
                if columns is not None or not is_json or not _holds_spans(path, **given):
                    raise
                self.format, source = _TRACES, partial(TraceRows, path, **given)
                chosen, _ = _choose(source, columns, named)
                note = "one row for each trace"
        except InvalidInput as error:
            raise error if error.place else InvalidInput(error.detail, place=path.name) from error
        self.columns = chosen.map
        self.explanation = "; ".join([chosen.explanation, *filter(None, [note, *notes])])
        self._seen = SeenIds() if has_unique_ids else None
        self._source = source()
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


def _choose(
    open_source: Callable[[], RowSource], columns: ColumnMap | str | None, named: NamedColumns
) -> tuple[ChosenColumns, str]:
    with closing(open_source()) as source:
        return choose_columns(source.columns, source, columns, named), source.note


def _fit(fields: Mapping[str, object], *, columns: ColumnMap | str | None, named: NamedColumns) -> ColumnMap | None:
    names = RowNames(fields)
    if isinstance(columns, ColumnMap):
        return columns if columns.answer in names else None
    try:
        return _by_name(columns, names, named).map
    except InvalidInput:
        return None


def _holds_spans(path: Path, *, encoding: str) -> bool:
    with closing(open_json(path, encoding=encoding)) as source:
        first = next(iter(source), None)
    return first is not None and not isinstance(first.fields, BadRow) and is_trace(first.fields)


def open_rows(path: Path, form: str) -> RowSource:
    """Open the raw rows of a file, before their columns are mapped; raises as `RecordReader`."""
    return _SOURCES[form](path, **({"encoding": find_encoding(path)} if form in _TEXT_FORMS else {}))


def record_or_problem(raw: RawRow, columns: ColumnMap, seen: "SeenIds | None" = None) -> Record | RecordProblem:
    """Build the record of a row, or its problem; its id is added to `seen`, the ids of earlier rows."""
    custom_id: str | None = None
    try:
        custom_id = parse_custom_id(raw, columns)
        if seen is not None and seen.add(custom_id):
            found, custom_id = CodedText("custom_id_repeated", name=quoted(custom_id)), None
            raise BadRow(found, CodedText("one_row_each"))
        return build_record(raw, columns, custom_id=custom_id)
    except BadRow as bad:
        return RecordProblem(raw.row, raw.line, custom_id, bad.found, bad.expected)


def read_sample(fields: Mapping[str, object]) -> Sample:
    """Return the sample in one row, whose fields are known by their names as in a file; raise InvalidInput."""
    raw = RawRow(0, None, fields, ReadPosition(1))
    row = record_or_problem(raw, choose_columns(None, [raw], None).map)
    if isinstance(row, RecordProblem):
        raise InvalidInput(row.fault)
    return row.sample


def choose_columns(
    found: Iterable[str] | None,
    rows: Iterable[RawRow],
    columns: ColumnMap | str | None,
    named: NamedColumns = NONE_NAMED,
) -> ChosenColumns:
    """Choose the columns of rows: as named, by a preset, or by the names `found` or in the first of `rows`.

    `named`: columns of some fields; the others are chosen. Raises InvalidInput: they do not have the columns.
    """
    if isinstance(columns, ColumnMap):
        return check_columns(columns, None if found is None else [*found])
    if found is None:
        return _by_rows(columns, rows, named)
    first = [raw.fields for raw in islice(rows, _ROWS_LOOKED_AT) if not isinstance(raw.fields, BadRow)]
    # Objects in the first row, also as JSON in a cell, add the names in them
    names = RowNames(first[0] if first else {}, found)
    chosen = _by_name(columns, names, named)
    # No later row of a table has other columns: a name that is absent now would be refused when the map is used again
    return ChosenColumns(chosen.map.drop_absent(names), chosen.explanation)


def _by_name(preset: str | None, found: Collection[str], named: NamedColumns) -> ChosenColumns:
    return detect_columns(found, named) if preset is None else apply_preset(preset, found, named)


def _by_rows(preset: str | None, source: Iterable[RawRow], named: NamedColumns) -> ChosenColumns:
    unknown: InvalidInput | None = None
    bad: RecordProblem | None = None
    for raw in islice(source, _ROWS_LOOKED_AT):
        if isinstance(raw.fields, BadRow):
            bad = bad or RecordProblem(raw.row, raw.line, None, raw.fields.found, raw.fields.expected)
            continue
        try:
            return _by_name(preset, RowNames(raw.fields), named)
        except InvalidInput as error:
            unknown = unknown or error
    if unknown is not None:
        raise unknown
    raise InvalidInput(join_texts([CodedText("no_good_row", count=_ROWS_LOOKED_AT), *([bad.text] if bad else [])]))


# Their hashes take 128 MiB.
_MOST_IDS: Final = 2_000_000


class SeenIds:
    """A set of two million ids by their 64-bit hashes: a collision has a chance of one in ten million (n^2 / 2^65)."""

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
