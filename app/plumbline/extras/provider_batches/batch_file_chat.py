"""Chat model behind batch files: requests are collected for files, replies are found in files by a request's id."""

import asyncio
import hashlib
from contextvars import ContextVar
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final, NamedTuple

import msgspec

from plumbline.extras.provider_batches.replies import BatchReply, ReplyIndex
from plumbline.ground.errors import FailureReason, TierFailure
from plumbline.ground.judge_settings import JudgeKind
from plumbline.ground.texts import CodedText
from plumbline.judging.ports.exchange import ChatReply, ChatRequest, Ledger
from plumbline.judging.ports.observation import Readiness, State
from plumbline.models.chat.call_failures import CallFailure, foreign_reply, status_failure
from plumbline.models.chat.call_limits import Tariff
from plumbline.models.chat.completions import TokenCounts, read_completion
from plumbline.models.chat.endpoints import Endpoint
from plumbline.models.chat.request_forms import RequestForm
from plumbline.models.chat.resilient_endpoint import prompt_tokens

_DIGITS: Final = 20
# So many turns of the event loop pass before a question without a reply fails: concurrent questions
# of the row are then written down too, and not stopped by its failure.
_TURNS: Final = 4


class Question(NamedTuple):
    """One request: its line of a batch file, and upper bounds of its tokens."""

    id: str
    line: bytes
    prompt_tokens: int
    max_output_tokens: int


@dataclass(slots=True)
class RowQuestions:
    """The open questions of one row, by id, and how many of its questions no batch ran for a fault of theirs."""

    row: int
    open: dict[str, Question] = field(default_factory=dict)
    refused: int = 0

    @property
    def lines(self) -> list[bytes]:
        """Return the lines of its open questions, in an order that depends on their content alone."""
        return [question.line for _, question in sorted(self.open.items())]


# The row that the running task scores.
ROW: Final[ContextVar[RowQuestions]] = ContextVar("row")


class BatchFileChatModel:
    """A chat model behind batch files; replies are parsed, priced and refused as those over HTTP.

    The id of a question is `ROW-DIGEST`, the digest being that of its body: so every build that asks the same finds
    its replies, and no other reply can pass for one.

    Args:
        name: what requests call this judge.
        endpoint: where the files go.
        tariff: the price of its batches.
        url: of each line.
        replies: those that there are.
    """

    def __init__(self, name: str, endpoint: Endpoint, tariff: Tariff, *, url: str, replies: ReplyIndex) -> None:
        self.name = name
        self.kind: JudgeKind = "chat"
        self.model = endpoint.model
        self.context_tokens = endpoint.context_tokens
        self.variant = endpoint.variant
        self._endpoint = endpoint
        # Nothing is learnt here of fields that a provider refuses.
        self._form = RequestForm.strictest(endpoint.provider)
        self._tariff = tariff
        self._url = url
        self._replies = replies

    async def complete(self, request: ChatRequest, *, seconds: float, ledger: Ledger) -> ChatReply:
        """Return the reply in the files; raise TierFailure `not_asked` without one, or as a call over HTTP does."""
        needed = prompt_tokens(request)
        if needed > self.context_tokens:
            raise TierFailure(
                FailureReason.TOO_LONG,
                CodedText("request_too_long", tokens=needed, model=self.model, limit=self.context_tokens),
            )
        question, row = self._question(request, needed), ROW.get()
        try:
            reply = self._replies.find(question.id)
        except TierFailure as failure:
            # A batch that failed its validation would fail again.
            if failure.reason is FailureReason.REJECTED:
                row.refused += 1
            else:
                row.open[question.id] = question
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            raise
        return self._read(reply, question, request, ledger)

    def readiness(self) -> Readiness:
        return Readiness(State.READY, f"batch files of {self._endpoint.place}")

    def _question(self, request: ChatRequest, needed: int) -> Question:
        body = msgspec.json.encode(self._form.parameters(request, self._endpoint))
        request_id = f"{ROW.get().row}-{hashlib.sha256(body).hexdigest()[:_DIGITS]}"
        line = {"custom_id": request_id, "method": "POST", "url": self._url, "body": msgspec.Raw(body)}
        encoded = msgspec.json.encode(line)
        return Question(request_id, encoded, needed, request.max_output_tokens)

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
                ROW.get().open[question.id] = question
            raise
        finally:
            worst = self._tariff.worst_case(question.prompt_tokens, question.max_output_tokens)
            ledger.add_call(
                prompt_tokens=tokens.prompt,
                completion_tokens=tokens.completion,
                cached_tokens=tokens.cached,
                cost=self._tariff.cost(tokens, worst=worst, is_free=is_free),
            )
