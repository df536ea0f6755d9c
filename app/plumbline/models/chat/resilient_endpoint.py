"""One endpoint with retries, circuit breakers, concurrency and rate limits, and prices."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Generic, Protocol, TypeVar

import structlog

from plumbline.ground.errors import FailureReason, TierFailure
from plumbline.ground.judge_settings import JudgeKind
from plumbline.ground.settings import Settings
from plumbline.ground.texts import CodedText
from plumbline.judging.ports.decisions import DecisionReply, DecisionRequest
from plumbline.judging.ports.exchange import ChatReply, ChatRequest, Ledger, estimate_tokens, expected_tokens
from plumbline.judging.ports.observation import ANSWERED, NULL_OBSERVER, JudgeCallRecord, Observer, Operation
from plumbline.models.chat.api_client import MAX_REPLY_BYTES, ApiClient, Exchange
from plumbline.models.chat.call_failures import CallFailure, foreign_reply
from plumbline.models.chat.call_limits import AdaptiveLimit, CallBudget, Tariff
from plumbline.models.chat.completions import NO_TOKENS, TokenCounts, read_completion
from plumbline.models.chat.decisions import decision_parameters, decision_tokens, is_cut, read_decisions
from plumbline.models.chat.endpoint_guard import EndpointGuard, ModelHealth
from plumbline.models.chat.endpoints import MAX_MODEL_CALLS, PATHS, Endpoint
from plumbline.models.chat.request_forms import LEAST_WINDOW, RequestForm, describe_difference

# What roles and separators of two messages take.
_FRAME_TOKENS = 16
# Reading a longer reply would hold the event loop: 4 MB of thoughts take .7 s, this many bytes some 10 ms.
_LONG_REPLY_BYTES = 65_536


def prompt_tokens(request: ChatRequest, *, has_schema: bool = True) -> int:
    """Estimate the tokens of a request; `has_schema`: its schema is sent."""
    schema = estimate_tokens(str(request.schema)) if request.schema and has_schema else 0
    return estimate_tokens(request.system) + estimate_tokens(request.user) + schema + _FRAME_TOKENS


T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_OPERATIONS: Mapping[JudgeKind | None, Operation] = {None: "embeddings", "chat": "chat"}
_LONGEST_BACKOFF_SECONDS = 8.0
_PATIENT_MARGIN_SECONDS = 1.0
# With less left no provider answers, and the call would be paid for.
_LEAST_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Retries and limits of an endpoint; `rpm`, `tpm`: requests and tokens a minute, None for no budget.

    `attempts`: calls for one request at most, those apart that were refused for a field. `jitter`: of a wait.
    """

    max_concurrency: int = 64
    backoff_seconds: float = 0.5
    rpm: int | None = None
    tpm: int | None = None
    attempts: int = 3
    max_reply_bytes: int = MAX_REPLY_BYTES
    jitter: Callable[[float], float] = field(default=lambda longest: random.uniform(0.0, longest))  # noqa: S311


class ParsedBody(Protocol[T_co]):
    """A body that a provider sent: counts that it is billed by, and what was asked for, or CallFailure."""

    @property
    def tokens(self) -> TokenCounts: ...

    @property
    def is_truncated(self) -> bool: ...

    def reply(self, endpoint: Endpoint) -> T_co: ...


@dataclass(frozen=True, slots=True)
class ApiRequest(Generic[T]):
    """One request of `prompt` estimated tokens to an operation of a model's API.

    `parse` raises CallFailure for a body of another kind. `kind`: what a judge is asked with, if it is one.
    `is_fresh`: use a new connection, since another call's reply was read on one of the present ones.
    """

    sent: Mapping[str, object]
    parse: Callable[[bytes], ParsedBody[T]]
    prompt: int
    kind: JudgeKind | None = None
    max_output: int = 0
    expected_output: int = 0
    is_foreign: Callable[[T], bool] = lambda _: False
    is_fresh: bool = False


