"""Judges by name: each a list of endpoints with failover."""

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from plumbline.ground.errors import FailureReason, TierFailure
from plumbline.ground.judge_settings import JudgeKind
from plumbline.ground.settings import Settings
from plumbline.ground.texts import CodedText, join_texts
from plumbline.judging.ports.decisions import DecisionReply, DecisionRequest
from plumbline.judging.ports.exchange import ChatReply, ChatRequest, Ledger
from plumbline.judging.ports.observation import NULL_OBSERVER, Observer, Readiness, State
from plumbline.judging.tiers.llm import SHARE_OF_FIRST
from plumbline.models.chat.call_limits import Tariff
from plumbline.models.chat.endpoint_guard import ModelHealth
from plumbline.models.chat.endpoints import Endpoint, resolve_judges
from plumbline.models.chat.resilient_endpoint import ResilientEndpoint, RetryPolicy

T = TypeVar("T")


def build_chat_models(
    settings: Settings,
    policy: RetryPolicy | None = None,
    *,
    observer: Observer = NULL_OBSERVER,
) -> dict[str, "FailoverChatModel"]:
    """Build the judges that the settings name, `default` first; `policy` replaces their limits, retries and budgets.

    Raises ConfigurationError: an endpoint lacks what its provider needs.
    """
    policy = policy or RetryPolicy(
        max_concurrency=settings.llm_max_concurrency,
        rpm=settings.llm_rpm,
        tpm=settings.llm_tpm,
    )
    # What limits an account is kept for each key; what is learnt of a model serves all keys.
    attended: dict[Endpoint, ResilientEndpoint] = {}
    health: dict[tuple[str, ...], ModelHealth] = {}

    def attend(endpoint: Endpoint) -> ResilientEndpoint:
        if endpoint not in attended:
            place = (endpoint.provider.name, endpoint.base_url, endpoint.model, endpoint.variant, endpoint.api or "")
            known = health.setdefault(place, ModelHealth(endpoint.provider))
            tariff = Tariff((settings.llm_prices or {}).get(endpoint.model))
            attended[endpoint] = ResilientEndpoint(endpoint, known, tariff, policy, observer=observer)
        return attended[endpoint]

    return {
        name: FailoverChatModel(name, [attend(endpoint) for endpoint in endpoints])
        for name, endpoints in resolve_judges(settings).items()
    }


class FailoverChatModel:
    """One judge: one or more endpoints with failover, the preferred one first."""

    def __init__(self, name: str, endpoints: Sequence[ResilientEndpoint]) -> None:
        self._endpoints = tuple(endpoints)
        self.name = name
        self.model = self._endpoints[0].endpoint.model
        self.variant = " ".join(each.endpoint.variant for each in self._endpoints).strip()

    @property
    def kind(self) -> JudgeKind:
        """Return what the preferred endpoint is asked with; one that is asked otherwise does not answer for it."""
        return self._endpoints[0].kind

    @property
    def questions(self) -> int:
        return self._endpoints[0].questions

    @property
    def context_tokens(self) -> int:
        """Return the window of the preferred endpoint; a smaller one is skipped for requests too long for it."""
        return self._endpoints[0].context_tokens

    async def complete(self, request: ChatRequest, *, seconds: float, ledger: Ledger) -> ChatReply:
        """Return a reply within `seconds` from the first endpoint that answers; raise TierFailure, which lists all."""

        def ask(endpoint: ResilientEndpoint, share: float, is_last: bool) -> Awaitable[ChatReply]:
            return endpoint.complete(request, seconds=share, ledger=ledger, is_last=is_last)

        return await self._first(ask, seconds, is_chat=True)

    async def decide(self, request: DecisionRequest, *, seconds: float, ledger: Ledger) -> DecisionReply:
        def ask(endpoint: ResilientEndpoint, share: float, is_last: bool) -> Awaitable[DecisionReply]:
            return endpoint.decide(request, seconds=share, ledger=ledger, is_last=is_last)

        return await self._first(ask, seconds, is_chat=False)

    async def _first(
        self, ask: Callable[[ResilientEndpoint, float, bool], Awaitable[T]], seconds: float, *, is_chat: bool
    ) -> T:
        until, failures = time.monotonic() + seconds, list[TierFailure]()
        first, *others = self._endpoints
        endpoints = [first, *(each for each in others if (each.kind == "chat") == is_chat)]
        for endpoint in endpoints:
            if (left := until - time.monotonic()) <= 0:
                failures.append(TierFailure(FailureReason.TIMEOUT, CodedText("no_time_to_ask")))
                break
            is_last = endpoint is endpoints[-1]
            try:
                return await ask(endpoint, left if is_last else left * SHARE_OF_FIRST, is_last)
            except TierFailure as failure:
                failures.append(failure)
        last = failures[-1]
        if len(failures) == 1:
            raise last
        details = join_texts([failure.detail for failure in failures])
        raise TierFailure(last.reason, details, wait_seconds=last.wait_seconds) from last

    def readiness(self) -> Readiness:
        """Return UNAVAILABLE while the breakers of all endpoints are open."""
        is_shut = all(endpoint.guard.is_shut for endpoint in self._endpoints)
        detail = "; then ".join(endpoint.guard.describe() for endpoint in self._endpoints)
        return Readiness(State.UNAVAILABLE if is_shut else State.READY, detail)

    async def close(self) -> None:
        for endpoint in self._endpoints:
            await endpoint.close()
