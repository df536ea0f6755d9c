"""The rows of a job on their way into a file of the store: never whole in memory, nothing left of a cut upload."""

import asyncio
import hashlib
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from fastapi import Request

from plumbline.ground.errors import BodyTooLarge, InvalidInput, MalformedBody, UnsupportedBody
from plumbline.rows.jobs.store import JobStore, Upload
from plumbline.rows.records.data_file import parse_row_format
from plumbline.schemas.jobs import JobChoices
from plumbline.service.api.job_choices import ChoicesReader
from plumbline.service.api.job_form import JobForm
from plumbline.service.api.row_texts import row_texts
from plumbline.service.api.rows_file import RowsFile, rows_file
from plumbline.service.api.strict_json import check_charset, check_media_type

FORM: Final = "multipart/form-data"
LINES: Final = ("application/x-ndjson", "application/jsonl")
_JSON: Final = "application/json"
# What is gathered before a thread is asked to write it.
_PIECE_BYTES: Final = 1_048_576
_ROWS_AT_A_TIME: Final = 1_000


class SentRows(NamedTuple):
    """Rows in a file, what was chosen for them, and a digest of both."""

    upload: Upload
    choices: JobChoices
    fingerprint: str


class JobUploads:
    """Takes the bodies of new jobs.

    Args:
        max_json_bytes: of a JSON body, which has to be held; other bodies are bounded by the edge.
    """

    def __init__(self, reader: ChoicesReader, *, max_json_bytes: int) -> None:
        self._reader = reader
        self._max_json_bytes = max_json_bytes

    async def taken(self, request: Request, store: JobStore) -> SentRows:
        """The body, written to a file of the store. When this raises, or is cancelled, there is no file.

        Raises:
            BadRequest: in one of its classes: the body is none of the three forms, cut off, too large, or wrong.
            ChoicesRefused: fields of the choices are wrong.
            StoreUnavailable: the rows cannot be kept.
            ClientDisconnect: the caller left before the end.
        """
        content_types = request.headers.getlist("content-type")
        media_type = content_types[0].partition(";")[0].strip().lower() if len(content_types) == 1 else ""
        if media_type in LINES:
            check_charset(content_types[0])
            return await self._lines(request, store)
        if request.query_params.getlist("choices"):
            raise InvalidInput("choices stand in the query for rows sent as lines alone; send them in the body")
        if media_type == FORM:
            return await self._form(request, store, content_types[0])
        try:
            check_media_type(content_types)
        except UnsupportedBody:
            raise UnsupportedBody(f"the Content-Type must be {_JSON}, {', '.join(LINES)} or {FORM}, in utf-8") from None
        return await self._json(request, store)

    async def _lines(self, request: Request, store: JobStore) -> SentRows:
        sent = request.query_params.getlist("choices")
        if len(sent) > 1:
            raise InvalidInput("is given more than once in the query", place="choices")
        choices = self._reader.choices("".join(sent).encode(errors="replace"), "query")
        async with rows_file(store) as file:
            await _fed(request, file.write)
            if not file.size:
                raise MalformedBody("the body is empty; send a row in each line")
            return await asyncio.to_thread(_finished, file, "jsonl", choices)

    async def _form(self, request: Request, store: JobStore, content_type: str) -> SentRows:
        async with rows_file(store) as file:
            form = JobForm(content_type, file.write)
            await _fed(request, form.write)
            parts = form.finish()
            if not file.size:
                raise InvalidInput("the file is empty", place="/file")
            choices = self._reader.choices(parts.choices, "part")
            return await asyncio.to_thread(_finished, file, _form_of(parts.format, parts.file_name), choices)

    async def _json(self, request: Request, store: JobStore) -> SentRows:
        body = await self._held(request)
        choices = await asyncio.to_thread(self._reader.request, body)
        async with rows_file(store) as file:
            await asyncio.to_thread(_write_rows, body, file)
            return await asyncio.to_thread(_finished, file, "jsonl", choices)

    async def _held(self, request: Request) -> bytes:
        body = bytearray()
        async for piece in request.stream():
            body += piece
            if len(body) > self._max_json_bytes:
                raise BodyTooLarge(
                    f"a JSON body may have {self._max_json_bytes} bytes; send more rows as {LINES[0]} or as a file in "
                    f"{FORM}"
                )
        return bytes(body)


async def _fed(request: Request, write: Callable[[bytes], Any]) -> None:
    """Hands the body on in a thread, in pieces that are worth one."""
    piece = bytearray()
    async for part in request.stream():
        piece += part
        if len(piece) >= _PIECE_BYTES:
            await asyncio.to_thread(write, bytes(piece))
            piece.clear()
    if piece:
        await asyncio.to_thread(write, bytes(piece))


def _finished(file: RowsFile, form: str, choices: JobChoices) -> SentRows:
    content = file.finish()
    everything = f"{form}\n{choices.model_dump_json()}\n{content}"
    fingerprint = hashlib.sha256(everything.encode()).hexdigest()
    return SentRows(Upload(file.path, form, choices.columns), choices, fingerprint)


def _write_rows(body: bytes, file: RowsFile) -> None:
    """Each row of a JSON body that was read before, as it was sent."""
    rows = row_texts(body.decode().removeprefix("\ufeff"), "rows")
    while lines := list(islice(rows, _ROWS_AT_A_TIME)):
        file.write("".join(f"{line}\n" for line in lines).encode())


def _form_of(named: str | None, file_name: str | None) -> str:
    """One of the forms of rows, by the part that names it or by the name of the file."""
    if named is None and file_name is None:
        raise InvalidInput("the part has no file name; name the format in a part 'format'", place="/file")
    try:
        return parse_row_format(Path((file_name or "").replace("\0", "")), named)
    except InvalidInput as error:
        raise InvalidInput(error.detail, place="/file" if named is None else "/format") from None
