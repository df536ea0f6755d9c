"""Rows read from Parquet and results written to it, through pyarrow (an extra)."""

import importlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

from plumbline.ground.errors import InvalidInput
from plumbline.rows.records.data_file import DataFile
from plumbline.rows.records.record import BadRow, RawRow, ReadPosition
from plumbline.rows.records.result_table import RESULT_COLUMNS, flat_result

# Rows that are turned into Python values at once.
_BATCH_ROWS: Final = 256


def load_pyarrow(name: str) -> Any:
    """The module `pyarrow.parquet`.

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
        only: the columns that rows are to hold, of those that there are; None: all.

    Raises:
        InvalidInput: pyarrow is missing, or the file is not Parquet; when walked: it is damaged.
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
        """The rows that the file's footer counts."""
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
        """Close the file."""
        self._file.close()

    def _group_rows(self, group: int, skip: int) -> Iterator[RawRow]:
        for batch in self._batches(group):
            if skip >= batch.num_rows:
                skip -= batch.num_rows
                continue
            for fields in _values(batch.slice(skip)):
                row, self._row = self._row, self._row + 1
                yield RawRow(row, None, fields, ReadPosition(self._row))
            skip = 0

    def _batches(self, group: int) -> Iterator[Any]:
        try:
            yield from self._file.iter_batches(_BATCH_ROWS, row_groups=[group], columns=self._only, use_threads=False)
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


# Rows of one row group, held until it is written
_GROUP_ROWS: Final = 10_000


class ParquetResults:
    """Writes `RESULT_COLUMNS` a row group at a time; flags and warnings are lists of strings.

    Raises:
        InvalidInput: pyarrow is missing.
    """

    def __init__(self, file: BinaryIO, *, name: str, group_rows: int = _GROUP_ROWS) -> None:
        parquet = load_pyarrow(name)
        self._arrow = importlib.import_module("pyarrow")
        self._schema = result_schema(self._arrow)
        self._writer = parquet.ParquetWriter(file, self._schema, compression="zstd")
        self._group_rows = group_rows
        self._held: list[dict[str, object]] = []

    def write(self, result: Mapping[str, object]) -> None:
        """Keep one result, and write the group when it is full."""
        self._held.append(flat_result(result))
        if len(self._held) == self._group_rows:
            self._write_group()

    def finish(self) -> None:
        """Write what is held, and the footer."""
        self._write_group()
        self._writer.close()

    def abandon(self) -> None:
        """Let go of the file; what was written is of no use."""
        self._writer.close()

    def _write_group(self) -> None:
        if self._held:
            self._writer.write_table(self._arrow.Table.from_pylist(self._held, schema=self._schema))
            self._held = []


def result_schema(arrow: Any) -> Any:
    """`RESULT_COLUMNS` as an Arrow schema; `arrow` is the module pyarrow."""
    types = {
        "text": arrow.string(),
        "number": arrow.float64(),
        "whole": arrow.int64(),
        "truth": arrow.bool_(),
        "texts": arrow.list_(arrow.string()),
    }
    return arrow.schema([(name, types[kind]) for name, kind in RESULT_COLUMNS.items()])
