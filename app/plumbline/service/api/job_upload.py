"""Uploads of jobs: their options, and rows as JSON, as lines or as a file in a form, streamed into the store."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeVar

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from python_multipart import MultipartParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header

from plumbline.ground.errors import BodyTooLarge, InvalidInput, MalformedBody, StoreUnavailable, UnsupportedBody
from plumbline.rows.evaluation_wire import check_judge_names
from plumbline.rows.jobs.store import JobStore
from plumbline.rows.jobs.submission import Upload
from plumbline.rows.records.columns import PRESETS
from plumbline.rows.records.data_file import parse_row_format
from plumbline.schemas.jobs import JobChoices, JobRequest
from plumbline.service.api.json_body import (
    body_with,
    check_charset,
    check_media_type,
    check_values,
    read_json,
    row_texts,
    validated,
)
from plumbline.service.api.message_body import printable

M = TypeVar("M", bound=BaseModel)
# Source of the choices: the JSON body, a part of a form, a query parameter.
Place = Literal["body", "part", "query"]

MAX_CHOICES_BYTES: Final = 100_000
# A valid row has two.
_MAX_CONTAINERS: Final = 400_000
_PATH: Final[Mapping[Place, tuple[str, ...]]] = {
    "body": ("body",),
    "part": ("body", "choices"),
    "query": ("query", "choices"),
}


def read_job_request(body: bytes, judge_names: Collection[str]) -> JobChoices:
    """Return the choices of a JSON body; its rows are not validated.

    Raises:
        MalformedBody: as `read_json`.
        RequestValidationError: no object, an unknown or wrong field, or no rows.
        InvalidInput: options name a judge that is not in `judge_names`.
    """
    value = read_json(body, max_containers=_MAX_CONTAINERS)
    has_rows = type(value) is dict and isinstance(value.get("rows"), list)
    request = _validated(JobRequest, value, "body", checked={**value, "rows": None} if has_rows else value)
    choices = JobChoices(**{name: getattr(request, name) for name in JobChoices.model_fields})
    _check_names(choices, "body", judge_names)
    return choices


def read_choices(text: bytes, place: Place, judge_names: Collection[str]) -> JobChoices:
    """Return the choices of a form or a query; the default if there are none.

    Raises:
        InvalidInput: no JSON, too long, or options name a judge that is not in `judge_names`.
        RequestValidationError: no object, or an unknown or wrong field.
    """
    if not text:
        return JobChoices()
    if len(text) > MAX_CHOICES_BYTES:
        raise InvalidInput(f"has more than {MAX_CHOICES_BYTES} bytes", place="choices")
    try:
        value = read_json(text)
        choices = _validated(JobChoices, value, place, checked=value)
    except MalformedBody as error:
        raise InvalidInput(str(error).replace("the body", "the text", 1), place="choices") from None
    _check_names(choices, place, judge_names)
    return choices


def _check_names(choices: JobChoices, place: Place, judge_names: Collection[str]) -> None:
    columns = choices.columns
    if columns is not None and columns not in PRESETS:
        close = get_close_matches(columns, PRESETS, n=1)
        meant = f"; did you mean '{close[0]}'?" if close else f"; known are {', '.join(PRESETS)}"
        flaw = f"unknown form of rows '{printable(columns)}'{meant}"
        at = (*_PATH[place], "columns")
        error = {"type": "columns", "loc": at, "msg": flaw}
        raise RequestValidationError([error], body=body_with(columns, at[1:]))
    where = "/".join((*(("choices",) if place == "query" else ("", *_PATH[place][1:])), "options"))
    check_judge_names(choices.options, judge_names, place=where)


def _validated(model: type[M], value: object, place: Place, *, checked: object) -> M:
    at = _PATH[place]
    try:
        check_values(checked)
        return validated(model, value)
    except RequestValidationError as error:
        errors = [{**each, "loc": (*at, *each["loc"][1:])} for each in error.errors()]
        raise RequestValidationError(errors, body=body_with(checked, at[1:])) from None


FORM: Final = "multipart/form-data"
LINES: Final = ("application/x-ndjson", "application/jsonl")
_JSON: Final = "application/json"
# Bytes gathered for one write in a thread.
_PIECE_BYTES: Final = 1_048_576
_ROWS_AT_A_TIME: Final = 1_000
_MOST_BYTES: Final = {"choices": MAX_CHOICES_BYTES, "format": 32}
_FILE: Final = "file"
_PARTS: Final = (_FILE, *_MOST_BYTES)


class JobForm(BaseModel):
    """The choices as a form and a query have them."""

    choices: JobChoices


JobBody: Final = JobRequest | JobForm


class SentRows(NamedTuple):
    """Rows in a file, the choices for them, and a digest of both."""

    upload: Upload
    choices: JobChoices
    fingerprint: str


class JobUploads:
    """Stores the bodies of new jobs.

    `judge_names`: that options may name; `max_json_bytes`: of a JSON body, which is held in memory.
    """

    def __init__(self, judge_names: Collection[str], *, max_json_bytes: int) -> None:
        self._judge_names = judge_names
        self._max_json_bytes = max_json_bytes

    async def receive(self, request: Request, store: JobStore) -> SentRows:
        """Write the body to a file of the store. If this raises or is cancelled, no file is left.

        Raises:
            BadRequest: a subclass: the body is in none of the three forms, cut off, too large, or invalid.
            RequestValidationError: fields of the choices are wrong; `JobBody` has their names.
            StoreUnavailable: the rows cannot be stored.
            ClientDisconnect: the client disconnected before the end.
        """
        content_types = request.headers.getlist("content-type")
        media_type = content_types[0].partition(";")[0].strip().lower() if len(content_types) == 1 else ""
        if media_type in LINES:
            check_charset(content_types[0])
            return await self._lines(request, store)
        for name in ("choices", "columns"):
            if request.query_params.getlist(name):
                raise InvalidInput(f"{name} stand in the query for rows sent as lines alone; send them in the body")
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
        choices = read_choices("".join(sent).encode(errors="replace"), "query", self._judge_names)
        # Also as a parameter of its own, as `--columns` is an option.
        if (columns := request.query_params.get("columns")) and choices.columns is None:
            choices = choices.model_copy(update={"columns": columns})
            _check_names(choices, "query", self._judge_names)
        async with _open_rows_file(store) as file:
            await _feed(request, file.write)
            if not file.size:
                raise MalformedBody("the body is empty; send a row in each line")
            return await asyncio.to_thread(_finish, file, "jsonl", choices)

    async def _form(self, request: Request, store: JobStore, content_type: str) -> SentRows:
        async with _open_rows_file(store) as file:
            form_parser = _JobForm(content_type, file.write)
            await _feed(request, form_parser.write)
            parts = form_parser.finish()
            if not file.size:
                raise InvalidInput("the file is empty", place="/file")
            choices = read_choices(parts.choices, "part", self._judge_names)
            if parts.format is None and parts.file_name is None:
                raise InvalidInput("the part has no file name; name the format in a part 'format'", place="/file")
            try:
                form = parse_row_format(Path((parts.file_name or "").replace("\0", "")), parts.format)
            except InvalidInput as error:
                place = "/file" if parts.format is None else "/format"
                raise InvalidInput(error.detail, place=place) from None
            return await asyncio.to_thread(_finish, file, form, choices)

    async def _json(self, request: Request, store: JobStore) -> SentRows:
        pieces = bytearray()
        async for piece in request.stream():
            pieces += piece
            if len(pieces) > self._max_json_bytes:
                raise BodyTooLarge(
                    f"a JSON body may have {self._max_json_bytes} bytes; send more rows as {LINES[0]} or as a file in "
                    f"{FORM}"
                )
        body = bytes(pieces)
        choices = await asyncio.to_thread(read_job_request, body, self._judge_names)
        async with _open_rows_file(store) as file:
            await asyncio.to_thread(_write_rows, body, file)
            return await asyncio.to_thread(_finish, file, "jsonl", choices)


class _RowsFile:
    """One upload of `size` bytes so far. Its methods wait for the disk, and raise StoreUnavailable if it is full."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self._digest = hashlib.sha256()
        with _disk_errors():
            self._file = path.open("wb")

    def write(self, data: bytes) -> None:
        self._digest.update(data)
        self.size += len(data)
        with _disk_errors():
            self._file.write(data)

    def finish(self) -> str:
        """Close the file and return its SHA-256 in hexadecimal digits."""
        with _disk_errors():
            self._file.close()
        return self._digest.hexdigest()

    def abandon(self) -> None:
        """Remove the file, even while it is being written or if it was moved."""
        try:
            with suppress(OSError):
                self._file.close()
        finally:
            self.path.unlink(missing_ok=True)