class ResilientEndpoint:
    """One endpoint; every call to it goes through here, so that its limits hold for all callers."""

    def __init__(
        self,
        endpoint: Endpoint,
        health: ModelHealth,
        tariff: Tariff,
        policy: RetryPolicy,
        *,
        observer: Observer = NULL_OBSERVER,
        on_exchange: Callable[[Exchange], None] | None = None,
    ) -> None:
        self.endpoint = endpoint
        self._observer = observer
        self.learnt = health.learnt
        # Under a budget of our own, a complaint about too many calls is a stray one.
        pause = policy.backoff_seconds / 4 if policy.rpm else policy.backoff_seconds
        self.guard = EndpointGuard(endpoint, health, unasked_pause_seconds=pause)
        self._tariff = tariff
        self._policy = policy
        self._client = ApiClient(endpoint, max_reply_bytes=policy.max_reply_bytes, on_exchange=on_exchange)
        self._limit = AdaptiveLimit(policy.max_concurrency)
        self._budget = CallBudget(policy.rpm, policy.tpm)

    @property
    def kind(self) -> JudgeKind:
        """Return what the endpoint is asked with, as the settings or a refused chat said."""
        return self.endpoint.api or self.learnt.api or "chat"

    @property
    def questions(self) -> int:
        """Return the most questions of a request: what the provider said where it said less than it advises."""
        advised = self.endpoint.provider.decisions.questions
        return min(advised, self.learnt.questions or advised)

    @property
    def context_tokens(self) -> int:
        """Return the most tokens of a request and its reply: what the provider said where it said less."""
        return min(self.endpoint.context_tokens, self.learnt.context_tokens or self.endpoint.context_tokens)

    async def complete(
        self, request: ChatRequest, *, seconds: float, ledger: Ledger, is_last: bool = True
    ) -> ChatReply:
        """Return one reply within `seconds`; raise TierFailure. `is_last`: no other endpoint would answer."""
        exchange = _Negotiation(self, request, self._check_length(prompt_tokens(request)), ledger)
        return await self._retry(exchange.attempt, seconds, is_patient=is_last and ledger.can_wait)

    async def decide(
        self, request: DecisionRequest, *, seconds: float, ledger: Ledger, is_last: bool = True
    ) -> DecisionReply:
        needed, is_fresh = self._check_length(decision_tokens(request)), False

        async def attempt(until: float) -> DecisionReply:
            nonlocal is_fresh
            marks_prefix = self.learnt.takes_breakpoints
            sent = decision_parameters(request, self.endpoint, self.kind, marks_prefix=marks_prefix)
            parse = partial(read_decisions, request=request)
            asked = ApiRequest(
                sent, parse, needed, self.kind, is_foreign=lambda reply: reply.is_foreign, is_fresh=is_fresh
            )
            try:
                reply = await self.call(asked, until, ledger)
                if (read := reply.prompt_tokens) is None or not is_cut(read, needed):
                    return reply
                self.learnt.context_tokens = max(LEAST_WINDOW, read)
                raise CallFailure(FailureReason.TOO_LONG, CodedText("request_cut", tokens=read))
            except CallFailure as failure:
                is_fresh = failure.reason is FailureReason.FOREIGN_REPLY
                if failure.reason is FailureReason.TOO_LONG:
                    self.learnt.learn_window(failure.complaint, sent)
                elif failure.complaint and self.learnt.learn_limits(failure.complaint, sent):
                    return await attempt(until)
                raise

        return await self._retry(attempt, seconds, is_patient=is_last and ledger.can_wait)

    async def ask(self, request: ApiRequest[T], *, seconds: float, ledger: Ledger) -> T:
        return await self._retry(lambda until: self.call(request, until, ledger), seconds)

    async def _retry(self, attempt: Callable[[float], Awaitable[T]], seconds: float, *, is_patient: bool = False) -> T:
        """Return what an attempt returns; repeat it after failures that pass.

        A patient caller (`is_patient`) repeats it as long as the provider asks for patience. A failure of such a one
        has `wait_seconds` while others are answered, so that its sample begins again.
        """
        # So that it ends before the tier's own timeout, which knows of no wait.
        longest_try = seconds - min(_PATIENT_MARGIN_SECONDS, seconds / 10) if is_patient else seconds
        started, made, waits = time.monotonic(), 0, 0
        until = started + longest_try
        try:
            async with asyncio.timeout(longest_try) as scope:
                while True:
                    try:
                        return await attempt(until)
                    except CallFailure as failure:
                        is_asked = failure.is_throttle
                        waits += is_asked
                        made += not (is_asked and is_patient)
                        is_over = made >= self._policy.attempts or not failure.is_retryable or self.guard.is_shut
                        tries = waits if is_asked else made
                        longest = min(_LONGEST_BACKOFF_SECONDS, self._policy.backoff_seconds * 2 ** (tries - 1))
                        pause = (failure.wait_seconds or 0.0) + self._policy.jitter(longest)
                        if is_over or time.monotonic() + pause >= until:
                            is_waiting = is_patient and is_asked and self.guard.has_answered_within(seconds)
                            failure.wait_seconds = pause if is_waiting and pause < seconds else None
                            raise
                    await asyncio.sleep(pause)
        except TimeoutError:
            if not scope.expired():
                raise
            host = self.endpoint.host
            if is_patient and self.guard.has_throttled_since(started) and self.guard.has_answered_within(seconds):
                text = CodedText("host_asks_for_patience", host=host, seconds=seconds)
                raise TierFailure(FailureReason.RATE_LIMITED, text, wait_seconds=0.0) from None
            raise TierFailure(FailureReason.TIMEOUT, CodedText("host_timed_out", host=host, seconds=seconds)) from None

    async def close(self) -> None:
        await self._client.close()

    def _check_length(self, needed: int) -> int:
        """Return the estimated tokens of a request, which fit the model's context window."""
        if needed > (limit := self.context_tokens):
            detail = CodedText("request_too_long", tokens=needed, model=self.endpoint.model, limit=limit)
            raise TierFailure(FailureReason.TOO_LONG, detail)
        return needed

    async def call(self, request: ApiRequest[T], until: float, ledger: Ledger) -> T:
        """Make one call, within the limits on all calls; raise CallFailure."""
        worst = self._tariff.worst_case(request.prompt, request.max_output)
        usual = self._tariff.worst_case(expected_tokens(request.prompt), request.expected_output)
        expected = request.prompt + request.expected_output
        self.guard.check(until)
        async with ledger.reserve(usual, worst) as is_affordable:
            if not is_affordable:
                model = self.endpoint.model
                detail = CodedText("price_unknown", model=model)
                if usual is not None:
                    detail = CodedText("call_too_dear", model=model, cost=usual)
                raise CallFailure(FailureReason.OVER_BUDGET, detail)
            async with self._limit.slot() as slot:
                self.guard.check(until)
                if until - time.monotonic() < _LEAST_SECONDS:
                    raise CallFailure(FailureReason.TIMEOUT, CodedText("turn_timed_out"), is_throttle=True)
                if pause := self.guard.pause_seconds:
                    # With jitter, against a thundering herd.
                    await asyncio.sleep(pause + self._policy.jitter(min(pause, self._policy.backoff_seconds)))
                at = self.endpoint
                operation = _OPERATIONS.get(request.kind, "decisions")
                note = JudgeCallRecord(at.provider.name, at.model, at.host, request.max_output, operation)
                try:
                    settle = await self._budget.turn(expected, until=until)
                    try:
                        with self.guard.watch(until):
                            return await self._exchange(request, note, worst)
                    finally:
                        settle(_used_tokens(note, expected))
                except CallFailure as failure:
                    slot.was_throttled = failure.is_throttle and note.has_left
                    failure.name_host(self.endpoint.host)
                    raise
                finally:
                    if note.has_left:
                        ledger.add_call(
                            prompt_tokens=note.prompt_tokens,
                            completion_tokens=note.completion_tokens,
                            cached_tokens=note.cached_tokens,
                            cost=note.cost,
                        )

    async def _exchange(self, request: ApiRequest[T], note: JudgeCallRecord, worst: float | None) -> T:
        tokens, is_free = NO_TOKENS, False
        with self._observer.judge_call(note):
            try:
                if request.is_fresh:
                    await self._client.drop_connections()
                path = PATHS[request.kind] if request.kind else ""
                content = await self._client.post(request.sent, note, path=path)
                is_long = len(content) > _LONG_REPLY_BYTES
                body = await asyncio.to_thread(request.parse, content) if is_long else request.parse(content)
                tokens = body.tokens
                reply = await asyncio.to_thread(body.reply, self.endpoint) if is_long else body.reply(self.endpoint)
                if request.is_foreign(reply):
                    raise foreign_reply(is_fresh=request.is_fresh)
            except CallFailure as failure:
                is_free = failure.is_free
                note.outcome = failure.reason
                if failure.reason is FailureReason.FOREIGN_REPLY:
                    # The reply to this call may still come on the same connection: no other call may read it.
                    await self._client.drop_connections()
                raise
            else:
                note.outcome, note.is_truncated = ANSWERED, body.is_truncated
                return reply
            finally:
                if note.has_left:
                    note.prompt_tokens, note.completion_tokens = tokens.prompt, tokens.completion
                    note.cached_tokens = tokens.cached
                    note.cost = self._tariff.cost(tokens, worst=worst, is_free=is_free)


