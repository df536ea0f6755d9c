"""Vectors kept beyond the process, in whatever keeps bytes by key."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from plumbline.models.encoder.vector_cache import HalfVectors

_LITTLE_ENDIAN = np.dtype("<f2")


class VectorStore(Protocol):
    """Bytes by key; what goes wrong with it does not raise, it finds nothing."""

    async def get_many(self, keys: Sequence[str]) -> dict[str, bytes]:
        """The values that are there."""
        ...

    async def put_many(self, values: Mapping[str, bytes]) -> None:
        """Keeps the values, if that can be done."""
        ...


class StoredVectors:
    """Vectors as bytes in a store: the length of one in four bytes, then all of them."""

    def __init__(self, store: VectorStore) -> None:
        self._store = store
        self._writing: set[asyncio.Task[None]] = set()

    async def get(self, keys: Sequence[bytes]) -> dict[bytes, HalfVectors]:
        """Those of the keys that are kept."""
        if not keys:
            return {}
        found = await self._store.get_many([key.hex() for key in keys])
        return {bytes.fromhex(key): _read(value) for key, value in found.items()}

    def keep(self, vectors: Mapping[bytes, HalfVectors]) -> None:
        """Has them written; nobody waits for it."""
        if vectors:
            values = {key.hex(): _written(each) for key, each in vectors.items()}
            task = asyncio.get_running_loop().create_task(self._store.put_many(values))
            self._writing.add(task)
            task.add_done_callback(self._writing.discard)


def _written(vectors: HalfVectors) -> bytes:
    numbers = bytes(vectors.astype(_LITTLE_ENDIAN))
    return int(vectors.shape[1]).to_bytes(4, "little") + numbers


def _read(value: bytes) -> HalfVectors:
    return np.frombuffer(value, dtype=_LITTLE_ENDIAN, offset=4).reshape(-1, int.from_bytes(value[:4], "little"))
