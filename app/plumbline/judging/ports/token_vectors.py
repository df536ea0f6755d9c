"""One exchange with a sentence encoder: texts as its tokens, and their vectors."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class TokenizedTexts:
    """Texts as a model's tokens, tokenized once for all uses.

    `tokens[i]` are the ids of text i with the model's special tokens, cut to what it reads; `unknown[i]` of `counts[i]`
    tokens (special ones apart, before the cut) are not in its vocabulary; `is_overlong[i]`: the cut took something.
    """

    tokens: Sequence[Sequence[int]]
    counts: Sequence[int]
    unknown: Sequence[int]
    is_overlong: Sequence[bool]

    def pick(self, rows: Sequence[int]) -> "TokenizedTexts":
        """Return some of the texts, in the order of `rows`."""
        return TokenizedTexts(
            [self.tokens[row] for row in rows],
            [self.counts[row] for row in rows],
            [self.unknown[row] for row in rows],
            [self.is_overlong[row] for row in rows],
        )

    def unknown_share(self, rows: Sequence[int]) -> float:
        """Return the share of these texts' tokens that the model does not know, in [0, 1]; 0 without tokens."""
        total = sum(self.counts[row] for row in rows)
        return sum(self.unknown[row] for row in rows) / total if total else 0.0


@dataclass(frozen=True, slots=True)
class TokenVectors:
    """One vector for each token of each text, special tokens left out; every text has at least one.

    `vectors`: shape (t, d), float32, rows of length 1; those of text i are `vectors[bounds[i] : bounds[i + 1]]`;
    `bounds`: shape (n + 1,).
    """

    vectors: NDArray[np.float32]
    bounds: NDArray[np.int64]

    def part(self, first: int, last: int) -> "TokenVectors":
        """Return those of the texts [first, last)."""
        start, end = self.bounds[first], self.bounds[last]
        return TokenVectors(self.vectors[start:end], self.bounds[first : last + 1] - start)


@dataclass(frozen=True, slots=True)
class EncoderCounts:
    """Counts of an encoder's work since its start, and its load now.

    `texts` encoded by the model and their `tokens`; `cache_hits`, `cache_misses` of texts asked for; `joined`: misses
    that waited for a text in flight; now: `queued_tokens`, `cache_bytes`.
    """

    texts: int = 0
    tokens: int = 0
    cache_hits: int = 0
    cache_misses: int = 0
    joined: int = 0
    queued_tokens: int = 0
    cache_bytes: int = 0
