"""The rows that one JSON object holds: a list of objects somewhere in it, columns of values, or a single row.

{"data": [{...}, {...}]}                            responses of APIs, exports of promptfoo
{"question": ["..."], "answer": ["..."]}            pandas, datasets: a list for each column
{"question": {"0": "..."}, "answer": {"0": "..."}}  pandas' to_json: an object for each column
{"columns": [...], "data": [[...]]}                 pandas' split, tables of MLflow
{"q1": {...}, "q2": {...}}                          rows by their ids
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from plumbline.ground.errors import InvalidInput, quoted
from plumbline.ground.texts import CodedText
from plumbline.rows.records.columns import FIELDS, ColumnMap
from plumbline.rows.records.record import BadRow

# The columns of a sample among the fields of a row; None if they make none
FieldTest = Callable[[Mapping[str, object]], ColumnMap | None]
Rows = list[Mapping[str, object] | BadRow]
_DEEPEST: Final = 3
_ROWS_TRIED: Final = 3


def rows_in_object(value: Mapping[str, object], fits: FieldTest | None) -> tuple[Rows, str]:
    """Return the rows in an object, and a note for people on where they are; empty for a single row.

    Args:
        fits: None: the object is the only row.

    Raises:
        InvalidInput: several lists could be the rows, or columns differ in length.
    """
    names, data = value.get("columns"), value.get("data")
    if isinstance(names, list) and isinstance(data, list) and data and all(isinstance(each, list) for each in data):
        return [_row_of_cells(names, each) for each in data], "rows from 'data', by 'columns'"
    if fits is None:
        return [value], ""
    if (found := fits(value)) is not None:
        columns = _columns(value, found)
        if columns is None:
            return [value], ""
        cells = zip(*columns.values(), strict=True)
        return [dict(zip(columns, each, strict=True)) for each in cells], "a list for each column"
    return _listed_rows(value, fits) or ([value], "")


def _listed_rows(value: Mapping[str, object], fits: FieldTest) -> tuple[Rows, str] | None:
    lists = [(path, rows) for path, rows in _lists(value) if any(map(fits, rows[:_ROWS_TRIED]))]
    if len(lists) > 1:
        several = tuple(quoted(path) for path, _ in lists)
        raise InvalidInput(CodedText("rows_could_be", lists=several[:-1], last=several[-1]))
    if lists:
        path, rows = lists[0]
        return [*rows], f"rows from {quoted(path)}"
    by_id = [{"custom_id": name, **each} for name, each in value.items() if isinstance(each, Mapping)]
    return ([*by_id], "rows by their ids") if len(by_id) == len(value) and by_id and fits(by_id[0]) else None


def _columns(value: Mapping[str, object], found: ColumnMap) -> dict[str, list[object]] | None:
    """Return the columns of a table, if the answers are a list of texts, and the other fields as many values."""
    answer = found.answer
    if any(isinstance(value.get(column), str) for name in FIELDS for column in found.columns_of(name)):
        return None
    listed = {name: each for name, column in value.items() if (each := _listed(column)) is not None}
    answers = listed.get(answer)
    if not answers or any(isinstance(each, Mapping) for each in answers):
        return None
    for name, each in listed.items():
        if len(each) != len(answers):
            one, other, count = quoted(name), quoted(answer), len(answers)
            raise InvalidInput(CodedText("columns_of_lengths", name=one, values=len(each), other=other, rows=count))
    return listed


def _listed(column: object) -> list[object] | None:
    if isinstance(column, Mapping) and column and all(str(name).isdecimal() for name in column):
        return [*column.values()]
    return column if isinstance(column, list) else None


def _row_of_cells(names: list[object], cells: list[object]) -> Mapping[str, object] | BadRow:
    if len(cells) != len(names):
        return BadRow(CodedText("cells", count=len(cells)), CodedText("as_columns_has", count=len(names)))
    return dict(zip(map(str, names), cells, strict=True))


def _lists(
    value: Mapping[str, object], path: str = "", depth: int = 1
) -> Iterator[tuple[str, list[Mapping[str, object]]]]:
    """Yield the lists of objects in an object with their paths."""
    for name, each in value.items():
        if isinstance(each, list) and each and all(isinstance(item, Mapping) for item in each):
            # The viewer of Hugging Face's data sets has an object around each row
            rows = [item.get("row") for item in each]
            yield f"{path}{name}", rows if all(isinstance(row, Mapping) for row in rows) else each
        elif isinstance(each, Mapping) and depth < _DEEPEST:
            yield from _lists(each, f"{path}{name}.", depth + 1)
