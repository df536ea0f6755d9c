"""Rows of a job in an immutable file of chunks, as they were parsed from the upload."""

from collections.abc import Callable, Iterator
from dataclasses import astuple
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from plumbline.ground.errors import InvalidInput
from plumbline.ground.files import atomic_write
from plumbline.judging.text.sample import ContextLabels, Sample
from plumbline.rows.records.conversations import parse_conversation
from plumbline.rows.records.reading import RecordReader
from plumbline.rows.records.record import Record, RecordProblem

CHUNK_ROWS: Final = 100
_CHUNK_BYTES: Final = 4 * 1024 * 1024
_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(list[object])
_RECORD_FIELDS: Final = 6
# Rows of a Parquet file, in bytes for each byte of it: the bound that compressed text has. Dictionaries of one value
# make 20 GB of 1 kB.
_MAX_EXPANSION: Final = 250
_FREE_BYTES: Final = 16 * 1024 * 1024


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


def cut_upload(
    upload: Path,
    target: Path,
    *,
    form: str,
    columns: str | None,
    chunk_rows: int = CHUNK_ROWS,
    is_wanted: Callable[[], bool] = lambda: True,
) -> Cut:
    """Write the rows of an upload, up to damage in it, to `target`, atomically.

    Args:
        is_wanted: asked before each chunk; the reading ends with InvalidInput when it is not.

    Raises:
        InvalidInput: there is no row, or the form or the columns are not known.
        OSError: the target cannot be written.
    """
    spans: list[ChunkSpan] = []
    row = offset = 0
    damage = None
    with atomic_write(target, mode=0o600) as file:
        for chunk in chunked_rows(upload, form=form, columns=columns, chunk_rows=chunk_rows):
            if not is_wanted():
                raise InvalidInput("the reading was given up: the job is no longer this worker's")
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
        InvalidInput: as `RecordReader` before the first row; the last chunk reports damage behind it. The rows of a
            Parquet file end where they take 250 times the file's bytes.
    """
    left = _FREE_BYTES + _MAX_EXPANSION * upload.stat().st_size if form == "parquet" else None
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
            if left is not None and (left := left - len(lines[-1])) < 0:
                detail = f"behind row {reader.position.row} the rows take {_MAX_EXPANSION} times the file's bytes"
                yield RowChunk(len(lines), b"".join(lines), detail)
                return
            if len(lines) == chunk_rows or size >= _CHUNK_BYTES:
                yield RowChunk(len(lines), b"".join(lines))
                lines, size = [], 0
        if lines:
            yield RowChunk(len(lines), b"".join(lines))


def read_chunk(path: Path, *, offset: int, length: int) -> bytes:
    """Return the bytes of a chunk.

    Raises:
        InvalidInput: the file is gone, or shorter than it was.
        OSError: the file cannot be read now.
    """
    try:
        with path.open("rb") as file:
            file.seek(offset)
            data = file.read(length)
    except FileNotFoundError:
        raise InvalidInput("the file with the job's rows is gone from the data folder; submit the job again") from None
    if len(data) != length:
        raise InvalidInput("the file with the job's rows was cut in the data folder; submit the job again")
    return data


def encode_row(row: Record | RecordProblem) -> bytes:
    """Return a row as one line of JSON, without its line end."""
    if isinstance(row, RecordProblem):
        return _ENCODER.encode((row.row, row.line, row.custom_id, row.found, row.expected))
    sample = row.sample
    return _ENCODER.encode(
        (
            row.row,
            row.custom_id,
            sample.question,
            sample.contexts,
            sample.answer,
            sample.reference,
            [astuple(labels) for labels in sample.context_labels],
            *((sample.conversation,) if sample.conversation else ()),
        )
    )


def decode_rows(chunk: bytes) -> Iterator[Record | RecordProblem]:
    """Yield the rows of a chunk. Raises InvalidInput: it is not what was written."""
    for line in chunk.splitlines():
        try:
            fields = _DECODER.decode(line)
        except msgspec.DecodeError:
            raise InvalidInput("the file with the job's rows was changed in the data folder; submit it again") from None
        if len(fields) >= _RECORD_FIELDS:
            row, custom_id, question, contexts, answer, reference, *rest = fields
            # Rows that were waiting before contexts had labels have none.
            labels = tuple(ContextLabels(*each) for each in (rest[0] if rest else ()))  # type: ignore[attr-defined]
            if len(rest) > 1:
                sample = parse_conversation(rest[1])  # type: ignore[arg-type]
            else:
                sample = Sample(question, tuple(contexts), answer, reference, labels)  # type: ignore[arg-type]
            yield Record(row, custom_id, sample, {})  # type: ignore[arg-type]
        else:
            yield RecordProblem(*fields)  # type: ignore[arg-type]
