"""Identity of a request: a random mark that its reply repeats, and ids that count from a random number.

A reply with another mark answers another request. Without a mark its ids tell; ids that a model renumbers are read only
in a reply with the mark.
"""

import re
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, Self, TypeVar

# With them the first ids are 1,000 to 9,999.
_BASES: Final = range(1_000, 9_999)
_NUMBERED: Final = ("id", "sentence")
# Ids that no request of ours hands out, as 1 to n, are a model's own numbers and tell nothing about their request.
_NAMED_ID: Final = re.compile(
    r"""["'](?:id|claim_id|context|context_ids?|reference|answered_by|stated_by)["']\s*+:\s*+(?:\[\s*+)?["']?"""
    r"""[^"'0-9\]}]{0,12}([0-9]{4,6})(?![0-9])"""
)
_ANY_MARK: Final = re.compile(r"""(?:["']mark["']\s*+:\s*+["']|<mark>)[0-9a-f]{8}(?![0-9a-z])""", re.IGNORECASE)
_ID_AS_NAME: Final = re.compile(r"""["'][^"'0-9]{0,12}([0-9]{4,6})(?:\.[0-9]{1,6})?[^"'0-9]{0,2}["']\s*+:""")

IdT = TypeVar("IdT", bound=int | str)


@dataclass(frozen=True, slots=True)
class Numbering:
    """Translation between our numbers of sentences, contexts and claims and the ids that one request shows.

    Args:
        base: is added to each number; 0 shows our own.
        shown: all ids of the request, without what follows a dot; empty for a request whose reply is not checked.
        mark: of the request, in lower case; empty for a request without one.
    """

    base: int = 0
    shown: frozenset[int] = frozenset()
    mark: str = ""

    @classmethod
    def draw(cls, mark: str, items: Iterable[Mapping[str, Any]]) -> Self:
        """Return the numbering of a request with this mark and these numbered items."""
        base = _BASES[zlib.crc32(mark.encode()) % len(_BASES)]
        plain = cls(base)
        ids = (str(plain.shown_id(item[name])) for item in items for name in _NUMBERED if name in item)
        return cls(base, frozenset(int(each.partition(".")[0]) for each in ids), mark)

    def shown_id(self, number: int | str) -> int | str:
        """Return the id that stands for our number, or for our id of a claim, which begins with that of its sentence.

        An id without a number is its own.
        """
        if isinstance(number, int):
            return self.base + number
        index, dot, place = number.partition(".")
        # Ours count from 0.
        return f"{self.base + int(index) + 1}{dot}{place}" if self.base and index.isdecimal() else number

    def show(self, item: Mapping[str, Any]) -> dict[str, Any]:
        """Return an item of the data with its ids."""
        return {**item, **{name: self.shown_id(item[name]) for name in _NUMBERED if name in item}}

    def number(self, shown_id: int) -> int:
        """Return our number for an id; 0 for one that the request does not show."""
        return shown_id - self.base if not self.shown or shown_id in self.shown else 0

    def ours_by_shown(self, wanted: Sequence[IdT], said: Collection[str], content: str) -> dict[str, IdT]:
        """Return the wanted numbers or ids of ours, in the order of the request, by the ids that a reply has (`said`).

        Beside the mark these may count from 0 or 1 if they leave none out: then none can be shifted.
        """
        for first in (0, 1):
            counted = {str(count): each for count, each in enumerate(wanted, start=first)}
            if said == counted.keys() and self.is_marked(content):
                return counted
        return {str(self.shown_id(each)): each for each in wanted}

    def is_marked(self, content: str) -> bool:
        """Return True for a reply that repeats the mark, which no other request's reply can know."""
        return bool(self.mark) and self.mark in content.lower()

    def is_foreign(self, content: str) -> bool:
        """Return True for a reply with another mark, or without any in which most ids are of another request."""
        if not self.shown or self.is_marked(content):
            return False
        if self.mark and _ANY_MARK.search(content):
            return True
        said = [int(found[1]) for found in chain(_NAMED_ID.finditer(content), _ID_AS_NAME.finditer(content))]
        return len(said) > 2 * sum(each in self.shown for each in said)


OURS: Final = Numbering()
