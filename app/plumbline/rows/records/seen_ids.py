"""Which ids a file has had, in memory that has a bound."""

from array import array
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

_FIRST_SLOTS: Final = 1 << 10
# 128 MiB: 12.5 million ids
_MAX_SLOTS: Final = 1 << 24
_HASH_BYTES: Final = 8


class SeenIds:
    """A set of ids, kept as 64-bit hashes in an open table: at most 21 bytes an id, 128 MiB in all.

    Among 10^7 ids the chance that any two share a hash is 3 in a million (n^2 / 2^65). Past 12.5 million ids the first
    12.5 million stay known and no others are added.
    """

    def __init__(self, ids: Iterable[str] = (), *, max_slots: int = _MAX_SLOTS) -> None:
        self._max_slots = max_slots
        self._count = 0
        self._table = _empty(min(_FIRST_SLOTS, max_slots))
        for each in ids:
            self.add(each)

    def add(self, text: str) -> bool:
        """Whether the id was there already; it is now, where there is room."""
        # 0 marks a free slot
        key = int.from_bytes(blake2b(text.encode("utf-8"), digest_size=_HASH_BYTES).digest(), "little") or 1
        slot = _slot_of(key, self._table)
        if self._table[slot]:
            return True
        if 4 * (self._count + 1) <= 3 * len(self._table):
            self._table[slot] = key
            self._count += 1
        elif len(self._table) < self._max_slots:
            self._grow()
            self._table[_slot_of(key, self._table)] = key
            self._count += 1
        return False

    def _grow(self) -> None:
        table = _empty(2 * len(self._table))
        for key in self._table:
            if key:
                table[_slot_of(key, table)] = key
        self._table = table


def _empty(slots: int) -> "array[int]":
    return array("Q", [0]) * slots


def _slot_of(key: int, table: "array[int]") -> int:
    """Where the key stands, or the free slot where it would."""
    mask = len(table) - 1
    slot = key & mask
    while table[slot] and table[slot] != key:
        slot = (slot + 1) & mask
    return slot
