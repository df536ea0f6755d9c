"""Admission by work: one queue in front of the processors, which refuses what would end past its deadline."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from heapq import heappop, heappush
from typing import Final, NamedTuple

from plumbline.ground.errors import TooBusy
from plumbline.ground.texts import CodedText

# Part of a deadline that the estimated wait and work may take: the estimate is a mean.
_DEADLINE_SHARE: Final = 0.7
# Busy seconds after which an observation weighs half, and the weight of the first guess.
_HALF_LIFE_SECONDS: Final = 5.0
_GUESS_SECONDS: Final = 0.25


class _Turn(NamedTuple):
    """A waiting sample. Turns come by `tag`, the work of its caller up to its end, so that callers share fairly."""

    tag: float
    number: int
    characters: int
    starts: "asyncio.Future[None]"


def find_lateness(estimate: float, *, deadline: float) -> TooBusy | None:
    """Return the error of work that is estimated to take too much of its deadline, both in seconds; None in time."""
    if estimate <= _DEADLINE_SHARE * deadline:
        return None
    wait = max(1.0, estimate - _DEADLINE_SHARE * deadline)
    return TooBusy(CodedText("work_waiting", seconds=estimate, deadline=deadline), retry_after_seconds=wait)


class WorkQueue:
    """Queue of samples that one kind of processor works on, measured in characters.

    Callers take turns by work (start-time fair queuing, Goyal et al. 1996); one caller's samples keep their order.

    `refused`, `estimated_seconds` and `taken_seconds` are counts for metrics: of the admitted samples with a deadline,
    the wait and work that were estimated at admission, and what they took.

    Args:
        limit: samples that are worked on at a time.
        characters_per_second: first guess of the rate; the measured one replaces it.
    """

    def __init__(
        self, *, limit: int, characters_per_second: float, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.refused = 0
        self.estimated_seconds = 0.0
        self.taken_seconds = 0.0
        self._limit = limit
        self._monotonic = monotonic
        self._busy_seconds, self._done = _GUESS_SECONDS, _GUESS_SECONDS * characters_per_second
        self._measured_at = monotonic()
        self._waiting: list[_Turn] = []
        self._running: Counter[int] = Counter()
        self._last_tags: dict[str, float] = {}
        self._served = 0.0
        self._number = 0

    @property
    def characters_per_second(self) -> float:
        return self._done / self._busy_seconds

    def waiting_characters(self) -> int:
        """Return the characters of all samples that wait or are worked on."""
        return sum(turn.characters for turn in self._waiting) + sum(self._running.values())

    @asynccontextmanager
    async def turn(self, caller: str, characters: int, *, seconds: float | None) -> AsyncGenerator[float, None]:
        """Wait for the sample's turn, and yield the seconds waited; the turn ends with the block.

        `seconds`: deadline of the sample, its wait included; None: it waits as long as it takes.

        Raises TooBusy at once if the wait and the work would take more than most of the deadline.
        """
        asked = self._monotonic()
        tag = max(self._served, self._last_tags.get(caller, 0.0)) + characters
        if seconds is not None:
            self._check(tag, characters, seconds)
        self._number += 1
        turn = _Turn(tag, self._number, characters, asyncio.get_running_loop().create_future())
        self._last_tags[caller] = tag
        heappush(self._waiting, turn)
        self._start_next()
        try:
            await turn.starts
            yield self._monotonic() - asked
        finally:
            if turn.starts.done() and not turn.starts.cancelled():
                self._end(turn)
            if seconds is not None:
                self.taken_seconds += self._monotonic() - asked

    def _check(self, tag: float, characters: int, seconds: float) -> None:
        ahead = sum(turn.characters for turn in self._waiting if turn.tag <= tag) + sum(self._running.values())
        estimate = (ahead + characters) / self.characters_per_second
        # An idle queue takes whatever comes: its rate may be a guess.
        if ahead and (error := find_lateness(estimate, deadline=seconds)) is not None:
            self.refused += 1
            raise error
        self.estimated_seconds += estimate

    def _start_next(self) -> None:
        while self._waiting and len(self._running) < self._limit:
            turn = heappop(self._waiting)
            if turn.starts.cancelled():
                continue
            self._measure(0)
            self._served = turn.tag - turn.characters
            self._running[turn.number] = turn.characters
            turn.starts.set_result(None)

    def _end(self, turn: _Turn) -> None:
        self._measure(turn.characters)
        del self._running[turn.number]
        self._start_next()
        if not self._running:
            self._last_tags.clear()

    def _measure(self, done: int) -> None:
        now = self._monotonic()
        passed = now - self._measured_at if self._running else 0.0
        self._measured_at = now
        kept = 0.5 ** (passed / _HALF_LIFE_SECONDS)
        self._busy_seconds = self._busy_seconds * kept + passed
        self._done = self._done * kept + done
