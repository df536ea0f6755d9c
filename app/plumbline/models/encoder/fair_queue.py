"""Texts that wait for the model, of many callers, taken in turn: a long answer does not hold up short ones."""

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from plumbline.models.encoder.packing import RowSlot, places_in_rows
from plumbline.models.encoder.waiting import Waiter

# What a batch is chosen from: so many of a caller's next texts, some of its shortest, all of so many batches' tokens.
_CANDIDATES = 48
_SHORT = 4
_MOST_TRIED = 1.5


@dataclass(slots=True, eq=False)
class Text:
    """A text under way: encoded once for all who wait for it."""

    key: bytes
    tokens: Sequence[int]
    waiting: list[Waiter] = field(default_factory=list)
    vectors: NDArray[np.float16] | None = None


class FairQueue:
    """Texts in lanes, one for each call; the model takes from all lanes in turn. Safe for several threads.

    Args:
        budget: tokens of one batch.
        supports_packing: see `TokenModel`.
    """

    def __init__(self, budget: int, *, supports_packing: bool) -> None:
        self._budget = budget
        self._shares_rows = supports_packing
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

    def take(self) -> tuple[list[Text], list[RowSlot]] | None:
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

    def _fill(self) -> tuple[list[Text], list[RowSlot]]:
        candidates = self._candidates()
        lengths = [len(text.tokens) for text in candidates]
        found = places_in_rows(lengths, budget=self._budget, shares=self._shares_rows)
        taken = [(text, place) for text, place in zip(candidates, found, strict=True) if place]
        gone = {id(text) for text, _ in taken}
        # Whoever came first now is the last one of the next batch.
        self._lanes.rotate(-1)
        lanes = [[text for text in lane if id(text) not in gone] for lane in self._lanes]
        self._lanes = deque(lane for lane in lanes if lane)
        return [text for text, _ in taken], [place for _, place in taken]

    def _candidates(self) -> list[Text]:
        """Texts for the next batch, of every lane in turn: more than it holds, short ones last, for the gaps."""
        heads: list[Text] = []
        room = _MOST_TRIED * self._budget
        for turn in zip_longest(*(lane[:_CANDIDATES] for lane in self._lanes)):
            heads += [text for text in turn if text is not None]
            room -= sum(len(text.tokens) for text in turn if text is not None)
            if room <= 0:
                break
        known = {id(text) for text in heads}
        shortest = [text for lane in self._lanes for text in lane[-_SHORT:] if id(text) not in known]
        return heads + sorted(shortest[:_CANDIDATES], key=lambda text: -len(text.tokens))
