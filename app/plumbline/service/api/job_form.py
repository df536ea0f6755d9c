"""The multipart form of a job: a file of rows, read as it arrives, and small parts beside it, in any order."""

from collections.abc import Callable
from typing import Final, NamedTuple

from python_multipart import MultipartParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header

from plumbline.ground.errors import InvalidInput, MalformedBody
from plumbline.service.api.field_problems import printable
from plumbline.service.api.job_choices import MAX_CHOICES_BYTES

_MAX_HEADERS: Final = 8
_MAX_HEADER_BYTES: Final = 4_096
_MOST_BYTES: Final = {"choices": MAX_CHOICES_BYTES, "format": 32}
_FILE: Final = "file"
_PARTS: Final = (_FILE, *_MOST_BYTES)
_AS_IT_IS: Final = ("", "binary", "8bit", "7bit")


class FormParts(NamedTuple):
    """What stood beside the rows. `file_name` is as the caller has it: good for its suffix alone."""

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
        """Takes the next piece."""
        try:
            self._parser.write(data)
        except FormParserError as error:
            raise _unreadable(error) from None

    def finish(self) -> FormParts:
        """What stood beside the rows, once the form has come to its end."""
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
