"""Store of verdicts in memory, bounded in bytes; it ends with the process."""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from plumbline.judging.ports.observation import Readiness, State

# What an entry takes besides its value.
_FRAME_BYTES: Final = 256


class MemoryVerdictStore:
    """Store of bytes by key.

    Args:
        max_bytes: the entries used longest ago go first; one of more than a quarter of it is not stored.
        ttl_seconds: age from which an entry is not returned any more; reading it does not renew it.
        clock: seconds from any point.
    """

    def __init__(self, *, max_bytes: int, ttl_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_bytes = max_bytes
        self._ttl_seconds = ttl_seconds
        self._clock = clock
        self._bytes = 0
        self._entries: OrderedDict[str, tuple[float, bytes]] = OrderedDict()

    async def get(self, key: str) -> bytes | None:
        """Return the value; None if it is missing or too old."""
        stored, value = self._entries.get(key, (0.0, None))
        if value is None:
            return None
        if self._clock() - stored >= self._ttl_seconds:
            self._drop(key)
            return None
        self._entries.move_to_end(key)
        return value

    async def put(self, key: str, value: bytes) -> None:
        """Store the value, in place of others if there is no room."""
        if len(value) > self._max_bytes // 4:
            return
        self._drop(key)
        self._entries[key] = (self._clock(), value)
        self._bytes += len(value) + _FRAME_BYTES
        while self._bytes > self._max_bytes:
            self._drop(next(iter(self._entries)))

    def readiness(self) -> Readiness:
        """Return the bounds."""
        return Readiness(State.READY, f"in memory, {self._max_bytes} bytes, {self._ttl_seconds:g} s")

    async def close(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self._bytes = 0

    def _drop(self, key: str) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._bytes -= len(entry[1]) + _FRAME_BYTES
