"""One exchange with a sentence encoder: texts as it reads them, and what it makes of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Reading:
    """Texts cut into a model's tokens, once for all that is asked of them.

    `tokens[i]` are the ids of text i with the model's special tokens, cut to what it reads; `unknown[i]` of `counts[i]`
    tokens (special ones apart, before the cut) are not in its vocabulary; `is_overlong[i]`: the cut took something.
    """

    tokens: Sequence[Sequence[int]]
    counts: Sequence[int]
    unknown: Sequence[int]
    is_overlong: Sequence[bool]

    def pick(self, rows: Sequence[int]) -> "Reading":
        """The reading of some of the texts, in the order of `rows`."""
        return Reading(
            [self.tokens[row] for row in rows],
            [self.counts[row] for row in rows],
            [self.unknown[row] for row in rows],
            [self.is_overlong[row] for row in rows],
        )

    def unknown_share(self, rows: Sequence[int]) -> float:
        """Share of the tokens of these texts that the model does not know, in [0, 1]; 0 without tokens."""
        total = sum(self.counts[row] for row in rows)
        return sum(self.unknown[row] for row in rows) / total if total else 0.0


@dataclass(frozen=True, slots=True)
class TokenVectors:
    """A vector for each token of each text, special tokens left out; no text is without any.

    `vectors`: shape (t, d), float32, rows of length 1; those of text i are `vectors[bounds[i] : bounds[i + 1]]`;
    `bounds`: shape (n + 1,).
    """

    vectors: NDArray[np.float32]
    bounds: NDArray[np.int64]
