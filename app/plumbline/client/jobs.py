"""Jobs of the service, from asyncio."""

import os
import re
import uuid
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

import httpx2

from plumbline.client.connection import Ask, Connection
from plumbline.client.job import AsyncJob
from plumbline.client.job_paths import JOBS_PATH, fetched
from plumbline.client.reading import read_model
from plumbline.client.samples import AnyOptions, body_of, checked_options, validated
from plumbline.client.uploads import AnyRow, Upload, opened, spooled, write_async_rows, write_rows
from plumbline.ground.errors import InvalidInput
from plumbline.schemas.jobs import JobChoices, JobInfo, JobList

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
        """Hands rows to the service, which has them on disk when this returns.

        Args:
            source: path of a JSONL, JSON, CSV, TSV or Parquet file, sent as it is; or rows, which pass through a
                temporary file. Neither is ever whole in memory.
            options: for each row, as of a single evaluation.
            name: of the job, for people.
            columns: name of a known form of rows; None: found from the names of the columns.
            max_cost: what the job may spend before it pauses.
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
        """A job on its way; its files are closed when the context ends.

        Raises:
            InvalidInput: a choice that does not validate, or a key that is none.
        """
        choices = _choices(options, name=name, columns=columns, max_cost=max_cost)
        with ExitStack() as files:
            yield Submission(self._connection, files, choices, _checked_key(idempotency_key))

    async def get(self, job_id: str) -> AsyncJob:
        """The job of this id.

        Raises:
            NotThere: there is none, or it is another caller's.
            ClientError: the service was not reached or refused.
        """
        return self._job(await fetched(self._connection, job_id))

    async def list(self, *, limit: int | None = None) -> AsyncGenerator[AsyncJob, None]:
        """The caller's jobs, newest first; `limit`: so many at most."""
        left, page = limit, Ask("GET", JOBS_PATH, params={"limit": _PAGE if limit is None else min(limit, _PAGE)})
        while left is None or left > 0:
            found = read_model(JobList, (await self._connection.answer(page)).content)
            for info in found.jobs[:left]:
                yield self._job(info)
            left = None if left is None else left - len(found.jobs)
            if found.next is None:
                return
            page = Ask("GET", JOBS_PATH, params=dict(httpx2.URL(found.next).params))

    def _job(self, info: JobInfo) -> AsyncJob:
        return AsyncJob(self._connection, info)


class Submission:
    """Rows on their way to a job: `add` or `add_async` once, then `send`."""

    def __init__(self, connection: Connection, files: ExitStack, choices: bytes, key: str) -> None:
        self._connection = connection
        self._files = files
        self._choices = choices
        self._key = key
        self._upload: Upload | None = None

    def add(self, source: str | os.PathLike[str] | Iterable[AnyRow], form: str | None) -> None:
        """A file by its path, or rows."""
        if isinstance(source, str | os.PathLike):
            self._upload = self._files.enter_context(opened(source, form))
        else:
            self._upload = self._files.enter_context(spooled())
            write_rows(self._upload, source)

    async def add_async(self, rows: AsyncIterable[AnyRow]) -> None:
        """Rows that come by and by."""
        self._upload = self._files.enter_context(spooled())
        await write_async_rows(self._upload, rows)

    async def send(self) -> AsyncJob:
        """Submits what was added, again under the same key where that may help."""
        assert self._upload is not None  # noqa: S101
        name, file, form = self._upload
        ask = Ask(
            "POST",
            JOBS_PATH,
            # One boundary for all attempts: the repeated request is the first one to the byte.
            headers={
                "idempotency-key": self._key,
                "content-type": f"multipart/form-data; boundary={uuid.uuid4().hex}",
            },
            data={"choices": self._choices.decode(), "format": form},
            files={"file": (name, file, "application/octet-stream")},
        )
        return AsyncJob(self._connection, read_model(JobInfo, (await self._connection.answer(ask)).content))


def _choices(options: AnyOptions, *, name: str | None, columns: str | None, max_cost: float | None) -> bytes:
    given = {"name": name, "columns": columns, "max_cost": max_cost}
    fields = {field: value for field, value in given.items() if value is not None}
    return body_of(validated(JobChoices, {"options": checked_options(options), **fields}))


def _checked_key(key: str | None) -> str:
    if key is None:
        return uuid.uuid4().hex
    if not _KEY.fullmatch(key):
        raise InvalidInput("idempotency_key: expected 1 to 200 visible ASCII characters")
    return key
