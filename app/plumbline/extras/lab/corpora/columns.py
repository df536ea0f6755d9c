"""Documents and queries from rows of data files, by the names of their columns."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from plumbline.extras.lab.corpora.gathering import PlacedDocument, PlacedQuery
from plumbline.extras.lab.corpus import Document, Query
from plumbline.ground.errors import InvalidInput
from plumbline.rows.records.reading import open_rows
from plumbline.rows.records.record import BadRow, RawRow
from plumbline.rows.records.row_forms import row_form
from plumbline.rows.records.value_kinds import checked_text, shown

_TEXT: Final = "text"
_ID: Final = "text that is not empty, or a whole number"


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a file's rows.

    `fields`: the column of each field. A column of `fields` that is null or absent in a row leaves its field empty;
    one that no row has is an error, but for those in `optional`.
    """

    id: str
    fields: Mapping[str, str]
    optional: frozenset[str] = frozenset()


def documents_in_rows(files: Sequence[Path], columns: Columns, form: str | None) -> Iterator[PlacedDocument]:
    """A document for each row.

    Raises:
        InvalidInput: as `texts_in_rows`.
    """
    for place, own_id, fields in texts_in_rows(files, columns, form):
        yield place, Document(own_id, fields)


def queries_in_rows(files: Sequence[Path], id_column: str, text_column: str, form: str | None) -> Iterator[PlacedQuery]:
    """A query for each row.

    Raises:
        InvalidInput: as `texts_in_rows`.
    """
    for place, own_id, fields in texts_in_rows(files, Columns(id_column, {_TEXT: text_column}), form):
        yield place, Query(own_id, fields[_TEXT])


def texts_in_rows(
    files: Sequence[Path], columns: Columns, form: str | None
) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Place, id and fields of each row of the files, one after the other.

    Raises:
        InvalidInput: a file cannot be read, a row cannot be read or has a value of another kind, or a column is
            nowhere; names file and line, or file and row for Parquet.
    """
    for path in files:
        missing = {columns.id, *columns.fields.values()} - columns.optional
        is_empty = True
        for place, row in _rows(path, missing, form):
            is_empty = False
            missing -= {column for column in missing if _found(row, column)[0]}
            try:
                yield place, _id_of(row, columns.id), _fields_of(row, columns.fields)
            except BadRow as bad:
                raise InvalidInput(f"{bad.found}; expected {bad.expected}", place=place) from None
        if missing and not is_empty:
            raise InvalidInput(f"no row has {', '.join(map(shown, sorted(missing)))}", place=path.name)


def _rows(path: Path, needed: set[str], form: str | None) -> Iterator[tuple[str, Mapping[str, object]]]:
    with closing(open_rows(path, row_form(path, form))) as source:
        absent = [] if source.columns is None else [each for each in needed if _is_absent(each, source.columns)]
        if absent and source.columns is not None:
            named = ", ".join(map(shown, sorted(absent)))
            detail = f"there is no column {named}; there are {', '.join(map(shown, source.columns))}"
            raise InvalidInput(detail, place=path.name)
        for raw in source:
            place = _place(path.name, raw)
            if isinstance(raw.fields, BadRow):
                raise InvalidInput(f"{raw.fields.found}; expected {raw.fields.expected}", place=place)
            yield place, raw.fields


def _place(name: str, raw: RawRow) -> str:
    return f"{name}, row {raw.row}" if raw.line is None else f"{name}:{raw.line}"


def _id_of(row: Mapping[str, object], column: str) -> str:
    _, value = _found(row, column)
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if value is None:
        raise BadRow(f"no value for {shown(column)}", _ID)
    return checked_text(value, shown(column), _ID)


def _fields_of(row: Mapping[str, object], column_by_field: Mapping[str, str]) -> dict[str, str]:
    return {field: _text_of(row, column) for field, column in column_by_field.items()}


def _text_of(row: Mapping[str, object], column: str) -> str:
    """The text at a column; a number as it is written."""
    _, value = _found(row, column)
    if value is None:
        return ""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return checked_text(value, shown(column), "text")


def _found(row: Mapping[str, object], column: str) -> tuple[bool, object]:
    """Whether the row has the column, and its value; `a.b` is also b inside of the object a."""
    if column in row:
        return True, row[column]
    outer, _, inner = column.partition(".")
    within = row.get(outer)
    return (True, within[inner]) if isinstance(within, Mapping) and inner in within else (False, None)


def _is_absent(column: str, columns: Sequence[str]) -> bool:
    return column not in columns and column.partition(".")[0] not in columns
