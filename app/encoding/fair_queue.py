"""Texts that wait for the model, of many callers, taken in turn: a long answer does not hold up short ones."""

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from app.encoding.rows import Place, RowFilling

if TYPE_CHECKING:
    from app.encoding.waiting import Waiting

# Of a caller's next texts, so many are tried for a gap that is left in a row.
_CANDIDATES = 24


@dataclass(slots=True, eq=False)
class Text:
    """A text under way: encoded once for all who wait for it."""

    key: bytes
    tokens: Sequence[int]
    waiting: "list[Waiting]" = field(default_factory=list)
    vectors: NDArray[np.float16] | None = None


class FairQueue:
    """Texts in lanes, one for each call; the model takes from all lanes in turn. Safe for several threads.

    Args:
        budget: tokens of one batch.
        shares_rows: see `TokenModel`.
    """

    def __init__(self, budget: int, *, shares_rows: bool) -> None:
        self._budget = budget
        self._shares_rows = shares_rows
        self._lanes: deque[list[Text]] = deque()
        self._change = threading.Condition()
        self._is_closed = False
        self.tokens = 0

    def put(self, texts: Sequence[Text]) -> None:
        """A lane of its own for these: the longest first, as they leave gaps for the others."""
        if not texts:
            return
        lane = sorted(texts, key=lambda text: -len(text.tokens))
        with self._change:
            self._lanes.append(lane)
            self.tokens += sum(len(text.tokens) for text in lane)
            self._change.notify_all()

    def take(self) -> tuple[list[Text], list[Place]] | None:
        """The texts of the next batch and their places; waits for some. None when the queue was closed."""
        with self._change:
            while not self._lanes and not self._is_closed:
                self._change.wait()
            if self._is_closed:
                return None
            taken, places = self._fill()
            self.tokens -= sum(len(text.tokens) for text in taken)
            return taken, places

    def drop_unwanted(self) -> list[Text]:
        """Takes out what nobody waits for any more, and gives it."""
        with self._change:
            unwanted = [text for lane in self._lanes for text in lane if not text.waiting]
            lanes = [[text for text in lane if text.waiting] for lane in self._lanes]
            self._lanes = deque(lane for lane in lanes if lane)
            self.tokens -= sum(len(text.tokens) for text in unwanted)
            return unwanted

    def close(self) -> list[Text]:
        """Ends every `take`; gives what was left."""
        with self._change:
            self._is_closed = True
            left = [text for lane in self._lanes for text in lane]
            self._lanes.clear()
            self.tokens = 0
            self._change.notify_all()
            return left

    def _fill(self) -> tuple[list[Text], list[Place]]:
        taken: list[Text] = []
        places: list[Place] = []
        filling = RowFilling(self._budget, shares=self._shares_rows, longest=len(self._lanes[0][0].tokens))
        # Lanes that still have something that fits; the one that begins now is the last one of the next batch.
        turns = deque(self._lanes)
        while turns:
            lane = turns.popleft()
            found = _next_fitting(lane, filling)
            if found is not None:
                text, place = found
                taken.append(text)
                places.append(place)
                if lane:
                    turns.append(lane)
        self._lanes.rotate(-1)
        self._lanes = deque(lane for lane in self._lanes if lane)
        return taken, places


def _next_fitting(lane: list[Text], filling: RowFilling) -> tuple[Text, Place] | None:
    for at, text in enumerate(lane[:_CANDIDATES]):
        length = len(text.tokens)
        found = filling.place(length)
        if found is not None:
            del lane[at]
            return text, Place(*found, length)
    return None
