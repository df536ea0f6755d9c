"""Chat model behind batch files: requests are collected for files, replies are found in files by a request's id."""

import asyncio
import hashlib
from contextvars import ContextVar
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

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
# OpenAI, Azure and DashScope charge half of the price of a call; read in 2026.
_PRICE_FACTOR: Final = 0.5


@dataclass(slots=True)
class RowQuestions:
    """The lines of a row's open questions by id, and how many of its questions no batch ran for a fault of theirs."""

    row: int
    open: dict[str, bytes] = field(default_factory=dict)
    refused: int = 0

    @property
    def lines(self) -> list[bytes]:
        """Return the lines of its open questions, in an order that depends on their content alone."""
        return [line for _, line in sorted(self.open.items())]


# The row that the running task scores.
ROW: Final[ContextVar[RowQuestions]] = ContextVar("row")


class BatchFileChatModel:
    """A chat model behind batch files; replies are parsed, priced and refused as those over HTTP.

    The id of a question is `ROW-DIGEST`, the digest being that of its body: so every build that asks the same finds
    its replies, and no other reply can pass for one.

    Args:
        name: what requests call this judge.
        endpoint: where the files go.
        tariff: the price of a call; a batch costs half.
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
        body = msgspec.json.encode(self._form.parameters(request, self._endpoint))
        row = ROW.get()
        request_id = f"{row.row}-{hashlib.sha256(body).hexdigest()[:_DIGITS]}"
        line = {"custom_id": request_id, "method": "POST", "url": self._url, "body": msgspec.Raw(body)}
        try:
            return self._read(self._replies.find(request_id), request, ledger)
        except CallFailure as failure:
            if failure.is_retryable:
                row.open[request_id] = msgspec.json.encode(line)
            raise
        except TierFailure as failure:
            # A batch that failed its validation would fail again.
            if failure.reason is FailureReason.REJECTED:
                row.refused += 1
            else:
                row.open[request_id] = msgspec.json.encode(line)
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            raise

    def readiness(self) -> Readiness:
        return Readiness(State.READY, f"batch files of {self._endpoint.place}")

    def _read(self, reply: BatchReply, request: ChatRequest, ledger: Ledger) -> ChatReply:
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
            raise
        finally:
            cost = self._tariff.cost(tokens, worst=None, is_free=is_free)
            ledger.add_call(
                prompt_tokens=tokens.prompt,
                completion_tokens=tokens.completion,
                cached_tokens=tokens.cached,
                cost=None if cost is None else cost * _PRICE_FACTOR,
            )
