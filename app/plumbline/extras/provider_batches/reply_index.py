"""Index of the replies in JSON Lines files by request id; a malformed line costs its own request alone."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, Self

import msgspec

from plumbline.ground.errors import FailureReason, InvalidInput, TierFailure

# A reply is bounded by 8 MiB where it comes over HTTP; its line has some more around it.
_MAX_LINE_BYTES: Final = 16 * 1024 * 1024
_NULL: Final = b"null"
_OK: Final = 200
_FAULT: Final = 500
_REFUSAL: Final = 400


class BatchReply(NamedTuple):
    """One reply in a batch's files: its HTTP status and body."""

    request_id: str
    status_code: int
    body: bytes


class AskedFile(NamedTuple):
    """A request file, its existing reply files, and the final status of its batch."""

    requests: Path
    replies: Sequence[Path]
    status: str


class _Line(msgspec.Struct):
    custom_id: str
    response: msgspec.Raw = msgspec.Raw(_NULL)
    error: msgspec.Raw = msgspec.Raw(_NULL)


class _Response(msgspec.Struct):
    status_code: int | None = None
    body: msgspec.Raw = msgspec.Raw(_NULL)


class _Asked(msgspec.Struct):
    custom_id: str


class _Error(msgspec.Struct):
    code: str | int | None = None


class _Place(NamedTuple):
    file: int
    offset: int
    is_good: bool


_LINES: Final = msgspec.json.Decoder(_Line)
_RESPONSES: Final = msgspec.json.Decoder(_Response)
_ERRORS: Final = msgspec.json.Decoder(_Error)
_ASKED: Final = msgspec.json.Decoder(_Asked)

_Fate = tuple[FailureReason, str]
_EXPIRED: Final = (FailureReason.TIMEOUT, "the batch expired before this request was done")
_CANCELLED: Final = (FailureReason.UPSTREAM_ERROR, "the batch was cancelled before this request was done")
_LOST: Final = (FailureReason.UPSTREAM_ERROR, "the batch ended without a reply to this request")
_NOT_ASKED: Final = (FailureReason.NOT_ASKED, "the question follows from earlier replies and is in no batch file yet")
_FATES: Final[Mapping[str, _Fate]] = {
    "expired": _EXPIRED,
    "cancelled": _CANCELLED,
    "failed": (FailureReason.REJECTED, "the provider did not run the batch of this request"),
}
_CODES: Final[Mapping[str, _Fate]] = {"batch_expired": _EXPIRED, "batch_cancelled": _CANCELLED}
# In the code of an error without a status: what may pass. Anything else is taken for a refusal.
_PASSING: Final = ("internal", "server", "timeout", "unavailable", "throttl", "rate_limit", "ratequota")


class ReplyIndex:
    """Offsets of all replies, about 300 bytes of memory a request. A context manager.

    Of several lines for one id the first good one counts, else the first. Lines that cannot be read, or that nobody
    asked for, are passed over.

    Attributes:
        unreadable: lines passed over because they are torn, too long or no reply.
        unasked: lines with an id that no question has.
        repeated: lines with an id that had one before.

    Raises:
        InvalidInput: a file cannot be read.
    """

    def __init__(self, files: Sequence[AskedFile]) -> None:
        self.unreadable = self.unasked = self.repeated = 0
        self._stack = ExitStack()
        self._status_by_id: dict[str, str] = {}
        self._open: list[BinaryIO] = []
        self._places: dict[str, _Place] = {}
        try:
            self._read(files)
        except BaseException:
            self._stack.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def find(self, request_id: str) -> BatchReply | TierFailure:
        """Return the reply (an error line as its HTTP equivalent), or the reason that there is none."""
        place = self._places.get(request_id)
        if place is None:
            status = self._status_by_id.get(request_id)
            return TierFailure(*(_NOT_ASKED if status is None else _FATES.get(status, _LOST)))
        file = self._open[place.file]
        file.seek(place.offset)
        return _reply(_LINES.decode(file.readline(_MAX_LINE_BYTES)))

    def _read(self, files: Sequence[AskedFile]) -> None:
        for file in files:
            for _, line in _lines(self._opened(file.requests)):
                self._status_by_id[_asked_id(line, file.requests)] = file.status
        for file in files:
            for path in file.replies:
                self._index(self._opened(path))

    def _opened(self, path: Path) -> BinaryIO:
        try:
            file = self._stack.enter_context(path.open("rb"))
        except OSError as error:
            raise InvalidInput(f"cannot be read ({error.strerror})", place=path.name) from error
        self._open.append(file)
        return file

    def _index(self, file: BinaryIO) -> None:
        number = len(self._open) - 1
        for offset, line in _lines(file):
            try:
                reply = _LINES.decode(line)
                is_good = _is_good(reply)
            except msgspec.MsgspecError:
                self.unreadable += 1
                continue
            if reply.custom_id not in self._status_by_id:
                self.unasked += 1
                continue
            known = self._places.get(reply.custom_id)
            self.repeated += known is not None
            if known is None or (is_good and not known.is_good):
                self._places[reply.custom_id] = _Place(number, offset, is_good)


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that are not blank with their offsets; a line that is too long is empty."""
    while True:
        offset = file.tell()
        line = file.readline(_MAX_LINE_BYTES)
        if not line:
            return
        is_whole = len(line) < _MAX_LINE_BYTES or line.endswith(b"\n")
        while not is_whole and (rest := file.readline(_MAX_LINE_BYTES)):
            is_whole = rest.endswith(b"\n")
            line = b""
        if not line.isspace():
            yield offset, line


def _asked_id(line: bytes, path: Path) -> str:
    try:
        return _ASKED.decode(line).custom_id
    except msgspec.MsgspecError:
        raise InvalidInput("holds a line that is no request; was it changed since?", place=path.name) from None


def _is_good(line: _Line) -> bool:
    if _is_null(line.response):
        if _is_null(line.error):
            raise msgspec.ValidationError("neither response nor error")
        return False
    return _RESPONSES.decode(line.response).status_code in (None, _OK)


def _reply(line: _Line) -> BatchReply | TierFailure:
    response = _Response() if _is_null(line.response) else _RESPONSES.decode(line.response)
    if not _is_null(response.body):
        return BatchReply(line.custom_id, response.status_code or _OK, bytes(response.body))
    code = _code(line).lower()
    if code in _CODES:
        return TierFailure(*_CODES[code])
    untold = _FAULT if any(word in code for word in _PASSING) else _REFUSAL
    return BatchReply(line.custom_id, response.status_code or untold, b'{"error":' + bytes(line.error) + b"}")


def _is_null(raw: msgspec.Raw) -> bool:
    return bytes(raw) == _NULL


def _code(line: _Line) -> str:
    try:
        return str(_ERRORS.decode(line.error).code)
    except msgspec.MsgspecError:
        return ""
