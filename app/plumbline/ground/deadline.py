"""Deadlines of long work in one thread; it needs no event loop, which takes a tenth of a second to import."""

import math
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, TypeVar

from plumbline.ground.errors import FailureReason, TierFailure
from plumbline.ground.texts import CodedText

T = TypeVar("T")


@dataclass(slots=True)
class _Deadline:
    until: float = math.inf


_DEADLINE: Final = ContextVar("work_deadline", default=_Deadline())  # noqa: B039 - the default is never changed


@contextmanager
def work_deadline(until: float) -> Iterator[None]:
    """Bound all work of this context, threads included, by a monotonic second; an earlier bound around it stays.

    A thread that still works when the block is left, as when its request is cancelled, is past its deadline.
    """
    deadline = _Deadline(min(until, _DEADLINE.get().until))
    token = _DEADLINE.set(deadline)
    try:
        yield
    finally:
        _DEADLINE.reset(token)
        deadline.until = -math.inf


def within_deadline(pieces: Iterable[T]) -> Iterator[T]:
    """Yield the pieces of a long work; raise TierFailure `timeout` before the first one past the deadline."""
    deadline = _DEADLINE.get()
    for piece in pieces:
        if time.monotonic() > deadline.until:
            raise TierFailure(FailureReason.TIMEOUT, CodedText("texts_timed_out"))
        yield piece
