"""Rows of a job in an immutable file of chunks, as they were parsed from the upload."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from plumbline.ground.errors import InvalidInput
from plumbline.ground.files import atomic_write
from plumbline.judging.text.sample import Sample
from plumbline.rows.records.reading import RecordReader
from plumbline.rows.records.record import Record, RecordProblem

CHUNK_ROWS: Final = 100
_CHUNK_BYTES: Final = 4 * 1024 * 1024
_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(list[object])
_RECORD_FIELDS: Final = 6


class ChunkSpan(NamedTuple):
    """Position of a chunk: its rows in the job, its bytes in the file."""

    first_row: int
    rows: int
    offset: int
    length: int


class Cut(NamedTuple):
    """Chunks of an upload. `damage`: why it could not be read to its end; None if it was."""

    chunks: list[ChunkSpan]
    rows: int
    damage: str | None


def cut_upload(upload: Path, target: Path, *, form: str, columns: str | None, chunk_rows: int = CHUNK_ROWS) -> Cut:
    """Write the rows of an upload, up to damage in it, to `target`, atomically.

    Raises:
        InvalidInput: there is no row, or the form or the columns are not known.
        OSError: the target cannot be written.
    """
    spans: list[ChunkSpan] = []
    row = offset = 0
    damage = None
    with atomic_write(target, mode=0o600) as file:
        for chunk in chunked_rows(upload, form=form, columns=columns, chunk_rows=chunk_rows):
            damage = chunk.damage
            if chunk.rows:
                spans.append(ChunkSpan(row, chunk.rows, offset, len(chunk.data)))
                file.write(chunk.data)
                row += chunk.rows
                offset += len(chunk.data)
        if not row:
            raise InvalidInput(damage or "the file has no row")
    return Cut(spans, row, damage)


class RowChunk(NamedTuple):
    """Encoded rows of one chunk. `damage`: why nothing behind them could be read."""

    rows: int
    data: bytes
    damage: str | None = None


def chunked_rows(upload: Path, *, form: str, columns: str | None, chunk_rows: int = CHUNK_ROWS) -> Iterator[RowChunk]:
    """Yield the rows of an upload in chunks of at most `chunk_rows` rows and about 4 MiB.

    Raises:
        InvalidInput: as `RecordReader` before the first row; the last chunk reports damage behind it.
    """
    with RecordReader(upload, format=form, columns=columns) as reader:
        lines: list[bytes] = []
        size = 0
        while True:
            try:
                row = next(reader, None)
            except InvalidInput as error:
                yield RowChunk(len(lines), b"".join(lines), f"damaged behind row {reader.position.row}: {error.detail}")
                return
            if row is None:
                break
            lines.append(encode_row(row) + b"\n")
            size += len(lines[-1])
            if len(lines) == chunk_rows or size >= _CHUNK_BYTES:
                yield RowChunk(len(lines), b"".join(lines))
                lines, size = [], 0
        if lines:
            yield RowChunk(len(lines), b"".join(lines))


def read_chunk(path: Path, *, offset: int, length: int) -> bytes:
    """Return the bytes of a chunk; raises OSError."""
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(length)


def encode_row(row: Record | RecordProblem) -> bytes:
    """Return a row as one line of JSON, without its line end."""
    if isinstance(row, RecordProblem):
        return _ENCODER.encode((row.row, row.line, row.custom_id, row.found, row.expected))
    sample = row.sample
    return _ENCODER.encode((row.row, row.custom_id, sample.question, sample.contexts, sample.answer, sample.reference))


def decode_rows(chunk: bytes) -> Iterator[Record | RecordProblem]:
    for line in chunk.splitlines():
        fields = _DECODER.decode(line)
        if len(fields) == _RECORD_FIELDS:
            row, custom_id, question, contexts, answer, reference = fields
            sample = Sample(question, tuple(contexts), answer, reference)  # type: ignore[arg-type]
            yield Record(row, custom_id, sample, {})  # type: ignore[arg-type]
        else:
            yield RecordProblem(*fields)  # type: ignore[arg-type]
