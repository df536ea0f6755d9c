"""Retries: which failures, how many attempts, how long a wait."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from plumbline.client.failures import AnswerCut, Busy, ClientError, NotReached, TimedOut

_PASSING = (NotReached, TimedOut, AnswerCut, Busy)


@dataclass(frozen=True, slots=True)
class Retries:
    """Retries of temporary failures: no connection, a cut answer, a timeout, and 408, 429, 502, 503, 504.

    Args:
        attempts: of one request at most, the first one counted; for many samples since the last one that was answered.
        backoff_seconds: longest wait before the second attempt; it doubles for each further one.
        longest_backoff_seconds: where the doubling ends.
        longest_retry_after_seconds: bound on a Retry-After that is waited for.
        total_wait_seconds: all waits of one request together. After a longer Retry-After there is no retry: a key that
            has spent its budget of the day has none for hours.
        jitter: draws a wait between 0 and its argument.
    """

    attempts: int = 5
    backoff_seconds: float = 0.5
    longest_backoff_seconds: float = 20.0
    longest_retry_after_seconds: float = 60.0
    total_wait_seconds: float = 180.0
    jitter: Callable[[float], float] = field(default=lambda longest: random.uniform(0.0, longest))  # noqa: S311


class RetryState:
    """The attempts and waits of one request so far."""

    def __init__(self, retries: Retries) -> None:
        self._retries = retries
        self._failures = 0
        self._waited = 0.0

    def renew(self) -> None:
        """Count from the start again: some of the work was done."""
        self._failures, self._waited = 0, 0.0

    def wait_after(self, failure: ClientError) -> float:
        """Return seconds to wait before the next attempt; raise the failure if it is not retried."""
        self._failures += 1
        if not isinstance(failure, _PASSING) or self._failures >= self._retries.attempts:
            raise failure
        asked = failure.retry_after or 0.0 if isinstance(failure, Busy) else 0.0
        within = min(asked, self._retries.longest_retry_after_seconds)
        backoff = self._retries.backoff_seconds * 2.0 ** (self._failures - 1)
        wait = within + self._retries.jitter(min(self._retries.longest_backoff_seconds, backoff))
        if self._waited + max(asked, wait) > self._retries.total_wait_seconds:
            raise failure
        self._waited += wait
        return wait

    async def sleep_after(self, failure: ClientError) -> None:
        """Wait before the next attempt; raises as `wait_after` does."""
        await asyncio.sleep(self.wait_after(failure))
