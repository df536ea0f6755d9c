"""Chat model behind batch files: requests are written into files, replies are found in files by the id of a request."""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, Self

import msgspec

from plumbline.ground.errors import FailureReason, InvalidInput, TierFailure
from plumbline.judging.ports.exchange import ChatReply, ChatRequest, Ledger
from plumbline.judging.ports.observation import Readiness, State
from plumbline.models.chat.call_failures import CallFailure, foreign_reply, status_failure
from plumbline.models.chat.completions import RequestForm, TokenCounts, read_completion
from plumbline.models.chat.endpoints import Endpoint
from plumbline.models.chat.resilient_endpoint import Tariff, prompt_tokens

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


_DIGITS: Final = 20


class OpenQuestion(NamedTuple):
    """A request without a reply yet. `line` is its line of a batch file, without the line end."""

    request_id: str
    line: bytes
    question: "Question"


class Question(NamedTuple):
    """One request to a chat model: its body, upper bounds of its tokens, and the usual length of its reply."""

    body: Mapping[str, object]
    prompt_tokens: int
    max_output_tokens: int
    expected_output_tokens: int


@dataclass(slots=True)
class RowRequests:
    """The requests of one row. `open`: those without a reply, by request id."""

    row: int
    asked: Counter[str] = field(default_factory=Counter)
    open: dict[str, OpenQuestion] = field(default_factory=dict)

    def unanswered(self) -> list[OpenQuestion]:
        """Return the open requests, in an order that depends on their content alone."""
        return [self.open[request_id] for request_id in sorted(self.open)]


# The row that the running task scores.
_ROW: ContextVar[RowRequests] = ContextVar("row")


class Correspondence:
    """Maps requests of rows to their replies, and collects the requests without one.

    The id of a question is `ROW-DIGEST`, the digest being that of its body, and `ROW-DIGEST-N` where a row asks the
    same again: so every build that asks the same finds its replies, and no other reply can pass for one.

    Args:
        replies: those that there are.
        url: of each line.
        max_line_bytes: a longer question cannot be asked this way.

    Attributes:
        refused: requests asked for whose batch the provider did not run.
    """

    def __init__(self, replies: ReplyIndex, *, url: str, max_line_bytes: int) -> None:
        self.refused = 0
        self._replies = replies
        self._url = url
        self._max_line_bytes = max_line_bytes

    @contextmanager
    def about(self, row: int) -> Iterator[RowRequests]:
        """Attribute the requests of this task, and of tasks that it starts, to the row."""
        requests = RowRequests(row)
        token = _ROW.set(requests)
        try:
            yield requests
        finally:
            _ROW.reset(token)

    def reply_to(self, question: Question) -> BatchReply:
        """Return the reply.

        Raises:
            TierFailure: there is none; or `too_long` for a line that no file takes.
        """
        opened = self._opened(question)
        if len(opened.line) > self._max_line_bytes:
            raise TierFailure(
                FailureReason.TOO_LONG,
                f"the request has {len(opened.line)} bytes and a line of the batch file at most {self._max_line_bytes}",
            )
        reply = self._replies.find(opened.request_id)
        if isinstance(reply, TierFailure):
            # A batch that failed its validation would fail again.
            if reply.reason is FailureReason.REJECTED:
                self.refused += 1
            else:
                _ROW.get().open[opened.request_id] = opened
            raise reply
        return reply

    def ask_again(self, question: Question, request_id: str) -> None:
        """Collect a request whose reply was a temporary failure."""
        _ROW.get().open[request_id] = self._opened(question, request_id=request_id)

    def _opened(self, question: Question, *, request_id: str | None = None) -> OpenQuestion:
        body = msgspec.json.encode(question.body)
        request_id = request_id or _new_id(_ROW.get(), question, body)
        line = {"custom_id": request_id, "method": "POST", "url": self._url, "body": msgspec.Raw(body)}
        return OpenQuestion(request_id, msgspec.json.encode(line), question)


def _new_id(requests: RowRequests, question: Question, body: bytes) -> str:
    digest = hashlib.sha256(body).hexdigest()[:_DIGITS]
    repeated, requests.asked[digest] = requests.asked[digest], requests.asked[digest] + 1
    return f"{requests.row}-{digest}" + (f"-{repeated}" if repeated else "")


# So many turns of the event loop pass before a question without a reply fails: those that are asked beside it are
# then written down too, and not stopped by its failure.
_TURNS: Final = 4


class BatchFileChatModel:
    """A chat model behind batch files; replies are parsed, priced and refused as those over HTTP.

    Args:
        name: what requests call this judge.
        endpoint: where the files go.
        form: the fields that the model is asked with; nothing is learnt of refusals here.
        tariff: the price of its batches.
        files: the questions and replies.
    """

    def __init__(self, name: str, endpoint: Endpoint, form: RequestForm, tariff: Tariff, files: Correspondence) -> None:
        self.name = name
        self.model = endpoint.model
        self.context_tokens = endpoint.context_tokens
        self.variant = endpoint.variant
        self._endpoint = endpoint
        self._form = form
        self._tariff = tariff
        self._files = files

    async def complete(self, request: ChatRequest, *, seconds: float, ledger: Ledger) -> ChatReply:
        """Return the reply in the files.

        Raises:
            TierFailure: `not_asked` where no file has the question, otherwise as of a call over HTTP.
        """
        needed = prompt_tokens(request)
        if needed > self.context_tokens:
            raise TierFailure(
                FailureReason.TOO_LONG, f"about {needed} tokens, and {self.model} reads {self.context_tokens}"
            )
        body = self._form.parameters(request, self._endpoint)
        question = Question(body, needed, request.max_output_tokens, request.expected_output_tokens)
        try:
            reply = self._files.reply_to(question)
        except TierFailure:
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            raise
        return self._read(reply, question, request, ledger)

    def readiness(self) -> Readiness:
        return Readiness(State.READY, f"batch files of {self._endpoint.place}")

    def _read(self, reply: BatchReply, question: Question, request: ChatRequest, ledger: Ledger) -> ChatReply:
        tokens, is_free = TokenCounts(), False
        try:
            if reply.status_code >= HTTPStatus.BAD_REQUEST:
                raise status_failure(reply.status_code, {}, reply.body, self._endpoint)
            completion = read_completion(reply.body)
            tokens = completion.tokens
            answer = completion.reply(self._endpoint)
            if request.numbering.is_foreign(answer.content):
                raise foreign_reply(is_fresh=True)
            return answer
        except CallFailure as failure:
            is_free = failure.is_free
            if failure.is_retryable:
                self._files.ask_again(question, reply.request_id)
            raise
        finally:
            worst = self._tariff.worst_case(question.prompt_tokens, question.max_output_tokens)
            ledger.add_call(
                prompt_tokens=tokens.prompt,
                completion_tokens=tokens.completion,
                cached_tokens=tokens.cached,
                cost=self._tariff.cost(tokens, worst=worst, is_free=is_free),
            )
