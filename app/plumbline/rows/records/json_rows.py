"""Rows of JSON: a line each, the items of an array, or what one object holds.

{"data": [{...}, {...}]}             responses of APIs, exports of promptfoo
{"columns": [...], "data": [[...]]}  tables of MLflow, pandas' split
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import accumulate
from pathlib import Path
from typing import Final

import msgspec

from plumbline.ground.errors import InvalidInput, quoted
from plumbline.ground.texts import CodedText
from plumbline.rows.records.columns import ColumnMap
from plumbline.rows.records.data_file import MAX_ROW_BYTES, ByteStream, TextLines, too_long
from plumbline.rows.records.encodings import NOT_UTF_8, UTF_8
from plumbline.rows.records.record import BadRow, RawRow, ReadPosition, RowSource, describe_type

# The columns of a sample among the fields of a row; None if they make none
FieldTest = Callable[[Mapping[str, object]], ColumnMap | None]
Rows = list[Mapping[str, object] | BadRow]
_WANTED: Final = CodedText("a_json_object")
# Between indented objects, as jq and the console exporter of traces write them
_NEXT_OBJECT: Final = re.compile(rb"(?<=^\})\r?\n(?=\{)", re.MULTILINE)
_DECODER: Final = msgspec.json.Decoder()
_ELEMENTS: Final = msgspec.json.Decoder(list[msgspec.Raw])
_SPACE: Final = b" \t\r\n"
_DEEPEST: Final = 3
_ROWS_TRIED: Final = 3


def open_json(
    path: Path, *, encoding: str = UTF_8, fits: FieldTest | None = None, max_bytes: int | None = MAX_ROW_BYTES
) -> RowSource:
    """Open the rows of a file of JSON, by what stands in it: an array, objects one behind the other, or one a line.

    `fits`: tells which fields make a sample, as `rows_in_object` takes it. `max_bytes`: of a file that is one array or
    object, or objects that are indented; None: any number. Raises InvalidInput: the file cannot be opened, an array is
    too large or malformed, or one object holds no rows that can be told.
    """
    with closing(TextLines(path, encoding=encoding)) as lines:
        filled = (line for line in iter(lines.next_line, None) if line.data is None or line.data.strip())
        first, second = next(filled, None), next(filled, None)
    start = b"" if first is None or first.data is None else first.data.lstrip()
    is_array = start.startswith(b"[")
    if not is_array and not (start.startswith(b"{") and (second is None or isinstance(decode_row(start), BadRow))):
        return JsonLineRows(path, encoding=encoding)
    with closing(ByteStream(path, encoding=encoding)) as stream:
        data = stream.read(-1 if max_bytes is None else max_bytes + 1)
    try:
        if max_bytes is not None and len(data) > max_bytes:
            if is_array:
                raise InvalidInput(CodedText("array_too_large", limit=max_bytes))
        elif is_array:
            return ListedRows(_decode_array(data), size=len(data))
        elif isinstance(value := decode_row(data), dict):
            rows, note = rows_in_object(value, fits)
            return ListedRows(rows, note, size=len(data), lines=None if note else [1])
        elif len(parts := _NEXT_OBJECT.split(data)) > 1:
            lines_before = accumulate((part.count(b"\n") + 1 for part in parts), initial=1)
            return ListedRows(parts, size=len(data), lines=[*lines_before])
    except InvalidInput as error:
        raise InvalidInput(error.detail, place=path.name) from None
    return JsonLineRows(path, encoding=encoding)


def _decode_array(data: bytes) -> Sequence[msgspec.Raw | Mapping[str, object] | BadRow]:
    try:
        return _ELEMENTS.decode(data)
    except (ValueError, RecursionError):
        rows = _load(data)
    if isinstance(rows, list):
        return [each if isinstance(each, dict) else _no_object(each) for each in rows]
    raise InvalidInput(_no_object(rows).text)


class ListedRows(RowSource):
    """Rows in memory, encoded ones decoded one at a time; `note` tells where in their file they were."""

    def __init__(
        self,
        rows: Sequence[bytes | msgspec.Raw | Mapping[str, object] | BadRow],
        note: str = "",
        *,
        size: int,
        lines: Sequence[int] | None = None,
    ) -> None:
        self._rows = rows
        self._lines = lines
        self._size = size
        self.note = note

    def __iter__(self) -> Iterator[RawRow]:
        for row, held in enumerate(self._rows):
            fields = held if isinstance(held, Mapping | BadRow) else decode_row(held)
            line = None if self._lines is None else self._lines[row]
            yield RawRow(row, line, fields, ReadPosition(row + 1, self._size * (row + 1) // len(self._rows)))

    def close(self) -> None:
        self._rows = ()


class JsonLineRows(RowSource):
    """The rows of a JSON Lines file, plain or gzip; blank lines are no rows. Raises InvalidInput."""

    def __init__(self, path: Path, *, max_bytes: int = MAX_ROW_BYTES, encoding: str = UTF_8) -> None:
        self._lines = TextLines(path, max_bytes=max_bytes, encoding=encoding)
        self._max_bytes = max_bytes

    def __iter__(self) -> Iterator[RawRow]:
        row = 0
        while (line := self._lines.next_line()) is not None:
            if line.data is None or not line.data.isspace():
                fields = BadRow(*too_long(self._max_bytes)) if line.data is None else decode_row(line.data)
                yield RawRow(row, line.number, fields, ReadPosition(row + 1, line.end))
                row += 1

    def close(self) -> None:
        self._lines.close()


def decode_row(data: bytes | msgspec.Raw) -> dict[str, object] | BadRow:
    """Decode one JSON object, or return why it is none. The last value of a repeated name is used.

    NaN and Infinity, which Python writes, are null, and half of a surrogate pair is kept: what needs it refuses it.
    """
    try:
        fields = _DECODER.decode(data)
    except UnicodeDecodeError:
        return BadRow(*NOT_UTF_8)
    except (ValueError, RecursionError):
        fields = _load(data)
    return fields if isinstance(fields, dict) else _no_object(fields)


def _no_object(fields: object) -> BadRow:
    return fields if isinstance(fields, BadRow) else BadRow(describe_type(fields), _WANTED)


def _load(data: bytes | msgspec.Raw) -> object:
    """Decode as the standard library does: with NaN, Infinity and lone surrogates; an error has its place."""
    try:
        return json.loads(bytes(data).strip(_SPACE), parse_constant=lambda _: None)
    except UnicodeDecodeError:
        return BadRow(*NOT_UTF_8)
    except json.JSONDecodeError as error:
        flaw = CodedText("not_json_at", column=error.colno, reason=error.msg)
        if error.lineno > 1:
            flaw = CodedText("not_json_at_line", line=error.lineno, column=error.colno, reason=error.msg)
        return BadRow(flaw, _WANTED)
    except (ValueError, RecursionError):
        return BadRow(CodedText("json_too_deep_or_long"), _WANTED)


def rows_in_object(value: Mapping[str, object], fits: FieldTest | None) -> tuple[Rows, str]:
    """Return the rows in an object, the only one without `fits`, and a note on where they are; raise InvalidInput."""
    names, data = value.get("columns"), value.get("data")
    if isinstance(names, list) and isinstance(data, list) and data and all(isinstance(each, list) for each in data):
        return [_row_of_cells(names, each) for each in data], "rows from 'data', by 'columns'"
    found = None if fits is None else fits(value)
    held = None if found is None else value.get(found.answer)
    is_text = any(isinstance(each, str) for each in value.values())
    is_column = isinstance(held, Mapping) or (isinstance(held, list) and any(isinstance(each, str) for each in held))
    if is_column and not is_text:
        raise InvalidInput(CodedText("object_of_columns"))
    if fits is None or found is not None:
        return [value], ""
    return _listed_rows(value, fits) or ([value], "")


def _listed_rows(value: Mapping[str, object], fits: FieldTest) -> tuple[Rows, str] | None:
    lists = [(path, rows) for path, rows in _lists(value) if any(map(fits, rows[:_ROWS_TRIED]))]
    if len(lists) > 1:
        several = tuple(quoted(path) for path, _ in lists)
        raise InvalidInput(CodedText("rows_could_be", lists=several[:-1], last=several[-1]))
    if lists:
        path, rows = lists[0]
        return [*rows], f"rows from {quoted(path)}"
    return None


def _row_of_cells(names: list[object], cells: list[object]) -> Mapping[str, object] | BadRow:
    if len(cells) != len(names):
        return BadRow(CodedText("cells", count=len(cells)), CodedText("as_columns_has", count=len(names)))
    return dict(zip(map(str, names), cells, strict=True))


def _lists(
    value: Mapping[str, object], path: str = "", depth: int = 1
) -> Iterator[tuple[str, list[Mapping[str, object]]]]:
    for name, each in value.items():
        if isinstance(each, list) and each and all(isinstance(item, Mapping) for item in each):
            # The viewer of Hugging Face's data sets has an object around each row
            rows = [item.get("row") for item in each]
            yield f"{path}{name}", rows if all(isinstance(row, Mapping) for row in rows) else each
        elif isinstance(each, Mapping) and depth < _DEEPEST:
            yield from _lists(each, f"{path}{name}.", depth + 1)
