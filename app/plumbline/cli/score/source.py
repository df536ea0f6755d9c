"""Input of `plumbline score`: the file, its columns, its digest, and how much of it stands before a position."""

import hashlib
import shutil
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from plumbline.cli.score.options import COLUMN_FIELDS, WHOLE, InputOptions, Shard
from plumbline.ground.errors import InvalidInput
from plumbline.rows.records.columns import ColumnMap
from plumbline.rows.records.data_file import SHEET_FORM
from plumbline.rows.records.reading import RecordReader
from plumbline.rows.records.record import ReadPosition
from plumbline.rows.run_identity import Choice

_BLOCK_BYTES: Final = 1 << 20
_DIGEST_BYTES: Final = 16
_GZIP_MAGIC: Final = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class InputFile:
    """Identity of a file, whatever its name. `digest` is BLAKE2b of its bytes, compressed or not."""

    bytes: int
    modified_ns: int
    digest: str


@dataclass(frozen=True, slots=True)
class InputSource:
    """File to score: of its first `limit` rows those of `shard`; `explanation` tells how its columns were found."""

    path: Path
    form: str
    columns: ColumnMap
    explanation: str
    limit: int | None = None
    shard: Shard = WHOLE

    def open(self) -> RecordReader:
        return RecordReader(self.path, format=self.form, columns=self.columns)

    def identity(self) -> dict[str, Choice]:
        """Return format and columns as a part of the run's identity."""
        map_ = self.columns
        columns = {f"column of {name}": list(map_.columns_of(name)) for name in COLUMN_FIELDS if map_.columns_of(name)}
        separator = {"context separator": map_.context_separator}
        return {
            "format": self.form,
            **columns,
            **separator,
            "limit": self.limit,
            "shard": str(self.shard) if self.shard.count > 1 else None,
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


def open_source(stack: ExitStack, given: InputOptions) -> InputSource:
    """Return the input with its columns; standard input is copied to a file, which can be read twice.

    Raises:
        InvalidInput: it cannot be read, or its columns are unknown.
    """
    path, form, columns = Path(given.name), given.form, given.columns
    if given.name == "-":
        if form not in (None, "jsonl"):
            raise InvalidInput(f"--format {form}: standard input is read as jsonl")
        path, form = Path(stack.enter_context(TemporaryDirectory())) / "standard-input.jsonl", "jsonl"
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file, _BLOCK_BYTES)
    if given.changes:
        with RecordReader(path, format=form, columns=columns) as reader:
            form, columns = reader.format, replace(reader.columns, **given.changes)  # type: ignore[arg-type]
    with RecordReader(path, format=form, columns=columns) as reader:
        return InputSource(path, reader.format, reader.columns, reader.explanation, given.limit, given.shard)


def identify_file(path: Path, before: InputFile | None = None) -> InputFile:
    """Return the file's identity; `before`, unread, if size and date are equal (hashing takes 1.2 s a GB).

    Raises:
        InvalidInput: it cannot be read.
    """
    try:
        stat = path.stat()
        if before is not None and (stat.st_size, stat.st_mtime_ns) == (before.bytes, before.modified_ns):
            return before
        digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
        with path.open("rb") as file:
            while block := file.read(_BLOCK_BYTES):
                digest.update(block)
    except OSError as error:
        raise InvalidInput(f"cannot be read ({error.strerror})", place=path.name) from error
    return InputFile(stat.st_size, stat.st_mtime_ns, digest.hexdigest())
