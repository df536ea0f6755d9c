"""Results as Parquet, through pyarrow."""

import importlib
from collections.abc import Mapping
from typing import Any, BinaryIO, Final

from plumbline.rows.records.parquet_rows import load_pyarrow
from plumbline.rows.records.result_columns import RESULT_COLUMNS, flat_result

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