def attend_server(
    endpoint: Endpoint, settings: Settings, *, policy: RetryPolicy | None = None, observer: Observer
) -> ResilientEndpoint:
    """Return the endpoint of a server of vectors, with its part of the calls; `policy` replaces its limits."""
    calls = -(-MAX_MODEL_CALLS // settings.workers)
    policy = policy or RetryPolicy(max_concurrency=calls)
    tariff = Tariff((settings.llm_prices or {}).get(endpoint.model))
    return ResilientEndpoint(endpoint, ModelHealth(endpoint.provider), tariff, policy, observer=observer)


class _Negotiation:
    """The attempts at one request, whose form gets simpler as long as the provider refuses a field."""

    def __init__(self, endpoint: ResilientEndpoint, request: ChatRequest, prompt: int, ledger: Ledger) -> None:
        self._endpoint = endpoint
        self._request = request
        self._prompt = prompt
        self._ledger = ledger
        self._form = endpoint.learnt.form
        self._refused: Mapping[str, object] | None = None
        self._is_fresh = False
        self._is_repeated = False

    async def attempt(self, until: float) -> ChatReply:
        """Return the reply to one call; repeat it at once in a simpler form, or once if it was empty or cut."""
        learnt, cut = self._endpoint.learnt, None
        while True:
            sent = self._build(self._form)
            limit = sent.get(self._form.token_limit)
            most = limit if isinstance(limit, int) else self._request.max_output_tokens
            asked = ApiRequest(
                sent,
                read_completion,
                self._prompt,
                "chat",
                most,
                self._request.expected_output_tokens,
                is_foreign=lambda reply: self._request.numbering.is_foreign(reply.content),
                is_fresh=self._is_fresh,
            )
            try:
                reply = await self._endpoint.call(asked, until, self._ledger)
            except CallFailure as failure:
                self._is_fresh = failure.reason is FailureReason.FOREIGN_REPLY
                if failure.reason is FailureReason.TOO_LONG:
                    learnt.learn_window(failure.complaint, sent)
                elif self._endpoint.endpoint.api is None and learnt.learn_api(failure.complaint):
                    raise
                elif failure.reason is FailureReason.TRUNCATED_REPLY and self._takes_more_room():
                    continue
                elif failure.reason is FailureReason.EMPTY_REPLY and not self._is_repeated:
                    self._is_repeated = True
                    continue
                elif simpler := self._simpler(failure, sent):
                    self._form = simpler
                    continue
                if cut is not None:
                    return cut
                raise
            learnt.accept(self._form, sent, refused=self._refused)
            if reply.is_truncated and reply.has_thoughts and self._takes_more_room():
                cut = reply
                continue
            return reply

    def _build(self, form: RequestForm) -> dict[str, object]:
        endpoint = self._endpoint
        return form.parameters(self._request, endpoint.endpoint, room=endpoint.context_tokens - self._prompt)

    def _takes_more_room(self) -> bool:
        """Return True, with another form, if there is more room for a reply, and none was taken yet."""
        roomier = replace(self._form, has_room=True)
        if self._is_repeated or self._build(roomier) == self._build(self._form):
            return False
        self._form, self._is_repeated = roomier, True
        self._endpoint.learnt.form = replace(self._endpoint.learnt.form, has_room=True)
        return True

    def _simpler(self, failure: CallFailure, sent: Mapping[str, object]) -> RequestForm | None:
        if not failure.complaint:
            return None
        simpler = self._endpoint.learnt.next_form(
            self._form, failure.complaint, sent, self._build, is_server_fault=failure.is_server_fault
        )
        if simpler is None:
            return None
        self._refused = self._refused or sent
        left_out = describe_difference(sent, self._build(simpler))
        structlog.get_logger().info("judge_form_refused", endpoint=self._endpoint.guard.describe(), next=left_out)
        return simpler


def _used_tokens(note: JudgeCallRecord, expected: int) -> int:
    """Return the tokens for the rate limit: the provider's count, or the estimate if the request left without one."""
    counts = (note.prompt_tokens, note.completion_tokens)
    return sum(count or 0 for count in counts) if counts != (None, None) or not note.has_left else expected
