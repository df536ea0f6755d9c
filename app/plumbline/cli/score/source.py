"""What `plumbline score` reads: the file, its form, its columns, and how much of it stands before a place."""

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from plumbline.cli.score.input_file import spooled
from plumbline.cli.score.run_state import Choice
from plumbline.ground.errors import InvalidInput
from plumbline.rows.records.columns import ColumnMap
from plumbline.rows.records.reading import RecordReader
from plumbline.rows.records.record import ReadPosition

_FIELDS: Final = ("question", "contexts", "answer", "reference", "custom_id")
_GZIP_MAGIC: Final = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class Source:
    """The file to score. `explanation` is one line on how its columns were found."""

    path: Path
    form: str
    columns: ColumnMap
    explanation: str

    def open(self, start: ReadPosition, seen_ids: Iterator[str]) -> RecordReader:
        """A reader from a position on."""
        return RecordReader(self.path, format=self.form, columns=self.columns, start=start, seen_ids=seen_ids)

    def choices(self) -> Mapping[str, Choice]:
        """What is read as what."""
        map_ = self.columns
        columns = {f"column of {name}": list(map_.columns_of(name)) for name in _FIELDS if map_.columns_of(name)}
        return {"format": self.form, **columns, "context separator": map_.context_separator}


def source_of(options: argparse.Namespace, stack: ExitStack) -> Source:
    """The file that the options name; standard input is read to its end first.

    Raises:
        InvalidInput: it cannot be read, or its columns are not known.
    """
    path, form = Path(options.data), options.format
    if options.data == "-":
        if form not in (None, "jsonl"):
            raise InvalidInput(f"--format {form}: standard input is read as jsonl")
        path, form = spooled(sys.stdin.buffer, Path(stack.enter_context(TemporaryDirectory()))), "jsonl"
    named = _named_columns(options.column)
    whole = named_columns(options)
    is_whole, columns = whole is not None, whole or options.columns
    with RecordReader(path, format=form, columns=columns) as reader:
        changes = {} if is_whole else named
        if options.context_separator is not None:
            changes = {**changes, "context_separator": _unescaped(options.context_separator)}
        if not changes:
            return Source(path, reader.format, reader.columns, reader.explanation)
        changed = replace(reader.columns, **changes)  # type: ignore[arg-type]
        form = reader.format
    with RecordReader(path, format=form, columns=changed) as reader:
        return Source(path, reader.format, reader.columns, reader.explanation)


def named_columns(options: argparse.Namespace) -> ColumnMap | None:
    """The whole map, where the options name contexts and answer.

    Raises:
        InvalidInput: a pair that is none, or a preset beside the map.
    """
    named = _named_columns(options.column)
    if not {"answer", "contexts"} <= named.keys():
        return None
    if options.columns is not None:
        raise InvalidInput("--columns: --column names contexts and answer already; expected one of the two")
    return ColumnMap(**named)  # type: ignore[arg-type]


def share_of(source: Source, limit: int | None) -> Callable[[ReadPosition], float | None]:
    """How much of the file stands before a position, in [0, 1]; None where that cannot be told."""
    total, of_position = _extent(source)

    def share(position: ReadPosition) -> float | None:
        shares = [] if total is None else [of_position(position) / total if total else 1.0]
        if limit is not None:
            shares.append(position.row / limit)
        return min(1.0, max(shares)) if shares else None

    return share


def _extent(source: Source) -> tuple[int | None, Callable[[ReadPosition], int]]:
    if source.form == "parquet":
        from plumbline.rows.records.parquet_files import load_pyarrow  # noqa: PLC0415 - heavy, and an extra

        return load_pyarrow(source.path.name).read_metadata(source.path).num_rows, lambda position: position.row
    with source.path.open("rb") as file:
        is_gzip = file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
    return None if is_gzip else source.path.stat().st_size, lambda position: position.offset


def _named_columns(pairs: list[str]) -> dict[str, str | tuple[str, ...]]:
    named: dict[str, str | tuple[str, ...]] = {}
    for pair in pairs:
        field, separator, column = pair.partition("=")
        if field not in _FIELDS or not separator or not column:
            raise InvalidInput(f"--column {pair[:80]!r}: expected FIELD=COLUMN with a field of {', '.join(_FIELDS)}")
        if field in named:
            raise InvalidInput(f"--column {field}: is named twice")
        parts = tuple(part.strip() for part in column.split(","))
        named[field] = parts if field == "contexts" and len(parts) > 1 else column
    return named


def _unescaped(text: str) -> str:
    """`\\n` and `\\t` as a shell passes them on."""
    return text.replace("\\n", "\n").replace("\\t", "\t")
