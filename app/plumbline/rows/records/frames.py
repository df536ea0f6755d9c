"""Data frames as records: pandas, polars, Arrow, data sets, or columns by name; none of their packages is imported."""

import math
from collections.abc import Iterator, Mapping
from itertools import chain, count, islice, repeat
from typing import Any, Final

from plumbline.rows.records.columns import ColumnMap
from plumbline.rows.records.reading import SeenIds, choose_columns, record_or_problem
from plumbline.rows.records.record import RawRow, ReadPosition, Record, RecordProblem

_NOT_AVAILABLE: Final = ("NAType", "NaTType")  # of pandas
_ROWS_LOOKED_AT: Final = 100


def frame_rows(frame: Any) -> Iterator[dict[str, object]] | None:
    """Return the rows of a frame as plain JSON values by column, or None if it is no frame: a list, or a generator."""
    columns = _columns(frame)
    return None if columns is None else _rows(columns)


def frame_records(
    frame: Any, *, columns: ColumnMap | str | None = None, row: int | None = None
) -> Iterator[Record | RecordProblem] | None:
    """Return the records of a frame, None if it is none; `row` numbers all rows of a part without a place.

    Raises InvalidInput, at once: the columns are not known.
    """
    found = _columns(frame)
    if found is None:
        return None
    numbers = count() if row is None else repeat(row)
    raws = (RawRow(number, None, each, ReadPosition()) for number, each in zip(numbers, _rows(found), strict=False))
    first = list(islice(raws, _ROWS_LOOKED_AT))
    chosen = choose_columns(found, first, columns)
    seen = SeenIds() if row is None else None
    return (record_or_problem(raw, chosen.map, seen) for raw in chain(first, raws))


def _columns(frame: Any) -> dict[str, Any] | None:
    if hasattr(frame, "collect_schema") and hasattr(frame, "collect"):
        # A lazy frame of polars
        frame = frame.collect()
    if isinstance(frame, Mapping):
        # One sample by mistake has texts
        return None if any(isinstance(each, str) for each in frame.values()) else dict(frame)
    names = getattr(frame, "column_names", None) or getattr(frame, "columns", None)
    if names is None or not hasattr(frame, "__getitem__"):
        return None
    return {str(name): frame[name] for name in names}


def _rows(columns: Mapping[str, Any]) -> Iterator[dict[str, object]]:
    return (dict(zip(columns, cells, strict=True)) for cells in zip(*map(_values, columns.values()), strict=True))


def _values(column: Any) -> Iterator[object]:
    read = next((found for name in ("to_pylist", "to_list", "tolist") if (found := getattr(column, name, None))), None)
    return map(_plain, column if read is None else read())


def _plain(value: Any) -> object:
    """Return a value as JSON has it: lists for arrays, None for what is not available."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    is_missing = type(value).__name__ in _NOT_AVAILABLE or (isinstance(value, float) and math.isnan(value))
    return None if is_missing else value
