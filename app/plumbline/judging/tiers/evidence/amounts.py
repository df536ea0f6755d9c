"""What a claim states and what a passage states, as values."""

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Literal

from plumbline.judging.tiers.evidence.dates import Date
from plumbline.judging.tiers.evidence.units import Unit

# Amounts that are combined with each other; more than these make any number.
MAX_OPERANDS = 40
Hedge = Literal["", "about", "over", "under"]


@dataclass(frozen=True, slots=True)
class Quantity:
    """An amount as a claim states it. `step` is the unit of its last written digit, its precision.

    `is_year`: it is written as years are.
    `others` are amounts that it may mean instead, all of them together: 1 and 200 for "1 200".
    """

    value: float
    unit: Unit | None
    step: float
    hedge: Hedge = ""
    others: tuple[float, ...] = ()
    is_year: bool = False
    is_century: bool = False
    is_decade: bool = False


class Facts:
    """What a passage states: amounts with their units, dates, times of day (minutes on a dial), and how many items its
    longest enumeration may have.
    """

    def __init__(
        self, amounts: Iterable[tuple[float, Unit | None]], dates: Sequence[Date], times: frozenset[int], items: int
    ) -> None:
        by_unit: dict[Unit | None, set[float]] = {}
        for value, unit in amounts:
            by_unit.setdefault(unit, set()).add(value)
        self._by_unit = {unit: sorted(values) for unit, values in by_unit.items()}
        self.values = frozenset[float]().union(*by_unit.values())
        self._dates = {(date.year, date.month, date.day) for date in dates}
        self._told: dict[tuple[bool, ...], set[tuple[int | None, ...]]] = {}
        self.times = times
        self.items = items

    @property
    def units(self) -> Collection[Unit | None]:
        """The units of the amounts, None for those without one."""
        return self._by_unit.keys()

    def within(self, unit: Unit | None, low: float, high: float) -> Sequence[float]:
        """The amounts of a unit within these bounds, both included, ascending."""
        values = self._by_unit.get(unit, [])
        return values[bisect_left(values, low) : bisect_right(values, high)]

    @cached_property
    def smallest(self) -> Sequence[float]:
        """The least of the values, ascending, as many as are combined with each other."""
        return heapq.nsmallest(MAX_OPERANDS, self.values)

    def has_date(self, date: Date) -> bool:
        """Whether some date here agrees with it, as `Date.agrees_with` says."""
        parts = (date.year, date.month, date.day)
        told = tuple(part is not None for part in parts)
        if told not in self._told:
            self._told[told] = {_only(other, told) for other in self._dates}
        # Of the parts that it tells, each that the other tells too is the same, and there is one.
        alike = product(*((part, None) for part in _only(parts, told)))
        return any(other in self._told[told] for other in alike if any(part is not None for part in other))


def _only(parts: Iterable[int | None], told: tuple[bool, ...]) -> tuple[int | None, ...]:
    return tuple(part for part, is_told in zip(parts, told, strict=True) if is_told)


@dataclass(frozen=True, slots=True)
class Stated:
    """What a claim states and is held to."""

    quantities: tuple[Quantity, ...]
    dates: tuple[Date, ...]
    times: tuple[int, ...]

    def __bool__(self) -> bool:
        return bool(self.quantities or self.dates or self.times)
