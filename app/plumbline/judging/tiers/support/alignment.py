"""How well each word of a sentence, its neighbours in mind, finds a counterpart in the contexts: cosines of vectors.

BERTScore's precision (Zhang et al. 2020), with all contexts as the reference.
"""

import time
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from plumbline.ground.errors import FailureReason, TierFailure
from plumbline.judging.ports.token_vectors import TokenVectors

ALIGNMENT_MEASURES = ("alignment",)


# Tokens of sentences compared between two looks at the clock, and at a time in memory.
_BLOCK = 2_048


class Alignment:
    """The sentences of an answer against texts of the contexts, a few at a time, so that no vector is kept for long."""

    def __init__(self, sentences: TokenVectors) -> None:
        self._vectors = sentences.vectors
        self._bounds = sentences.bounds
        self._lengths = np.diff(sentences.bounds)
        self._best = np.full(len(sentences.vectors), -1.0, dtype=np.float32)
        self._means: list[NDArray[np.float32]] = []

    def add(self, contexts: TokenVectors, *, until: float) -> None:
        """Compares with more texts of the contexts, which follow those of before.

        Args:
            contexts: at least one text.
            until: monotonic time at which to give up.

        Raises:
            TierFailure: `timeout`.
        """
        means = np.empty((len(self._lengths), len(contexts.bounds) - 1), dtype=np.float32)
        for first, last in self._blocks():
            if time.monotonic() >= until:
                raise TierFailure(FailureReason.TIMEOUT, "the deadline passed before the sentences were compared")
            start, end = self._bounds[first], self._bounds[last]
            # A row for each token of the contexts: texts are then runs of whole rows, which numpy reduces at speed.
            cosines = contexts.vectors @ self._vectors[start:end].T
            by_text = np.maximum.reduceat(cosines, contexts.bounds[:-1], axis=0)
            np.maximum(self._best[start:end], by_text.max(axis=0), out=self._best[start:end])
            totals = np.add.reduceat(by_text, self._bounds[first:last] - start, axis=1)
            means[first:last] = totals.T / self._lengths[first:last, None]
        self._means.append(means)

    def shares(self) -> NDArray[np.float32]:
        """Shape (sentences,), in [-1, 1]: the mean of its tokens' best cosines with any token so far."""
        return np.asarray(np.add.reduceat(self._best, self._bounds[:-1]) / self._lengths, dtype=np.float32)

    def nearest(self) -> NDArray[np.intp]:
        """Shape (sentences,): the text that alone gives the sentence the highest mean, the first of equals."""
        return np.asarray(np.concatenate(self._means, axis=1).argmax(axis=1))

    def _blocks(self) -> Iterator[tuple[int, int]]:
        """Ranges of sentences of `_BLOCK` tokens at most, or of one sentence."""
        first = 0
        while first < len(self._lengths):
            fitting = int(np.searchsorted(self._bounds, self._bounds[first] + _BLOCK, side="right")) - 1
            last = max(first + 1, fitting)
            yield first, last
            first = last
