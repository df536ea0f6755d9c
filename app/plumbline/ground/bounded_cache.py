"""Cache in memory, bounded in bytes; the entries used longest ago go first."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """LRU cache. Not thread-safe: callers hold a lock.

    Args:
        max_bytes: of all entries together; 0 keeps none. A larger entry is not kept.
        size: returns the bytes that a value takes, with what is around it.
    """

    def __init__(self, max_bytes: int, size: Callable[[V], int]) -> None:
        self._max_bytes = max_bytes
        self._size = size
        self._entries: OrderedDict[K, V] = OrderedDict()
        self.bytes = 0

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def get(self, key: K) -> V | None:
        found = self._entries.get(key)
        if found is not None:
            self._entries.move_to_end(key)
        return found

    def put(self, key: K, value: V) -> None:
        size = self._size(value)
        if size > self._max_bytes:
            return
        self.drop(key)
        self._entries[key] = value
        self.bytes += size
        while self.bytes > self._max_bytes:
            self.drop(next(iter(self._entries)))

    def drop(self, key: K) -> None:
        if (gone := self._entries.pop(key, None)) is not None:
            self.bytes -= self._size(gone)
