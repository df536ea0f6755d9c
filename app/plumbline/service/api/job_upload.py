"""Uploads of jobs: their options, and rows as JSON or as a file in a form, streamed into the store."""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from fastapi import Request
from pydantic import BaseModel

from plumbline.ground.errors import BodyTooLarge, InvalidInput, MalformedBody, StoreUnavailable, UnsupportedBody
from plumbline.ground.texts import CodedText
from plumbline.rows.evaluation_wire import check_judge_names
from plumbline.rows.jobs.job import NewJob
from plumbline.rows.jobs.store import JobStore
from plumbline.rows.jobs.submission import Upload
from plumbline.rows.records.columns import PRESETS
from plumbline.rows.records.data_file import parse_row_format
from plumbline.schemas.jobs import JobChoices, JobRequest
from plumbline.service.api.auth import tenant_of
from plumbline.service.api.form_body import FORM, read_form
from plumbline.service.api.json_body import (
    build_model,
    check_media_type,
    check_values,
    invalid_at,
    read_envelope,
    read_json,
)
from plumbline.service.api.problems import printable

_JSON: Final = "application/json"
_OWNER_ALONE: Final = 0o600
_MAX_CHOICES_BYTES: Final = 100_000
# A valid row has two.
_MAX_CONTAINERS: Final = 400_000
_PART: Final = ("body", "choices")


class JobForm(BaseModel):
    choices: JobChoices


JobBody: Final = JobRequest | JobForm


class SentRows(NamedTuple):
    upload: Upload
    choices: JobChoices
    fingerprint: str


def new_job(
    request: Request, choices: JobChoices, *, idempotency_key: str | None = None, fingerprint: str = ""
) -> NewJob:
    return NewJob(
        tenant=tenant_of(request),
        options=choices.options.model_dump_json().encode(),
        name=choices.name,
        max_cost=choices.max_cost,
        idempotency_key=idempotency_key,
        fingerprint=fingerprint,
        versions=request.app.state.job_versions,
    )


class JobUploads:
    """Stores the bodies of new jobs; one of JSON is held in memory, at most `max_json_bytes` of it."""

    def __init__(self, judge_names: Collection[str], *, max_json_bytes: int) -> None:
        self._judge_names = judge_names
        self._max_json_bytes = max_json_bytes

    async def receive(self, request: Request, store: JobStore) -> SentRows:
        """Write the body to a file of the store, which is removed if this raises or is cancelled.

        Raises:
            BadRequest, RequestValidationError: it is wrong; `JobBody` has the names of its fields.
            StoreUnavailable: the rows cannot be stored.
            ClientDisconnect: the client disconnected before the end.
        """
        content_types = request.headers.getlist("content-type")
        media_type = content_types[0].partition(";")[0].strip().lower() if len(content_types) == 1 else ""
        if media_type == FORM:
            return await self._form(request, store)
        try:
            check_media_type(content_types)
        except UnsupportedBody:
            raise UnsupportedBody(CodedText("job_type_expected", types=(_JSON,), last=FORM)) from None
        return await self._json(request, store)

    async def _form(self, request: Request, store: JobStore) -> SentRows:
        async with open_rows_file(store) as file:
            async with read_form(request, files=("file",), texts=("choices", "format"), keep=file) as sent:
                if not sent.files["file"]:
                    raise InvalidInput(CodedText("form_without_rows"), place="/file")
                name = sent.files["file"][0].filename or ""
            if not file.size:
                raise InvalidInput(CodedText("file_empty"), place="/file")
            choices = self._read_choices(sent.texts.get("choices", ""))
            named = sent.texts.get("format")
            try:
                # Of the name only the suffix counts.
                form = parse_row_format(Path(name.replace("\0", "")), named)
            except InvalidInput as error:
                raise InvalidInput(error.detail, place="/file" if named is None else "/format") from None
            return await asyncio.to_thread(file.finish, form, choices)

    async def _json(self, request: Request, store: JobStore) -> SentRows:
        pieces = bytearray()
        async for piece in request.stream():
            pieces += piece
            if len(pieces) > self._max_json_bytes:
                limit = self._max_json_bytes
                raise BodyTooLarge(CodedText("json_job_too_large", limit=limit, form=FORM))
        body = bytes(pieces)

        def read() -> tuple[JobChoices, bytes]:
            envelope = read_envelope(body, JobRequest, "rows", max_containers=_MAX_CONTAINERS)
            choices = JobChoices(**{name: getattr(envelope, name) for name in JobChoices.model_fields})
            self._check_names(choices, ("body",))
            return choices, _row_lines(body)

        choices, lines = await asyncio.to_thread(read)
        async with open_rows_file(store) as file:
            await asyncio.to_thread(file.write, lines)
            return await asyncio.to_thread(file.finish, "jsonl", choices)

    def _read_choices(self, text: str) -> JobChoices:
        """Return the choices of a form; raise InvalidInput or RequestValidationError."""
        if not text:
            return JobChoices()
        if len(text) > _MAX_CHOICES_BYTES:
            raise InvalidInput(CodedText("text_too_large", limit=_MAX_CHOICES_BYTES), place="choices")
        try:
            value = read_json(text.encode(errors="replace"))
            check_values(value, at=_PART)
        except MalformedBody as error:
            raise InvalidInput(error.text, place="choices") from None
        choices = build_model(JobChoices, value, at=_PART)
        self._check_names(choices, _PART)
        return choices

    def _check_names(self, choices: JobChoices, at: tuple[str, ...]) -> None:
        columns = choices.columns
        if columns is not None and columns not in PRESETS:
            name, close = printable(columns), get_close_matches(columns, PRESETS, n=1)
            flaw = CodedText("columns_unknown", name=name, names=tuple(PRESETS))
            if close:
                flaw = CodedText("columns_unknown_like", name=name, other=close[0])
            raise invalid_at((*at, "columns"), columns, [{"type": "columns", "loc": (), "msg": flaw}])
        check_judge_names(choices.options, self._judge_names, place="/".join(("", *at[1:], "options")))


