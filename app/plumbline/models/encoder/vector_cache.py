"""Cache of text vectors: in memory, bounded in bytes, least recently used first; and in a store beyond the process."""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

HalfVectors = NDArray[np.float16]

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


_LITTLE_ENDIAN = np.dtype("<f2")


class VectorStore(Protocol):
    """Bytes by key; errors are misses."""

    async def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        """Return the values that are there."""
        ...

    async def put_many(self, values: Mapping[str, bytes]) -> None:
        """Store the values, if possible."""
        ...


class StoredVectors:
    """Vectors as bytes in a store: the length of one in four bytes, then all of them."""

    def __init__(self, store: VectorStore) -> None:
        self._store = store
        self._writing: set[asyncio.Task[None]] = set()

    async def get(self, keys: Sequence[bytes]) -> dict[bytes, HalfVectors]:
        """Return the stored vectors of the keys."""
        if not keys:
            return {}
        found = await self._store.get_many([key.hex() for key in keys])
        return {bytes.fromhex(key): _read(value) for key, value in found.items()}

    def keep(self, vectors: Mapping[bytes, HalfVectors]) -> None:
        """Store vectors in the background."""
        if vectors:
            values = {
                key.hex(): int(each.shape[1]).to_bytes(4, "little") + bytes(each.astype(_LITTLE_ENDIAN))
                for key, each in vectors.items()
            }
            task = asyncio.get_running_loop().create_task(self._store.put_many(values))
            self._writing.add(task)
            task.add_done_callback(self._writing.discard)


def _read(value: bytes) -> HalfVectors:
    return np.frombuffer(value, dtype=_LITTLE_ENDIAN, offset=4).reshape(-1, int.from_bytes(value[:4], "little"))
