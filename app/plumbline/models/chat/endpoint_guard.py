"""Circuit breakers of an endpoint, and the pauses that its provider asks for."""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field

import structlog

from plumbline.ground.errors import FailureReason
from plumbline.ground.texts import CodedText
from plumbline.models.chat.call_failures import Blame, CallFailure
from plumbline.models.chat.endpoints import CHAT_PATH, Endpoint, Provider
from plumbline.models.chat.request_forms import LearntForm


@dataclass(eq=False)
class Breaker:
    """Circuit breaker: closed, open, or half open with one probe in flight.

    It opens for `first_seconds` after `threshold` failures in a row, and twice as long for each probe that fails, up to
    `longest_seconds`. Calls that were let through before it last changed do not change it.
    """

    _: KW_ONLY
    threshold: int
    first_seconds: float
    longest_seconds: float
    clock: Callable[[], float] = time.monotonic
    _failures: int = field(default=0, init=False)
    _era: int = field(default=0, init=False)
    _open_seconds: float = field(default=0.0, init=False)
    _open_until: float = field(default=0.0, init=False)
    _is_probing: bool = field(default=False, init=False)

    @property
    def is_open(self) -> bool:
        return self._open_seconds > 0 and (self._is_probing or self.clock() < self._open_until)

    @property
    def seconds_left(self) -> float:
        return max(0.0, self._open_until - self.clock()) if self._open_seconds > 0 else 0.0

    def admit(self) -> int | None:
        """Return the era of one call, for `end`; None while the breaker is open or another call is its probe."""
        if self.is_open:
            return None
        self._is_probing = self._open_seconds > 0
        return self._era

    def end(self, era: int, *, answered: bool | None) -> bool:
        """Record how a call ended, None without evidence about the endpoint; return True if that opened the breaker."""
        if era != self._era:
            return False
        if answered is None:
            # The next call may be the probe.
            self._is_probing = False
            return False
        self._failures = 0 if answered else self._failures + 1
        # In the era of an open breaker there is one call, its probe.
        if self._open_seconds > 0:
            self._change(open_seconds=0.0 if answered else min(self.longest_seconds, self._open_seconds * 2))
        elif self._failures >= self.threshold:
            self._change(open_seconds=self.first_seconds)
        else:
            return False
        return not answered

    def _change(self, *, open_seconds: float) -> None:
        self._era += 1
        self._failures = 0
        self._is_probing = False
        self._open_seconds = open_seconds
        self._open_until = self.clock() + open_seconds


# A provider that asks for a pause of a day is called again after this: quotas are often raised in between.
_LONGEST_PAUSE_SECONDS = 300.0
# A deadline that left less than this says nothing of the endpoint: a hurried caller must not shut it for others.
_FAIR_SECONDS = 1.0
_CLOCK_SLACK_SECONDS = 0.02
# A wrong key, model or account is tried again after this.
_MISCONFIGURED_SECONDS = 300.0
# What a failure says of the model at its address: it answers or not; None: nothing.
_ANSWERED: Mapping[Blame, bool | None] = {
    Blame.KEPT_CONNECTION: None,
    Blame.TRANSPORT: False,
    Blame.NOTHING: True,
    Blame.CONFIGURATION: True,
}


class ModelHealth:
    """Shared state of a model at an address, for all keys."""

    def __init__(self, provider: Provider) -> None:
        self.learnt = LearntForm(provider)
        self.breaker = Breaker(threshold=5, first_seconds=10.0, longest_seconds=300.0)
        self.trouble = ""


