"""Vectors of texts that were encoded before, in memory, bounded in bytes: the least recently used go first."""

import hashlib
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

HalfVectors = NDArray[np.float16]

# Beside the numbers: the key, the array around them, their place in the table.
_OVERHEAD_BYTES = 300


class VectorCache:
    """Not safe for several threads; who shares it holds a lock.

    Args:
        max_bytes: 0 keeps nothing.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._kept: OrderedDict[bytes, HalfVectors] = OrderedDict()
        self.bytes = 0

    def __contains__(self, key: bytes) -> bool:
        return key in self._kept

    def get(self, key: bytes) -> HalfVectors | None:
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def put(self, key: bytes, vectors: HalfVectors) -> None:
        """Keeps them, unless they alone are more than there may be."""
        size = vectors.nbytes + _OVERHEAD_BYTES
        if size > self._max_bytes or key in self._kept:
            return
        self._kept[key] = vectors
        self.bytes += size
        while self.bytes > self._max_bytes:
            _, gone = self._kept.popitem(last=False)
            self.bytes -= gone.nbytes + _OVERHEAD_BYTES


def key_of(tokens: Sequence[int], scope: bytes) -> bytes:
    """The same for the same tokens and scope alone: what one caller had encoded is not sooner there for another.

    Args:
        tokens: of one text.
        scope: whose it is; at most 64 bytes.
    """
    return hashlib.blake2b(np.array(tokens, dtype=np.int32).tobytes(), digest_size=16, key=scope).digest()
