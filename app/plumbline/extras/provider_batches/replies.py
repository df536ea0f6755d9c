"""Replies in the files of a provider, found by the id of a request."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from plumbline.ground.errors import FailureReason, InvalidInput, TierFailure

_OK: Final = 200
_REFUSED: Final = 400
# In the code of an error without a status: what may pass, as the status that it stands for.
_PASSING: Final[Mapping[str, int]] = {
    "expired": 408, "timeout": 408, "throttl": 429, "rate_limit": 429, "ratequota": 429, "cancelled": 500,
    "internal": 500, "server": 500, "unavailable": 500,
}  # fmt: skip
_NOT_ASKED: Final = (FailureReason.NOT_ASKED, "the question follows from earlier replies and is in no batch file yet")
_LOST: Final = (FailureReason.UPSTREAM_ERROR, "the batch ended without a reply to this request")
# By the status of the batch.
_UNDONE: Final[Mapping[str, tuple[FailureReason, str]]] = {
    "expired": (FailureReason.TIMEOUT, "the batch expired before this request was done"),
    "cancelled": (FailureReason.UPSTREAM_ERROR, "the batch was cancelled before this request was done"),
    "failed": (FailureReason.REJECTED, "the provider did not run the batch of this request"),
}


class BatchReply(NamedTuple):
    """One reply in a batch's files: its HTTP status and body. An error without a status has the one it stands for."""

    request_id: str
    status_code: int
    body: bytes


class _Response(msgspec.Struct):
    status_code: int | None = None
    body: msgspec.Raw = msgspec.Raw(b"null")


class _Line(msgspec.Struct):
    custom_id: str
    response: _Response | None = None
    error: Any = None


class _Place(NamedTuple):
    path: Path
    offset: int
    is_good: bool


_LINES: Final = msgspec.json.Decoder(_Line)


class ReplyIndex:
    """Places of all replies, about 300 bytes of memory a request.

    Of several lines for one id the first good one counts, else the first. Lines that cannot be read, or that answer no
    request, are passed over; `passed_over` counts them and those that repeat an id. `statuses`: of the batch of each
    file of requests. `replies`: files of replies. Raises InvalidInput: a file cannot be read.
    """

    def __init__(self, statuses: Mapping[Path, str], replies: Iterable[Path]) -> None:
        self.passed_over = 0
        self._status_by_id: dict[str, str] = {}
        self._places: dict[str, _Place] = {}
        for path, status in statuses.items():
            for _, line in _lines(path):
                try:
                    self._status_by_id[_LINES.decode(line).custom_id] = status
                except msgspec.MsgspecError:
                    raise InvalidInput("holds a line that is no request; was it changed?", place=path.name) from None
        for path in replies:
            self._add(path)

    def find(self, request_id: str) -> BatchReply:
        """Return the reply to a request; raise TierFailure if there is none."""
        place = self._places.get(request_id)
        if place is None:
            status = self._status_by_id.get(request_id)
            raise TierFailure(*(_NOT_ASKED if status is None else _UNDONE.get(status, _LOST)))
        with place.path.open("rb") as file:
            file.seek(place.offset)
            return _parse_reply(file.readline())

    def _add(self, path: Path) -> None:
        for offset, line in _lines(path):
            try:
                reply = _parse_reply(line)
            except msgspec.MsgspecError:
                self.passed_over += 1
                continue
            is_good, known = reply.status_code == _OK, self._places.get(reply.request_id)
            is_asked = reply.request_id in self._status_by_id
            self.passed_over += known is not None or not is_asked
            if is_asked and (known is None or (is_good and not known.is_good)):
                self._places[reply.request_id] = _Place(path, offset, is_good)


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    offset = 0
    try:
        with path.open("rb") as file:
            for line in file:
                if not line.isspace():
                    yield offset, line
                offset += len(line)
    except OSError as error:
        raise InvalidInput(f"cannot be read ({error.strerror})", place=path.name) from error


def _parse_reply(line: bytes) -> BatchReply:
    read = _LINES.decode(line)
    response = read.response or _Response()
    if bytes(response.body) != b"null":
        return BatchReply(read.custom_id, response.status_code or _OK, bytes(response.body))
    if read.error is None:
        raise msgspec.ValidationError("neither response nor error")
    code = str(read.error.get("code") if isinstance(read.error, dict) else read.error).lower()
    meant = next((status for word, status in _PASSING.items() if word in code), _REFUSED)
    return BatchReply(read.custom_id, response.status_code or meant, msgspec.json.encode({"error": read.error}))
