"""Which question of which row has which reply: an id for each question, made of the row and of its content."""

import hashlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

import msgspec

from plumbline.extras.provider_batches.provider_batch import BatchReply, Question
from plumbline.ground.errors import FailureReason, TierFailure

_DIGITS: Final = 20


class OpenQuestion(NamedTuple):
    """A question that still needs a reply. `line` is its line of a batch file, without the end of the line."""

    request_id: str
    line: bytes
    prompt_tokens: int
    max_output_tokens: int


class Replies(Protocol):
    """The replies that came back, by request id."""

    def find(self, request_id: str) -> BatchReply | TierFailure:
        """The reply, or why there is none; `not_asked` when no file had the question."""
        ...


class NoReplies:
    """Before anything was asked."""

    def find(self, request_id: str) -> BatchReply | TierFailure:
        return TierFailure(FailureReason.NOT_ASKED, "the question has not been asked yet")


@dataclass(slots=True)
class RowLetters:
    """What one row asks. `open`: the questions that have no reply, by request id."""

    row: int
    asked: Counter[str] = field(default_factory=Counter)
    open: dict[str, OpenQuestion] = field(default_factory=dict)

    def unanswered(self) -> list[OpenQuestion]:
        """In an order that depends on the questions alone, not on when they were asked."""
        return [self.open[request_id] for request_id in sorted(self.open)]


# The row that the running task scores.
_ROW: ContextVar[RowLetters] = ContextVar("row")


class Correspondence:
    """Finds the replies to the questions of rows and keeps the questions that have none.

    The id of a question is `ROW-DIGEST`, the digest being that of its body, and `ROW-DIGEST-N` where a row asks the
    same again: so every build that asks the same finds its replies, and no other reply can pass for one.

    Args:
        replies: those that there are.
        url: of each line.
        max_line_bytes: a longer question cannot be asked this way.
    """

    def __init__(self, replies: Replies, *, url: str, max_line_bytes: int) -> None:
        self._replies = replies
        self._url = url
        self._max_line_bytes = max_line_bytes

    @contextmanager
    def about(self, row: int) -> Iterator[RowLetters]:
        """Takes what this task asks, and the tasks that it begins, for questions of the row."""
        letters = RowLetters(row)
        token = _ROW.set(letters)
        try:
            yield letters
        finally:
            _ROW.reset(token)

    def reply_to(self, question: Question) -> BatchReply:
        """The reply.

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
            _ROW.get().open[opened.request_id] = opened
            raise reply
        return reply

    def ask_again(self, question: Question, request_id: str) -> None:
        """Keeps a question whose reply was a failure that may pass."""
        _ROW.get().open[request_id] = self._opened(question, request_id=request_id)

    def _opened(self, question: Question, *, request_id: str | None = None) -> OpenQuestion:
        body = msgspec.json.encode(question.body)
        request_id = request_id or _new_id(_ROW.get(), question, body)
        line = {"custom_id": request_id, "method": "POST", "url": self._url, "body": msgspec.Raw(body)}
        return OpenQuestion(request_id, msgspec.json.encode(line), question.prompt_tokens, question.max_output_tokens)


def _new_id(letters: RowLetters, question: Question, body: bytes) -> str:
    digest = hashlib.sha256(body).hexdigest()[:_DIGITS]
    repeated, letters.asked[digest] = letters.asked[digest], letters.asked[digest] + 1
    return f"{letters.row}-{digest}" + (f"-{repeated}" if repeated else "")
