"""What the encoder asks of a model, whatever runs it; and how texts side by side are found to do it no harm."""

from collections.abc import Callable
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from plumbline.models.encoder.packing import PackedBatch, forward_in_rows
from plumbline.models.encoder.text_reader import TextReader

Precision = Literal["fp32", "bf16"]

# Texts of several lengths, for what a model makes of them alone and side by side.
PROBE = ("warm", "The bridge was opened in 1931.", "Two railway tracks cross the river, and so do 9,000 people a day.")
# fp32 differs by 1e-6 between two ways to add the same numbers; a model that mixes neighbours up, by far more.
_MOST_DRIFT = 1e-3


class TokenModel(Protocol):
    """A loaded model. `forward` may be called by several threads at once."""

    @property
    def reader(self) -> TextReader: ...

    @property
    def backend(self) -> str:
        """What runs it, in a word or two."""
        ...

    @property
    def digest(self) -> str:
        """Of its weights; another model has another."""
        ...

    @property
    def supports_packing(self) -> bool:
        """Several texts may lie in one row; otherwise each has a row of its own."""
        ...

    def forward(self, batch: PackedBatch) -> NDArray[np.float32]:
        """Vectors of length 1 for all tokens, shape (rows, length, d); those of padding mean nothing."""
        ...


def is_same_side_by_side(
    texts: list[list[int]],
    alone: Callable[[list[int]], NDArray[np.float32]],
    forward: Callable[[PackedBatch], NDArray[np.float32]],
) -> bool:
    """Whether texts in one row have the vectors that each has alone; a model that refuses such rows does not.

    Args:
        texts: a few, as tokens.
        alone: the vectors of one text's tokens, shape (tokens, d).
        forward: as a `TokenModel` does it.
    """
    try:
        together = forward_in_rows(texts, forward, budget=128, shares=True)
    except (TypeError, ValueError, RuntimeError, IndexError):
        return False
    return all(bool(np.abs(one - alone(text)).max() <= _MOST_DRIFT) for text, one in zip(texts, together, strict=True))
