"""Uploads of jobs: rows as JSON, as lines or as a file in a form, streamed into a file of the store."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from fastapi import Request
from python_multipart import MultipartParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header

from plumbline.ground.errors import BodyTooLarge, InvalidInput, MalformedBody, StoreUnavailable, UnsupportedBody
from plumbline.rows.jobs.store import JobStore, Upload
from plumbline.rows.records.data_file import parse_row_format
from plumbline.schemas.jobs import JobChoices
from plumbline.service.api.field_problems import printable
from plumbline.service.api.job_choices import MAX_CHOICES_BYTES, ChoicesReader
from plumbline.service.api.json_body import check_charset, check_media_type, row_texts

FORM: Final = "multipart/form-data"
LINES: Final = ("application/x-ndjson", "application/jsonl")
_JSON: Final = "application/json"
# What is gathered before a thread is asked to write it.
_PIECE_BYTES: Final = 1_048_576
_ROWS_AT_A_TIME: Final = 1_000
_MAX_HEADERS: Final = 8
_MAX_HEADER_BYTES: Final = 4_096
_MOST_BYTES: Final = {"choices": MAX_CHOICES_BYTES, "format": 32}
_FILE: Final = "file"
_PARTS: Final = (_FILE, *_MOST_BYTES)
_AS_IT_IS: Final = ("", "binary", "8bit", "7bit")


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

    async def receive(self, request: Request, store: JobStore) -> SentRows:
        """Write the body to a file of the store. If this raises or is cancelled, no file is left.

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


class RowsFile:
    """One upload, of `size` bytes by now. Its methods wait for the disk: call them in a thread.

    Raises:
        StoreUnavailable: the disk is full or cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self._digest = hashlib.sha256()
        try:
            self._file = path.open("wb")
        except OSError as error:
            raise _unavailable(error) from error

    def write(self, data: bytes) -> None:
        """Append bytes."""
        self._digest.update(data)
        self.size += len(data)
        try:
            self._file.write(data)
        except OSError as error:
            raise _unavailable(error) from error

    def finish(self) -> str:
        """Close the file and return its SHA-256 in hexadecimal digits."""
        try:
            self._file.close()
        except OSError as error:
            raise _unavailable(error) from error
        return self._digest.hexdigest()

    def abandon(self) -> None:
        """Remove the file, even while it is being written or if it was moved."""
        try:
            self._file.close()
        except OSError:
            # what could not be written need not be
            pass
        finally:
            self.path.unlink(missing_ok=True)


@asynccontextmanager
async def rows_file(store: JobStore) -> AsyncIterator[RowsFile]:
    """Open a new file of the store; remove it if the block fails or is cancelled."""
    file = await asyncio.to_thread(lambda: RowsFile(store.new_upload()))
    try:
        yield file
    except BaseException:
        await asyncio.shield(asyncio.to_thread(file.abandon))
        raise


def _unavailable(error: OSError) -> StoreUnavailable:
    return StoreUnavailable(f"the rows cannot be kept ({error.strerror or type(error).__name__}); try again")


async def _fed(request: Request, write: Callable[[bytes], Any]) -> None:
    """Write the body in a thread, in large pieces."""
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
    """Write each row of a validated JSON body as it was sent."""
    rows = row_texts(body.decode().removeprefix("\ufeff"), "rows")
    while lines := list(islice(rows, _ROWS_AT_A_TIME)):
        file.write("".join(f"{line}\n" for line in lines).encode())


def _form_of(named: str | None, file_name: str | None) -> str:
    """Return the format of the rows, by the part that names it or by the file name."""
    if named is None and file_name is None:
        raise InvalidInput("the part has no file name; name the format in a part 'format'", place="/file")
    try:
        return parse_row_format(Path((file_name or "").replace("\0", "")), named)
    except InvalidInput as error:
        raise InvalidInput(error.detail, place="/file" if named is None else "/format") from None


class FormParts(NamedTuple):
    """The form's parts other than the rows. Use only the suffix of `file_name`."""

    choices: bytes
    format: str | None
    file_name: str | None


