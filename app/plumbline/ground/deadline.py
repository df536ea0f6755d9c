"""The deadline of the work under way: what runs in a thread gives up between two pieces once it has passed."""

import math
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, TypeVar

from plumbline.ground.errors import FailureReason, TierFailure

T = TypeVar("T")

_UNTIL: Final = ContextVar("work_until", default=math.inf)


@contextmanager
def work_deadline(until: float) -> Iterator[None]:
    """Bound all work of this context, threads included, by a monotonic second; an earlier bound around it stays."""
    token = _UNTIL.set(min(until, _UNTIL.get()))
    try:
        yield
    finally:
        _UNTIL.reset(token)


def within_deadline(pieces: Iterable[T]) -> Iterator[T]:
    """Yield the pieces of a long work, looking at the deadline before each.

    Raises:
        TierFailure: `timeout`, the deadline has passed.
    """
    until = _UNTIL.get()
    for piece in pieces:
        if time.monotonic() > until:
            raise TierFailure(FailureReason.TIMEOUT, "the deadline passed while the texts were worked on")
        yield piece
