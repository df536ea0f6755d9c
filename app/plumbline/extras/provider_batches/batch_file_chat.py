"""Chat model behind batch files: requests are written into files, replies are found in files."""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final, NamedTuple

import msgspec

from plumbline.extras.provider_batches.reply_index import BatchReply, ReplyIndex
from plumbline.ground.errors import FailureReason, TierFailure
from plumbline.judging.ports.exchange import ChatReply, ChatRequest, Ledger
from plumbline.judging.ports.observation import Readiness, State
from plumbline.models.chat.call_failures import CallFailure, status_failure
from plumbline.models.chat.completions import RequestForm, TokenCounts, read_completion
from plumbline.models.chat.endpoints import Endpoint
from plumbline.models.chat.resilient_endpoint import Tariff, prompt_tokens

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
        return self._read(reply, question, ledger)

    def readiness(self) -> Readiness:
        return Readiness(State.READY, f"batch files of {self._endpoint.place}")

    def _read(self, reply: BatchReply, question: Question, ledger: Ledger) -> ChatReply:
        tokens, is_free = TokenCounts(), False
        try:
            if reply.status_code >= HTTPStatus.BAD_REQUEST:
                raise status_failure(reply.status_code, {}, reply.body, self._endpoint)
            completion = read_completion(reply.body)
            tokens = completion.tokens
            return completion.reply(self._endpoint)
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
