"""The jobs of the service, from asyncio, and the files of rows that are submitted."""

import os
import re
import tempfile
import uuid
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import parse_qsl, urlsplit

from pydantic import BaseModel

from plumbline.client.connection import Connection, RequestSpec
from plumbline.client.failures import parse_model
from plumbline.client.job import AsyncJob, fetch_job
from plumbline.client.samples import AnyOptions, check_options, encode_json, encode_model, sample_fields, validate
from plumbline.ground.errors import InvalidInput
from plumbline.judging.text.sample import Sample
from plumbline.rows.records.data_file import parse_row_format
from plumbline.rows.records.frames import frame_rows
from plumbline.rows.records.record import Record
from plumbline.schemas.jobs import JOBS_PATH, JobChoices, JobInfo, JobList

AnyRow = Mapping[str, Any] | BaseModel | Sample | Record

_PAGE: Final = 100
_KEY: Final = re.compile(r"[!-~]{1,200}")


class AsyncJobs:
    """The jobs of one service: `submit`, `get`, `list`."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    async def submit(
        self,
        source: str | os.PathLike[str] | Iterable[AnyRow] | AsyncIterable[AnyRow],
        *,
        options: AnyOptions = None,
        name: str | None = None,
        columns: str | None = None,
        max_cost: float | None = None,
        format: str | None = None,  # noqa: A002
        idempotency_key: str | None = None,
    ) -> AsyncJob:
        """Submit rows; the service has them on disk when this returns.

        Args:
            source: path of a JSONL, JSON, CSV, TSV or Parquet file, sent as it is; or rows or a data frame, which pass
                through a temporary file. Neither is ever whole in memory.
            options: for each row, as for a single evaluation.
            name: of the job, for people.
            columns: name of a known row format; None: detected from the names of the columns.
            max_cost: budget at which the job pauses.
            format: of the file; None: by its suffix.
            idempotency_key: 1 to 200 visible ASCII characters; the same key with the same rows is the same job. None:
                a new one, so that a lost answer makes no second job.

        Raises:
            InvalidInput: a choice, the file or a row that cannot be sent.
            ClientError: the service was not reached or refused.
        """
        given: dict[str, Any] = {"name": name, "columns": columns, "max_cost": max_cost}
        build_spec = plan_submission(source, options, given, form=format, key=idempotency_key)
        with await _write_rows(source) if isinstance(source, AsyncIterable) else open_rows(source) as file:
            return await send_submission(self.connection, build_spec(file))

    async def get(self, job_id: str) -> AsyncJob:
        """Fetch the job of this id; raise NotThere if there is none, or it is another caller's."""
        return AsyncJob(self.connection, await fetch_job(self.connection, job_id))

    async def list(self, *, limit: int | None = None) -> AsyncGenerator[AsyncJob, None]:
        """Yield the caller's jobs, newest first, at most `limit`."""
        left, params = limit, {"limit": str(_PAGE if limit is None else min(limit, _PAGE))}
        while left is None or left > 0:
            found = parse_model(JobList, await self.connection.answer(RequestSpec("GET", JOBS_PATH, params=params)))
            for info in found.jobs[:left]:
                yield AsyncJob(self.connection, info)
            left = None if left is None else left - len(found.jobs)
            if found.next is None:
                return
            params = dict(parse_qsl(urlsplit(found.next).query))


async def send_submission(connection: Connection, spec: RequestSpec) -> AsyncJob:
    return AsyncJob(connection, parse_model(JobInfo, await connection.answer(spec)))


def plan_submission(
    source: object, options: AnyOptions, given: Mapping[str, Any], *, form: str | None, key: str | None
) -> Callable[[IO[bytes]], RequestSpec]:
    """Return a function from the open rows to the request, alike for each of its attempts; raise InvalidInput."""
    key = uuid.uuid4().hex if key is None else key
    if not _KEY.fullmatch(key):
        raise InvalidInput("idempotency_key: expected 1 to 200 visible ASCII characters")
    fields = {field: value for field, value in given.items() if value is not None}
    choices = encode_model(validate(JobChoices, {"options": check_options(options), **fields})).decode()
    name, suffix = "rows.jsonl", "jsonl"
    if isinstance(source, str | os.PathLike):
        name, suffix = Path(source).name, parse_row_format(Path(source), form)
    headers = {"idempotency-key": key, "content-type": f"multipart/form-data; boundary={uuid.uuid4().hex}"}
    return lambda file: RequestSpec(
        "POST",
        JOBS_PATH,
        headers=headers,
        fields={"choices": choices, "format": suffix},
        file=(name, file, "application/octet-stream"),
    )


def open_rows(source: str | os.PathLike[str] | Iterable[AnyRow]) -> IO[bytes]:
    """Open a file by its path, or a temporary file with a line for each row."""
    if isinstance(source, str | os.PathLike):
        try:
            return Path(source).open("rb")
        except OSError as error:
            raise InvalidInput(f"cannot be opened: {error.strerror}", place=Path(source).name) from None
    with ExitStack() as undo:
        file = undo.enter_context(tempfile.TemporaryFile())
        for number, row in enumerate(frame_rows(source) or source):
            _write_row(file, number, row)
        # The announced length is that of the file on disk.
        file.flush()
        undo.pop_all()
        return file


async def _write_rows(source: AsyncIterable[AnyRow]) -> IO[bytes]:
    with ExitStack() as undo:
        file, number = undo.enter_context(tempfile.TemporaryFile()), 0
        async for row in source:
            _write_row(file, number, row)
            number += 1
        file.flush()
        undo.pop_all()
        return file


def _write_row(file: IO[bytes], number: int, row: object) -> None:
    value = sample_fields(row)
    if not isinstance(value, Mapping):
        raise InvalidInput("expected a mapping or a sample", place=f"row {number}")
    try:
        file.write(encode_json(value) + b"\n")
    except InvalidInput as error:
        raise InvalidInput(error.detail, place=f"row {number}") from None
