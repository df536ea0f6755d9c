"""Split of a file into blocks of rows; each can be read by itself, with the rows that the whole file would give."""

from collections.abc import Iterator
from contextlib import closing
from typing import Final, NamedTuple

from plumbline.extras.cluster.places import data_file
from plumbline.rows.records.columns import ColumnMap
from plumbline.rows.records.data_file import DataFile
from plumbline.rows.records.parquet_files import ParquetRows
from plumbline.rows.records.reading import RecordReader, RowSource, SeenIds, open_rows
from plumbline.rows.records.record import BadRow, ReadPosition, Record, RecordProblem
from plumbline.rows.records.record_fields import parse_custom_id

# Of text. A block is held in memory while it is scored.
_MAX_BLOCK_BYTES: Final = 64 * 1024 * 1024


class Block(NamedTuple):
    """A number of rows of one file from `start`. `repeats`: ids in it that earlier rows of the file have."""

    file: int
    start: ReadPosition
    rows: int
    repeats: tuple[str, ...] = ()

    @property
    def stem(self) -> str:
        """Return its name; names sort as the rows do."""
        return f"part-{self.file:06d}-{self.start.row:012d}"


class Reading(NamedTuple):
    """Format and columns of the files, as of `RecordReader`."""

    format: str | None = None
    columns: ColumnMap | str | None = None


def split_file(place: str, file: int, reading: Reading, block_rows: int) -> list[Block]:
    """Return the blocks of a file, of `block_rows` rows or, in text, 64 MiB. Reads the file once.

    Of Parquet it reads only the column of the ids, or only the footer if there is none.

    Raises:
        InvalidInput: as `RecordReader`; a truncated or damaged file is refused here, before anything is scored.
    """
    path = data_file(place)
    with RecordReader(path, format=reading.format, columns=reading.columns) as reader:
        form, columns = reader.format, reader.columns
    if form == "parquet":
        return _parquet_blocks(path, file, columns, block_rows)
    with closing(open_rows(path, form)) as source:
        return list(_walked(file, source, columns, block_rows))


def block_records(place: str, block: Block, reading: Reading) -> Iterator[Record | RecordProblem]:
    """Yield the rows of a block as reading the whole file would give them."""
    with RecordReader(
        data_file(place),
        format=reading.format,
        columns=reading.columns,
        start=block.start,
        seen_ids=block.repeats,
    ) as reader:
        for _, row in zip(range(block.rows), reader, strict=False):
            yield row


def _parquet_blocks(path: DataFile, file: int, columns: ColumnMap, block_rows: int) -> list[Block]:
    name = columns.custom_id or ""
    ids = (name, name.partition(".")[0])
    with closing(ParquetRows(path, ReadPosition(), only=ids)) as source:
        if any(each in source.columns for each in ids):
            return list(_walked(file, source, columns, block_rows))
        rows = source.row_count
        return [Block(file, ReadPosition(first), min(block_rows, rows - first)) for first in range(0, rows, block_rows)]


def _walked(file: int, source: RowSource, columns: ColumnMap, block_rows: int) -> Iterator[Block]:
    seen = SeenIds()
    start, rows, own, repeats = ReadPosition(), 0, set[str](), list[str]()
    after = start
    for raw in source:
        try:
            custom_id = parse_custom_id(raw, columns)
        except BadRow:
            custom_id = None
        if custom_id is not None and not seen.add(custom_id):
            own.add(custom_id)
        elif custom_id is not None and custom_id not in own:
            repeats.append(custom_id)
        rows, after = rows + 1, raw.after
        if rows == block_rows or after.offset - start.offset >= _MAX_BLOCK_BYTES:
            yield Block(file, start, rows, tuple(dict.fromkeys(repeats)))
            start, rows, own, repeats = after, 0, set(), []
    if rows:
        yield Block(file, start, rows, tuple(dict.fromkeys(repeats)))
