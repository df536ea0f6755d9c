"""Cache of text vectors in memory, bounded in bytes, least recently used first."""

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

HalfVectors = NDArray[np.float16]

# The bound of all processes of a service together; what it does not hold is encoded again.
CACHE_BYTES: Final = 2**28

# Beside the numbers: the key, the array around them, their place in the table.
_OVERHEAD_BYTES = 300


class VectorCache:
    """LRU cache of vectors; 0 bytes keep nothing. Not thread-safe: callers hold a lock."""

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
        """Add vectors, unless they alone exceed the bound."""
        size = vectors.nbytes + _OVERHEAD_BYTES
        if size > self._max_bytes or key in self._kept:
            return
        self._kept[key] = vectors
        self.bytes += size
        while self.bytes > self._max_bytes:
            _, gone = self._kept.popitem(last=False)
            self.bytes -= gone.nbytes + _OVERHEAD_BYTES


def make_key(tokens: Sequence[int], scope: bytes) -> bytes:
    """Return a key that is equal for equal tokens and scope only: callers cannot probe each other's texts by timing.

    `scope`: the owner, at most 64 bytes.
    """
    return hashlib.blake2b(np.array(tokens, dtype=np.int32).tobytes(), digest_size=16, key=scope).digest()
