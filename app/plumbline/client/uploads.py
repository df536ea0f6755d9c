"""Files of rows on their way to a job: read from disk as they are sent, and again for each attempt."""

import os
import tempfile
from collections.abc import AsyncIterable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from pydantic import BaseModel

from plumbline.client.samples import json_bytes, sample_value
from plumbline.ground.errors import InvalidInput
from plumbline.judging.text.sample import Sample
from plumbline.rows.records.data_file import parse_row_format
from plumbline.rows.records.record import Record

AnyRow = Mapping[str, Any] | BaseModel | Sample | Record


class Upload(NamedTuple):
    """An open file and the name by which its form is known."""

    name: str
    file: IO[bytes]
    form: str


@contextmanager
def opened(path: str | os.PathLike[str], form: str | None) -> Iterator[Upload]:
    """A data file.

    Raises:
        InvalidInput: its form is not known, or it cannot be opened.
    """
    place = Path(path)
    known = parse_row_format(place, form)
    try:
        file = place.open("rb")
    except OSError as error:
        raise InvalidInput(f"cannot be opened: {error.strerror}", place=place.name) from None
    with file:
        yield Upload(place.name, file, known)


@contextmanager
def spooled() -> Iterator[Upload]:
    """A file for rows that have none, gone when the context ends."""
    with tempfile.TemporaryFile() as file:
        yield Upload("rows.jsonl", file, "jsonl")


def write_row(upload: Upload, number: int, row: object) -> None:
    """Adds one row.

    Raises:
        InvalidInput: it is no mapping and no sample, or cannot be written as JSON.
    """
    value = sample_value(row)
    if not isinstance(value, Mapping):
        raise InvalidInput("expected a mapping or a sample", place=f"row {number}")
    try:
        upload.file.write(json_bytes(value) + b"\n")
    except InvalidInput as error:
        raise InvalidInput(error.detail, place=f"row {number}") from None


def write_rows(upload: Upload, rows: Iterable[object]) -> None:
    """Adds all rows, one at a time.

    Raises:
        InvalidInput: as `write_row`.
    """
    for number, row in enumerate(rows):
        write_row(upload, number, row)
    # The length that is announced is that of the file on disk.
    upload.file.flush()


async def write_async_rows(upload: Upload, rows: AsyncIterable[object]) -> None:
    """As `write_rows`."""
    number = 0
    async for row in rows:
        write_row(upload, number, row)
        number += 1
    upload.file.flush()
