"""Rows of Parquet files, read through pyarrow (an extra) a batch of one row group at a time."""

import importlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from plumbline.ground.errors import InvalidInput
from plumbline.rows.records.data_file import DataFile
from plumbline.rows.records.record import BadRow, RawRow, ReadPosition

# Rows that are turned into Python values at once.
_BATCH_ROWS: Final = 256


def load_pyarrow(name: str) -> Any:
    """Import `pyarrow.parquet`.

    Raises:
        InvalidInput: pyarrow is not installed; the message names the extra.
    """
    try:
        return importlib.import_module("pyarrow.parquet")
    except ImportError:
        detail = "Parquet needs pyarrow; install it with: pip install 'plumbline-rag[pyarrow]'"
        raise InvalidInput(detail, place=name) from None


class ParquetRows:
    """The rows of a Parquet file, lists as lists; `columns` are the schema's names.

    Args:
        only: the columns to read, of those that exist; None: all.

    Raises:
        InvalidInput: pyarrow is missing, or the file is not Parquet; when iterated: it is damaged.
    """

    columns: tuple[str, ...]

    def __init__(self, path: DataFile, start: ReadPosition, *, only: Sequence[str] | None = None) -> None:
        self._name = path.name
        parquet = load_pyarrow(path.name)
        self._failures: tuple[type[Exception], ...] = (OSError, importlib.import_module("pyarrow").ArrowException)
        try:
            self._file = parquet.ParquetFile(path if isinstance(path, Path) else path.open("rb"))
        except self._failures as error:
            raise self._unreadable(error) from error
        self.columns = tuple(self._file.schema_arrow.names)
        self._row = start.row
        self._only = None if only is None else [name for name in only if name in self.columns]

    @property
    def row_count(self) -> int:
        """The number of rows in the file's footer."""
        count: int = self._file.metadata.num_rows
        return count

    def __iter__(self) -> Iterator[RawRow]:
        first = 0
        for group in range(self._file.num_row_groups):
            size = self._file.metadata.row_group(group).num_rows
            if self._row < first + size:
                yield from self._group_rows(group, self._row - first)
            first += size

    def close(self) -> None:
        self._file.close()

    def _group_rows(self, group: int, skip: int) -> Iterator[RawRow]:
        batches = self._file.iter_batches(_BATCH_ROWS, row_groups=[group], columns=self._only, use_threads=False)
        try:
            for batch in batches:
                for fields in _values(batch.slice(min(skip, batch.num_rows))):
                    row, self._row = self._row, self._row + 1
                    yield RawRow(row, None, fields, ReadPosition(self._row))
                skip = max(0, skip - batch.num_rows)
        except self._failures as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> InvalidInput:
        said = getattr(error, "strerror", None) or str(error).partition("\n")[0]
        return InvalidInput(f"cannot be read as Parquet ({said})", place=self._name)


def _values(batch: Any) -> Iterator[Mapping[str, object] | BadRow]:
    try:
        yield from batch.to_pylist()
    except ValueError:
        # One value that is no UTF-8 fails its batch: find the row.
        for position in range(batch.num_rows):
            try:
                (fields,) = batch.slice(position, 1).to_pylist()
            except ValueError:
                fields = BadRow("a value that cannot be read (text that is not UTF-8?)", "text saved as UTF-8")
            yield fields
