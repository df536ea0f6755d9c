"""A chat model that is not asked now: its questions go into batch files, its replies come out of them."""

import asyncio
from http import HTTPStatus
from typing import Final, Protocol

from plumbline.extras.provider_batches.provider_batch import BatchReply, Question
from plumbline.ground.errors import FailureReason, TierFailure
from plumbline.judging.ports.exchange import ChatReply, ChatRequest, Ledger
from plumbline.judging.ports.observation import Readiness, State
from plumbline.models.chat.call_failures import CallFailure, status_failure
from plumbline.models.chat.completions import read_completion
from plumbline.models.chat.endpoints import Endpoint
from plumbline.models.chat.judge_connections import SendStatus
from plumbline.models.chat.request_form import RequestForm
from plumbline.models.chat.spending import Bill, Tariff, prompt_tokens

# So many turns of the event loop pass before a question without a reply fails: those that are asked beside it are
# then written down too, and not stopped by its failure.
_TURNS: Final = 4


class Files(Protocol):
    """Questions and replies by their content."""

    def reply_to(self, question: Question) -> BatchReply:
        """The reply.

        Raises:
            TierFailure: there is none, or the question cannot be asked this way.
        """
        ...

    def ask_again(self, question: Question, request_id: str) -> None:
        """The reply of this id was a failure that may pass."""
        ...


class BatchFileChatModel:
    """One chat model behind batch files; a reply is read, priced and refused as one that comes over HTTP.

    Args:
        name: what requests call this judge.
        endpoint: where the files go.
        form: the fields that the model is asked with; nothing is learnt of refusals here.
        tariff: the price of its batches.
        files: the questions and replies.
    """

    def __init__(self, name: str, endpoint: Endpoint, form: RequestForm, tariff: Tariff, files: Files) -> None:
        self.name = name
        self.model = endpoint.model
        self.context_tokens = endpoint.context_tokens
        self._endpoint = endpoint
        self._form = form
        self._tariff = tariff
        self._files = files

    async def complete(self, request: ChatRequest, *, seconds: float, ledger: Ledger) -> ChatReply:
        """The reply in the files.

        Raises:
            TierFailure: `not_asked` where no file has the question, otherwise as of a call over HTTP.
        """
        needed = prompt_tokens(request)
        if needed > self.context_tokens:
            raise TierFailure(
                FailureReason.TOO_LONG, f"about {needed} tokens, and {self.model} reads {self.context_tokens}"
            )
        body = self._form.parameters(request, self._endpoint.provider, self.model)
        question = Question(body, needed, request.max_output_tokens)
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
        bill = Bill(SendStatus(has_left=True))
        try:
            if reply.status_code >= HTTPStatus.BAD_REQUEST:
                raise status_failure(reply.status_code, {}, reply.body, self._endpoint)
            completion = read_completion(reply.body)
            bill.tokens = completion.tokens
            return completion.reply(self._endpoint)
        except CallFailure as failure:
            bill.is_free = failure.is_free
            if failure.is_retryable:
                self._files.ask_again(question, reply.request_id)
            raise
        finally:
            worst = self._tariff.worst_case(question.prompt_tokens, question.max_output_tokens)
            bill.write(ledger, self._tariff, worst)
