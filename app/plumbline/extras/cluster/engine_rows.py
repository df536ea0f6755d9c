"""A batch as engines hand it out (columns, records, an Arrow table, a pandas frame) as rows of plain Python values."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from plumbline.ground.errors import InvalidInput
from plumbline.rows.records.record import RawRow, ReadPosition

# pyarrow's tables and pandas' frames are known by shape: neither is imported.
Batch = Mapping[str, Sequence[object]] | Sequence[Mapping[str, object]] | Any


class EngineRows(NamedTuple):
    """The rows of a batch; `columns` is None where each row names its own fields."""

    columns: tuple[str, ...] | None
    rows: list[RawRow]


def engine_rows(batch: Batch, first_row: int = 0) -> EngineRows:
    """The rows of a batch, numbered from `first_row` on.

    Raises:
        InvalidInput: it is no batch, or its columns are not of one length.
    """
    columns, records = _columns_and_records(batch)
    return EngineRows(columns, [_raw(row, fields) for row, fields in enumerate(records, start=first_row)])


def _raw(row: int, fields: Mapping[str, object]) -> RawRow:
    return RawRow(row, None, {name: plain(value) for name, value in fields.items()}, ReadPosition(row + 1))


def _columns_and_records(batch: Batch) -> tuple[tuple[str, ...] | None, list[Mapping[str, object]]]:
    if hasattr(batch, "to_pylist") and hasattr(batch, "schema"):
        return tuple(batch.schema.names), batch.to_pylist()
    if hasattr(batch, "to_dict") and hasattr(batch, "columns"):
        return tuple(batch.columns), batch.to_dict("records")
    if isinstance(batch, Mapping):
        return tuple(batch), list(_zipped(batch))
    if isinstance(batch, Sequence) and all(isinstance(each, Mapping) for each in batch):
        return None, list(batch)
    raise InvalidInput("a batch is a mapping of columns, a list of records, an Arrow table or a pandas frame")


def _zipped(batch: Mapping[str, Sequence[object]]) -> Iterator[Mapping[str, object]]:
    lengths = {len(values) for values in batch.values()}
    if len(lengths) > 1:
        raise InvalidInput(f"the columns of a batch have {min(lengths)} to {max(lengths)} values; expected one length")
    for values in zip(*batch.values(), strict=True):
        yield dict(zip(batch, values, strict=True))


def plain(value: object) -> object:
    """A value without numpy in it; NaN, which stands for what is missing there, becomes None."""
    if isinstance(value, str):
        return value
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    return None if isinstance(value, float) and math.isnan(value) else value