@asynccontextmanager
async def _open_rows_file(store: JobStore) -> AsyncIterator[_RowsFile]:
    """Open a new file of the store; remove it if the block fails or is cancelled."""
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
        raise StoreUnavailable(f"the rows cannot be kept ({reason}); try again") from error


async def _feed(request: Request, write: Callable[[bytes], Any]) -> None:
    """Write the body in a thread, in large pieces."""
    piece = bytearray()
    async for part in request.stream():
        piece += part
        if len(piece) >= _PIECE_BYTES:
            await asyncio.to_thread(write, bytes(piece))
            piece.clear()
    if piece:
        await asyncio.to_thread(write, bytes(piece))


def _finish(file: _RowsFile, form: str, choices: JobChoices) -> SentRows:
    content = file.finish()
    everything = f"{form}\n{choices.model_dump_json()}\n{content}"
    fingerprint = hashlib.sha256(everything.encode()).hexdigest()
    return SentRows(Upload(file.path, form, choices.columns), choices, fingerprint)


def _write_rows(body: bytes, file: _RowsFile) -> None:
    """Write each row of a validated JSON body as it was sent."""
    rows = row_texts(body.decode().removeprefix("\ufeff"), "rows")
    while lines := list(islice(rows, _ROWS_AT_A_TIME)):
        file.write("".join(f"{line}\n" for line in lines).encode())


class _FormParts(NamedTuple):
    """The form's parts other than the rows. Use only the suffix of `file_name`."""

    choices: bytes
    format: str | None
    file_name: str | None


class _JobForm:
    """Parses a form piece by piece and writes the content of its file with `write_rows`.

    All of it raises MalformedBody for no such form, InvalidInput for a part unknown, missing, sent twice or too long.
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
                max_header_count=8,
                max_header_size=4_096,
            )
        except FormParserError as error:
            raise _unreadable(error) from None

    def write(self, data: bytes) -> None:
        try:
            self._parser.write(data)
        except FormParserError as error:
            raise _unreadable(error) from None

    def finish(self) -> _FormParts:
        """Return the parts other than the rows; call it after the last piece."""
        if not self._is_whole:
            raise MalformedBody("the form ends before its last boundary")
        if _FILE not in self._texts:
            raise InvalidInput("the form has no file of rows; expected one", place=f"/{_FILE}")
        named = self._texts.get("format")
        return _FormParts(
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
        if _text(self._headers.get(b"content-transfer-encoding", b"")).strip().lower() not in (
            "",
            "binary",
            "8bit",
            "7bit",
        ):
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
    # the parser's message repeats at most one byte of the form
    return MalformedBody(f"the form cannot be read: {printable(error)}")