class _RowsFile:
    """One upload of `size` bytes so far. Its methods wait for the disk, and raise StoreUnavailable if it is full."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self._digest = hashlib.sha256()
        with _disk_errors():
            self._file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _OWNER_ALONE), "wb")

    def write(self, data: bytes) -> None:
        self._digest.update(data)
        self.size += len(data)
        with _disk_errors():
            self._file.write(data)

    def seek(self, offset: int) -> None:
        """Do nothing: a parser of forms goes back to the first byte, but here only `finish` follows."""

    def close(self) -> None:
        with _disk_errors():
            self._file.close()

    def finish(self, form: str, choices: JobChoices) -> SentRows:
        self.close()
        everything = f"{form}\n{choices.model_dump_json()}\n{self._digest.hexdigest()}"
        fingerprint = hashlib.sha256(everything.encode()).hexdigest()
        return SentRows(Upload(self.path, form, choices.columns), choices, fingerprint)

    def abandon(self) -> None:
        """Remove the file, even while it is being written or if it was moved."""
        try:
            with suppress(OSError):
                self._file.close()
        finally:
            self.path.unlink(missing_ok=True)


@asynccontextmanager
async def open_rows_file(store: JobStore) -> AsyncIterator[_RowsFile]:
    """Yield a new file of the store for an upload; it is removed if the block raises."""
    file = await asyncio.to_thread(lambda: _RowsFile(store.new_upload()))
    try:
        yield file
    except BaseException:
        await asyncio.shield(asyncio.to_thread(file.abandon))
        raise


@contextmanager
def _disk_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise StoreUnavailable(CodedText("rows_not_kept", reason=reason)) from error


def _row_lines(body: bytes) -> bytes:
    """Return the rows of a JSON body as they were written, one a line."""
    try:
        fields = msgspec.json.decode(body.removeprefix(b"\xef\xbb\xbf"), type=dict[str, msgspec.Raw])
        rows = msgspec.json.decode(fields["rows"], type=list[msgspec.Raw])
    except msgspec.DecodeError as error:
        raise MalformedBody(CodedText("not_json", flaw=str(error))) from None
    # JSON strings have no raw line ends.
    return b"".join(bytes(row).replace(b"\n", b" ").replace(b"\r", b" ") + b"\n" for row in rows)