class EndpointGuard:
    """Rejects calls to an endpoint that fails, is misconfigured, or asked for a pause.

    Illness is the model's at its address. A wrong key, model or account is this endpoint's alone, and shuts it after
    the first call: otherwise every sample would pay for it. After too many calls it is left alone for
    `unasked_pause_seconds` when it names no time.
    """

    def __init__(self, endpoint: Endpoint, health: ModelHealth, *, unasked_pause_seconds: float) -> None:
        self._endpoint = endpoint
        self._unasked_pause_seconds = unasked_pause_seconds
        self._health = health
        self._misconfiguration = ""
        self._misconfigured_until = self._paused_until = 0.0
        self._throttled_at = self._answered_at = -math.inf

    @property
    def is_shut(self) -> bool:
        """Return True if a breaker rejects calls now."""
        return self._health.breaker.is_open or self._is_misconfigured

    def describe(self) -> str:
        """Describe provider, model, host, reply format and the reason of an open breaker; without the key."""
        learnt, line = self._health.learnt, self._endpoint.place
        if self._endpoint.path == CHAT_PATH:
            kind = self._endpoint.api or learnt.api or "chat"
            line = f"{line} ({learnt.form.structure if kind == 'chat' else kind})"
        seconds, trouble = self._trouble()
        return f"{line}, not asked for {seconds:.0f} seconds: {trouble}" if self.is_shut else line

    def check(self, until: float) -> None:
        """Raise CallFailure if no call may be made before `until`, monotonic seconds."""
        if self.is_shut:
            raise self._shut_failure()
        now = time.monotonic()
        if self._paused_until > max(now, until):
            left = self._paused_until - now
            text = CodedText("host_asked_to_wait", host=self._endpoint.host, seconds=left)
            raise CallFailure(FailureReason.RATE_LIMITED, text, wait_seconds=left, is_throttle=True)

    def has_answered_within(self, seconds: float) -> bool:
        return time.monotonic() - self._answered_at < seconds

    def has_throttled_since(self, moment: float) -> bool:
        return self._throttled_at >= moment

    @property
    def pause_seconds(self) -> float:
        """Return the remaining seconds of the pause that the provider asked for."""
        return max(0.0, self._paused_until - time.monotonic())

    @contextmanager
    def watch(self, until: float) -> Iterator[None]:
        """Watch one call and record its outcome; raise CallFailure if a breaker opened or its probe is under way."""
        era = None if self._is_misconfigured else self._health.breaker.admit()
        if era is None:
            raise self._shut_failure()
        started = time.monotonic()
        try:
            yield
        except CallFailure as failure:
            if failure.is_throttle:
                self._throttled_at = time.monotonic()
                pause = min(failure.wait_seconds or self._unasked_pause_seconds, _LONGEST_PAUSE_SECONDS)
                self._paused_until = max(self._paused_until, time.monotonic() + pause)
            if failure.blame is Blame.CONFIGURATION and not self._is_misconfigured:
                self._misconfigured_until = time.monotonic() + _MISCONFIGURED_SECONDS
                self._misconfiguration = failure.detail
                self._log_shut()
            self._end(era, failure.detail, answered=_ANSWERED[failure.blame])
            raise
        except BaseException:
            now = time.monotonic()
            is_late = now >= until - _CLOCK_SLACK_SECONDS and now - started >= _FAIR_SECONDS
            self._end(era, CodedText("no_answer_in_time"), answered=False if is_late else None)
            raise
        self._answered_at = time.monotonic()
        self._end(era, "", answered=True)

    @property
    def _is_misconfigured(self) -> bool:
        return time.monotonic() < self._misconfigured_until

    def _end(self, era: int, detail: str, *, answered: bool | None) -> None:
        if self._health.breaker.end(era, answered=answered):
            self._health.trouble = detail
            self._log_shut()

    def _log_shut(self) -> None:
        # Not why: that may be in the provider's own words.
        structlog.get_logger().warning("judge_shut", endpoint=self._endpoint.place)

    def _shut_failure(self) -> CallFailure:
        seconds, trouble = self._trouble()
        text = CodedText("host_not_asked", host=self._endpoint.host, seconds=seconds, reason=trouble)
        is_resting = not self._is_misconfigured
        return CallFailure(FailureReason.CIRCUIT_OPEN, text, wait_seconds=seconds, is_throttle=is_resting)

    def _trouble(self) -> tuple[float, str]:
        """Return the seconds for which the endpoint stays shut, and why."""
        if self._is_misconfigured:
            return self._misconfigured_until - time.monotonic(), self._misconfiguration
        return self._health.breaker.seconds_left, self._health.trouble
