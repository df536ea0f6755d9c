"""Input of `plumbline score`: the file, its columns, its digest, and how much of it stands before a position."""

import argparse
import shutil
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from plumbline.cli.score.options import WHOLE, Shard, parse_columns
from plumbline.ground.errors import InvalidInput
from plumbline.ground.files import sha256_of
from plumbline.rows.records.columns import FIELDS, ColumnMap
from plumbline.rows.records.data_file import SHEET_FORM
from plumbline.rows.records.reading import RecordReader
from plumbline.rows.records.record import ReadPosition

_GZIP_MAGIC: Final = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class InputSource:
    """File to score: of its first `limit` rows those of `shard`; `explanation` tells how its columns were found."""

    path: Path
    form: str
    columns: ColumnMap
    explanation: str
    encoding: str | None = None
    limit: int | None = None
    shard: Shard = WHOLE

    def open(self) -> RecordReader:
        return RecordReader(self.path, format=self.form, columns=self.columns, encoding=self.encoding)

    def identity(self) -> dict[str, object]:
        """Return what decides the rows: content of the file, format, columns, limit and shard."""
        return {
            "input": sha256_of(self.path),
            "format": self.form,
            "columns": [self.columns.columns_of(name) for name in FIELDS],
            "context separator": self.columns.context_separator,
            "limit": self.limit,
            "shard": str(self.shard),
            **({} if self.encoding is None else {"encoding": self.encoding}),
        }

    def share_before(self) -> Callable[[ReadPosition], float | None]:
        """Return a function: the share of the rows before a position, in [0, 1]; None if unknown."""
        is_parquet = self.form == "parquet"
        if is_parquet:
            from plumbline.rows.records.binary_files import load_pyarrow  # noqa: PLC0415 - heavy, and an extra

            total: int | None = load_pyarrow(self.path.name).read_metadata(self.path).num_rows
        else:
            with self.path.open("rb") as file:
                is_gzip = file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
            total = None if is_gzip or self.form == SHEET_FORM else self.path.stat().st_size

        def share(position: ReadPosition) -> float | None:
            done = position.row if is_parquet else position.offset
            shares = [] if total is None else [done / total if total else 1.0]
            if self.limit is not None:
                shares.append(position.row / self.limit)
            return min(1.0, max(shares)) if shares else None

        return share


def open_source(
    stack: ExitStack,
    given: argparse.Namespace,
    *,
    form: str | None = None,
    limit: int | None = None,
    shard: Shard = WHOLE,
) -> InputSource:
    """Return the input `data` with its columns; standard input is copied to a file, which can be read twice.

    `limit`: bounds the rows before `shard` picks its own. Raises InvalidInput: it cannot be read, or its columns are
    unknown.
    """
    named, changes = parse_columns(given)
    path = Path(given.data)
    if given.data == "-":
        if form not in (None, "jsonl"):
            raise InvalidInput(f"--format {form}: standard input is read as jsonl")
        path, form = Path(stack.enter_context(TemporaryDirectory())) / "standard-input.jsonl", "jsonl"
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
    encoding = given.encoding
    with RecordReader(path, format=form, columns=given.columns, named=named, encoding=encoding) as reader:
        columns, explanation = reader.columns, reader.explanation
        if changes:
            columns, explanation = replace(columns, **changes), explanation.partition("; contexts split at")[0]  # type: ignore[arg-type]
        return InputSource(path, reader.format, columns, explanation, encoding, limit, shard)
