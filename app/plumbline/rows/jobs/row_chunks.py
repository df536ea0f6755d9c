"""Rows of an upload in encoded chunks, as they were parsed, and back."""

import zlib
from collections.abc import Iterator
from dataclasses import astuple
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from plumbline.ground.errors import InvalidInput
from plumbline.ground.texts import CodedText, load_stored_text, store_text
from plumbline.judging.text.sample import ContextLabels, Sample
from plumbline.rows.records.columns import NONE_NAMED, NamedColumns
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


class RowChunk(NamedTuple):
    """Encoded rows of one chunk. `damage`: why nothing behind them could be read."""

    rows: int
    data: bytes
    damage: str | None = None


def chunked_rows(
    upload: Path,
    *,
    form: str,
    columns: str | None,
    named: NamedColumns = NONE_NAMED,
) -> Iterator[RowChunk]:
    """Yield the rows of an upload in chunks of at most 100 rows and about 4 MiB.

    Raises InvalidInput: as `RecordReader` before the first row; the last chunk reports damage behind it. The rows of a
    Parquet file end where they take 250 times the file's bytes.
    """
    left = _FREE_BYTES + _MAX_EXPANSION * upload.stat().st_size if form == "parquet" else None
    with RecordReader(upload, format=form, columns=columns, named=named) as reader:
        lines: list[bytes] = []
        size = 0
        damage: str | None = None
        while damage is None:
            try:
                row = next(reader, None)
            except InvalidInput as error:
                row, damage = None, CodedText("file_damaged", row=reader.position.row, reason=error.detail)
            if row is not None:
                lines.append(encode_row(row) + b"\n")
                size += len(lines[-1])
                if left is not None and (left := left - len(lines[-1])) < 0:
                    damage = CodedText("file_expands", row=reader.position.row, times=_MAX_EXPANSION)
            is_full = len(lines) == CHUNK_ROWS or size >= _CHUNK_BYTES
            if damage or (lines and (is_full or row is None)):
                yield RowChunk(len(lines), b"".join(lines), damage)
                lines, size = [], 0
            if row is None:
                return


def pack(data: bytes) -> bytes:
    return zlib.compress(data, 1)


def unpack(stored: bytes | None) -> list[Record | RecordProblem]:
    """Return the rows of a stored chunk. Raises InvalidInput: they are lost, or not what was written."""
    if stored is None:
        raise InvalidInput(CodedText("rows_gone"))
    try:
        return list(decode_rows(zlib.decompress(stored)))
    except zlib.error:
        raise InvalidInput(CodedText("rows_changed")) from None


def encode_row(row: Record | RecordProblem) -> bytes:
    """Return a row as one line of JSON, without its line end."""
    if isinstance(row, RecordProblem):
        return _ENCODER.encode((row.row, row.line, row.custom_id, store_text(row.found), store_text(row.expected)))
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
            raise InvalidInput(CodedText("rows_changed")) from None
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
            number, at, custom_id, found, expected = fields
            said = (load_stored_text(str(found)), load_stored_text(str(expected)))
            yield RecordProblem(number, at, custom_id, *said)  # type: ignore[arg-type]