class JobForm:
    """Takes a form piece by piece and hands on what is in its file.

    Args:
        content_type: the header, which has the boundary.
        write_rows: takes the bytes of the file.

    Raises:
        MalformedBody: from here and from `write` and `finish`: it is no such form.
        InvalidInput: likewise: a part is unknown, missing, sent twice or too long.
    """

    def __init__(self, content_type: str, write_rows: Callable[[bytes], None]) -> None:
        self._write_rows = write_rows
        self._texts: dict[str, bytearray] = {}
        self._file_name: str | None = None
        self._part = ""
        self._header_name, self._header_value = bytearray(), bytearray()
        self._headers: dict[bytes, bytes] = {}
        self._is_whole = False
        _, parameters = parse_options_header(content_type)
        if not parameters.get(b"boundary"):
            raise MalformedBody("the Content-Type of the form has no boundary")
        try:
            self._parser = MultipartParser(
                parameters[b"boundary"],
                {
                    "on_part_begin": self._headers.clear,
                    "on_header_field": self._on_header_name,
                    "on_header_value": self._on_header_value,
                    "on_header_end": self._on_header_end,
                    "on_headers_finished": self._on_headers,
                    "on_part_data": self._on_data,
                    "on_end": self._on_end,
                },
                max_header_count=_MAX_HEADERS,
                max_header_size=_MAX_HEADER_BYTES,
            )
        except FormParserError as error:
            raise _unreadable(error) from None

    def write(self, data: bytes) -> None:
        """Parse the next piece."""
        try:
            self._parser.write(data)
        except FormParserError as error:
            raise _unreadable(error) from None

    def finish(self) -> FormParts:
        """Return the parts other than the rows; call it after the last piece."""
        if not self._is_whole:
            raise MalformedBody("the form ends before its last boundary")
        if _FILE not in self._texts:
            raise InvalidInput("the form has no file of rows; expected one", place=f"/{_FILE}")
        named = self._texts.get("format")
        return FormParts(
            bytes(self._texts.get("choices", b"")),
            None if named is None else named.decode("utf-8", errors="replace"),
            self._file_name,
        )

    def _on_header_name(self, data: bytes, start: int, end: int) -> None:
        self._header_name += data[start:end]

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._header_value += data[start:end]

    def _on_header_end(self) -> None:
        self._headers[bytes(self._header_name).lower()] = bytes(self._header_value)
        self._header_name, self._header_value = bytearray(), bytearray()

    def _on_headers(self) -> None:
        disposition, options = parse_options_header(self._headers.get(b"content-disposition"))
        if disposition != b"form-data" or b"name" not in options:
            raise MalformedBody("a part of the form has no name")
        self._part = _text(options[b"name"])
        if self._part not in _PARTS:
            raise InvalidInput(f"the form has a part '{printable(self._part)}'; expected {', '.join(_PARTS)}")
        if self._part in self._texts:
            raise InvalidInput("the form has this part more than once", place=f"/{self._part}")
        if _text(self._headers.get(b"content-transfer-encoding", b"")).strip().lower() not in _AS_IT_IS:
            raise MalformedBody("a part of the form has a Content-Transfer-Encoding; send it as it is")
        self._texts[self._part] = bytearray()
        if self._part == _FILE and b"filename" in options:
            self._file_name = _text(options[b"filename"])

    def _on_data(self, data: bytes, start: int, end: int) -> None:
        if self._part == _FILE:
            self._write_rows(data[start:end])
            return
        text, most = self._texts[self._part], _MOST_BYTES[self._part]
        text += data[start:end]
        if len(text) > most:
            raise InvalidInput(f"the part has more than {most} bytes", place=f"/{self._part}")

    def _on_end(self) -> None:
        self._is_whole = True


def _text(value: bytes) -> str:
    return value.decode("utf-8", errors="replace")


def _unreadable(error: FormParserError) -> MalformedBody:
    # what the parser says of a form repeats at most a byte of it
    return MalformedBody(f"the form cannot be read: {printable(error)}")
