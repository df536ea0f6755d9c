"""What a claim states and what a passage states, as values."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from app.judges.evidence.dates import Date
from app.judges.evidence.units import Unit

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
        self.amounts = sorted(set(amounts), key=lambda amount: amount[0])
        self.values = frozenset(value for value, _ in self.amounts)
        self.with_unit = [(value, unit) for value, unit in self.amounts if unit is not None]
        self.dates = tuple(dates)
        self.times = times
        self.items = items

    def between(self, low: float, high: float) -> Sequence[tuple[float, Unit | None]]:
        """The amounts within these bounds, both included."""
        first = bisect_left(self.amounts, low, key=lambda amount: amount[0])
        return self.amounts[first : bisect_right(self.amounts, high, key=lambda amount: amount[0])]


@dataclass(frozen=True, slots=True)
class Stated:
    """What a claim states and is held to."""

    quantities: tuple[Quantity, ...]
    dates: tuple[Date, ...]
    times: tuple[int, ...]

    def __bool__(self) -> bool:
        return bool(self.quantities or self.dates or self.times)
