"""The jobs of the service, from asyncio, and the files of rows that are submitted."""

import os
import re
import tempfile
import uuid
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import parse_qsl, urlsplit

from pydantic import BaseModel

from plumbline.client.connection import Connection, FormFile, RequestSpec
from plumbline.client.failures import parse_model
from plumbline.client.job import AsyncJob, fetch_job
from plumbline.client.samples import AnyOptions, check_options, encode_json, encode_model, sample_fields, validate
from plumbline.ground.errors import InvalidInput
from plumbline.judging.text.sample import Sample
from plumbline.rows.records.data_file import parse_row_format
from plumbline.rows.records.record import Record
from plumbline.schemas.jobs import JOBS_PATH, JobChoices, JobInfo, JobList

AnyRow = Mapping[str, Any] | BaseModel | Sample | Record

_PAGE: Final = 100
_KEY: Final = re.compile(r"[!-~]{1,200}")


class AsyncJobs:
    """The jobs of one service: `submit`, `get`, `list`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

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
            source: path of a JSONL, JSON, CSV, TSV or Parquet file, sent as it is; or rows, which pass through a
                temporary file. Neither is ever whole in memory.
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
        with self.submission(
            options=options, name=name, columns=columns, max_cost=max_cost, idempotency_key=idempotency_key
        ) as submission:
            if isinstance(source, AsyncIterable):
                await submission.add_async(source)
            else:
                submission.add(source, format)
            return await submission.send()

    @contextmanager
    def submission(
        self,
        *,
        options: AnyOptions,
        name: str | None,
        columns: str | None,
        max_cost: float | None,
        idempotency_key: str | None,
    ) -> Iterator["Submission"]:
        """Prepare a job; its files are closed when the context ends."""
        key = uuid.uuid4().hex if idempotency_key is None else idempotency_key
        if not _KEY.fullmatch(key):
            raise InvalidInput("idempotency_key: expected 1 to 200 visible ASCII characters")
        given = {"name": name, "columns": columns, "max_cost": max_cost}
        fields = {field: value for field, value in given.items() if value is not None}
        choices = encode_model(validate(JobChoices, {"options": check_options(options), **fields}))
        with ExitStack() as files:
            yield Submission(self._connection, files, choices, key)

    async def get(self, job_id: str) -> AsyncJob:
        """Fetch the job of this id; raise NotThere if there is none, or it is another caller's."""
        return AsyncJob(self._connection, await fetch_job(self._connection, job_id))

    async def list(self, *, limit: int | None = None) -> AsyncGenerator[AsyncJob, None]:
        """Yield the caller's jobs, newest first, at most `limit`."""
        left, params = limit, {"limit": str(_PAGE if limit is None else min(limit, _PAGE))}
        while left is None or left > 0:
            found = parse_model(JobList, await self._connection.answer(RequestSpec("GET", JOBS_PATH, params=params)))
            for info in found.jobs[:left]:
                yield AsyncJob(self._connection, info)
            left = None if left is None else left - len(found.jobs)
            if found.next is None:
                return
            params = dict(parse_qsl(urlsplit(found.next).query))


class Submission:
    """A job before it is submitted: `add` or `add_async` once, then `send`."""

    def __init__(self, connection: Connection, files: ExitStack, choices: bytes, key: str) -> None:
        self._connection = connection
        self._files = files
        self._choices = choices
        self._key = key
        self._name, self._format = "rows.jsonl", "jsonl"
        self._file: IO[bytes] | None = None

    def add(self, source: str | os.PathLike[str] | Iterable[AnyRow], form: str | None) -> None:
        """Add a file by its path, or rows."""
        if not isinstance(source, str | os.PathLike):
            file = self._spool()
            for number, row in enumerate(source):
                _write_row(file, number, row)
            # The announced length is that of the file on disk.
            file.flush()
            return
        path = Path(source)
        self._name, self._format = path.name, parse_row_format(path, form)
        try:
            self._file = self._files.enter_context(path.open("rb"))
        except OSError as error:
            raise InvalidInput(f"cannot be opened: {error.strerror}", place=path.name) from None

    async def add_async(self, rows: AsyncIterable[AnyRow]) -> None:
        """Add rows from an async iterable."""
        file, number = self._spool(), 0
        async for row in rows:
            _write_row(file, number, row)
            number += 1
        file.flush()

    async def send(self) -> AsyncJob:
        """Submit what was added; retries have the same idempotency key."""
        if self._file is None:
            raise InvalidInput("nothing was added to the job")
        fields = {"choices": self._choices.decode(), "format": self._format}
        # One boundary for all attempts: the repeated request is the first one to the byte.
        form = FormFile(fields, self._name, self._file, uuid.uuid4().hex)
        spec = RequestSpec("POST", JOBS_PATH, headers={"idempotency-key": self._key}, content=form)
        return AsyncJob(self._connection, parse_model(JobInfo, await self._connection.answer(spec)))

    def _spool(self) -> IO[bytes]:
        self._file = self._files.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        return self._file


def _write_row(file: IO[bytes], number: int, row: object) -> None:
    value = sample_fields(row)
    if not isinstance(value, Mapping):
        raise InvalidInput("expected a mapping or a sample", place=f"row {number}")
    try:
        file.write(encode_json(value) + b"\n")
    except InvalidInput as error:
        raise InvalidInput(error.detail, place=f"row {number}") from None
