"""Rows of Parquet files and of Excel workbooks, read through extras: pyarrow, python-calamine."""

import importlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

from plumbline.ground.errors import InvalidInput
from plumbline.ground.texts import CodedText
from plumbline.rows.records.record import BadRow, RawRow, ReadPosition, RowSource, check_unique

# Rows that are turned into Python values at once.
_BATCH_ROWS: Final = 256


def load_pyarrow(name: str) -> Any:
    """Import `pyarrow.parquet`. Raises InvalidInput: pyarrow is not installed; the message names the extra."""
    try:
        return importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise InvalidInput(CodedText("parquet_needs"), place=name) from None


class ParquetRows(RowSource):
    """The rows of a Parquet file, a batch at a time, lists as lists; `columns` are the schema's names.

    `source`: the file where it is in memory; `path` then only names it. Raises InvalidInput: pyarrow is missing, or the
    file is not Parquet; when iterated: it is damaged.
    """

    columns: tuple[str, ...]

    def __init__(self, path: Path, source: BinaryIO | None = None) -> None:
        self._name = path.name
        parquet = load_pyarrow(path.name)
        self._failures: tuple[type[Exception], ...] = (OSError, importlib.import_module("pyarrow").ArrowException)
        try:
            self._file = parquet.ParquetFile(path if source is None else source)
        except self._failures as error:
            raise self._unreadable(error) from error
        self.columns = tuple(self._file.schema_arrow.names)

    def __iter__(self) -> Iterator[RawRow]:
        try:
            batches = self._file.iter_batches(_BATCH_ROWS, use_threads=False)
            for row, fields in enumerate(fields for batch in batches for fields in _values(batch)):
                yield RawRow(row, None, fields, ReadPosition(row + 1))
        except self._failures as error:
            raise self._unreadable(error) from error

    def close(self) -> None:
        self._file.close()

    def _unreadable(self, error: Exception) -> InvalidInput:
        said = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        return InvalidInput(CodedText("parquet_unreadable", reason=said), place=self._name)


def _values(batch: Any) -> Iterator[Mapping[str, object] | BadRow]:
    try:
        yield from batch.to_pylist()
    except ValueError:
        # One value that is no UTF-8 fails its batch: find the row.
        for position in range(batch.num_rows):
            try:
                (fields,) = batch.slice(position, 1).to_pylist()
            except ValueError:
                fields = BadRow(CodedText("value_unreadable"), CodedText("text_as_utf8"))
            yield fields


# A workbook is read as a whole
_MAX_BYTES: Final = 256 * 1024 * 1024


class SheetRows(RowSource):
    """The rows of the first sheet below its header, as cells by column; dates in ISO form. Raises InvalidInput."""

    columns: tuple[str, ...]

    def __init__(self, path: Path) -> None:
        try:
            calamine = importlib.import_module("python_calamine")
        except ImportError:
            raise InvalidInput(CodedText("excel_needs"), place=path.name) from None
        try:
            if path.stat().st_size > _MAX_BYTES:
                raise InvalidInput(CodedText("excel_too_large", limit=_MAX_BYTES), place=path.name)
            with calamine.CalamineWorkbook.from_path(path) as workbook:
                self._cells = workbook.get_sheet_by_index(0).to_python(skip_empty_area=False)
        except (OSError, calamine.CalamineError) as error:
            said = getattr(error, "strerror", None) or str(error).partition("\n")[0]
            raise InvalidInput(CodedText("excel_unreadable", reason=said), place=path.name) from error
        self._header = next((place for place, cells in enumerate(self._cells) if any(map(_text, cells))), 0)
        names = [_text(cell).strip() for cell in self._cells[self._header]] if self._cells else []
        check_unique(names, place=f"{path.name}:{self._header + 1}")
        self._names, self.columns = names, tuple(filter(None, names))

    def __iter__(self) -> Iterator[RawRow]:
        below = enumerate(self._cells[self._header + 1 :], self._header + 2)
        filled = ((number, fields) for number, cells in below if any((fields := self._fields(cells)).values()))
        for row, (number, fields) in enumerate(filled):
            yield RawRow(row, number, fields, ReadPosition(row + 1))

    def close(self) -> None:
        self._cells = []

    def _fields(self, cells: list[Any]) -> Mapping[str, object]:
        return {name: _text(cell) for name, cell in zip(self._names, cells, strict=False) if name}


def _text(cell: Any) -> str:
    """Return a cell as CSV would hold it."""
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    return cell if isinstance(cell, str) else cell.isoformat() if hasattr(cell, "isoformat") else str(cell)
