"""Whether an endpoint may be asked now: its breakers, and the pauses that its provider asks for."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from plumbline.ground.errors import FailureReason
from plumbline.models.chat.breaker import Breaker, Permit
from plumbline.models.chat.call_failures import Blame, CallFailure
from plumbline.models.chat.endpoints import Endpoint
from plumbline.models.chat.request_form import LearntForm

# A provider that asks to be left alone for a day is asked again after this: quotas are often raised in between.
_LONGEST_PAUSE_SECONDS = 300.0
# A deadline that left less than this says nothing of the endpoint: a hurried caller must not shut it for others.
_FAIR_SECONDS = 1.0
_CLOCK_SLACK_SECONDS = 0.02


class ModelHealth:
    """What is known of a model at an address, whatever key is used there."""

    def __init__(self, learnt: LearntForm) -> None:
        self.learnt = learnt
        self.breaker = Breaker(threshold=5, first_seconds=10.0, longest_seconds=300.0)
        self.trouble = ""


class EndpointGuard:
    """Keeps calls away from an endpoint that is ill, set up wrongly, or asks to be left alone.

    Illness is the model's at its address. A wrong key, model or account is this endpoint's alone, and shuts it after
    the first call: otherwise every sample would pay for it.

    Args:
        endpoint: which.
        health: of its model at its address.
        unasked_pause_seconds: how long it is left alone after too many calls when it names no time.
    """

    def __init__(self, endpoint: Endpoint, health: ModelHealth, *, unasked_pause_seconds: float) -> None:
        self._endpoint = endpoint
        self._unasked_pause_seconds = unasked_pause_seconds
        self._health = health
        self._configuration = Breaker(threshold=1, first_seconds=300.0, longest_seconds=300.0)
        self._misconfiguration = ""
        self._paused_until = 0.0

    @property
    def is_shut(self) -> bool:
        """Whether a breaker keeps calls away now."""
        return self._health.breaker.is_open or self._configuration.is_open

    def describe(self) -> str:
        """Provider, model and host, what was learnt of them, and why they are not asked now; no key."""
        line = f"{self._endpoint.place} ({self._health.learnt.form.structure})"
        return f"{line}, {self._why_shut()}" if self.is_shut else line

    def check(self, until: float) -> None:
        """Lets a call on that may be made before `until`, monotonic seconds.

        Raises:
            CallFailure: it may not.
        """
        if self.is_shut:
            raise self._shut_failure()
        now = time.monotonic()
        if self._paused_until > max(now, until):
            raise CallFailure(
                FailureReason.RATE_LIMITED,
                f"{self._endpoint.host} asked to be left alone for {self._paused_until - now:.0f} seconds more",
            )

    @property
    def pause_seconds(self) -> float:
        """How long the provider wants to be left alone yet."""
        return max(0.0, self._paused_until - time.monotonic())

    @asynccontextmanager
    async def watch(self, until: float) -> AsyncIterator[None]:
        """Around one call: learns from what becomes of it.

        Raises:
            CallFailure: a breaker has opened in the meantime, or its probe is under way.
        """
        transport, configuration = self._admit()
        started = time.monotonic()
        try:
            yield
        except CallFailure as failure:
            self._learn(failure, transport, configuration)
            raise
        except BaseException:
            self._configuration.withdrawn(configuration)
            now = time.monotonic()
            if now >= until - _CLOCK_SLACK_SECONDS and now - started >= _FAIR_SECONDS:
                self._fail_transport(transport, "no answer in time")
            else:
                self._health.breaker.withdrawn(transport)
            raise
        self._health.breaker.succeeded(transport)
        self._configuration.succeeded(configuration)

    def _admit(self) -> tuple[Permit, Permit]:
        transport = self._health.breaker.admit()
        if transport is None:
            raise self._shut_failure()
        configuration = self._configuration.admit()
        if configuration is None:
            self._health.breaker.withdrawn(transport)
            raise self._shut_failure()
        return transport, configuration

    def _learn(self, failure: CallFailure, transport: Permit, configuration: Permit) -> None:
        if failure.is_throttle:
            pause = min(failure.wait_seconds or self._unasked_pause_seconds, _LONGEST_PAUSE_SECONDS)
            self._paused_until = max(self._paused_until, time.monotonic() + pause)
        if failure.blame is Blame.TRANSPORT:
            self._configuration.withdrawn(configuration)
            self._fail_transport(transport, failure.detail)
            return
        self._health.breaker.succeeded(transport)
        if failure.blame is Blame.NOTHING:
            self._configuration.succeeded(configuration)
        elif self._configuration.failed(configuration):
            self._misconfiguration = failure.detail
            self._log_shut()

    def _fail_transport(self, permit: Permit, detail: str) -> None:
        if self._health.breaker.failed(permit):
            self._health.trouble = detail
            self._log_shut()

    def _log_shut(self) -> None:
        # Not why: that may be in the provider's own words.
        structlog.get_logger().warning("judge_shut", endpoint=self._endpoint.place)

    def _shut_failure(self) -> CallFailure:
        return CallFailure(FailureReason.CIRCUIT_OPEN, f"{self._endpoint.host} is {self._why_shut()}")

    def _why_shut(self) -> str:
        if self._configuration.is_open:
            return f"not asked for {self._configuration.seconds_left:.0f} seconds: {self._misconfiguration}"
        return f"not asked for {self._health.breaker.seconds_left:.0f} seconds: {self._health.trouble}"
