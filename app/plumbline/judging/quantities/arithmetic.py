"""Comparison of a claim's amounts, dates and times with its evidence, and with what can be calculated from it."""

import heapq
import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations, compress, product
from typing import Literal

from plumbline.ground.concurrency import within_deadline
from plumbline.judging.quantities.dates import Date, Time
from plumbline.judging.quantities.numerals import PERCENT, Unit

# Amounts that are combined with each other; more than these make any number.
MAX_OPERANDS = 40
Hedge = Literal["", "about", "over", "under"]


@dataclass(frozen=True, slots=True)
class Quantity:
    """An amount as a claim states it. `step` is the unit of its last written digit; `is_year`: written as years are.

    `others` are amounts that it may mean instead, all of them together: 1 and 200 for "1 200". Lies at [start:end) of
    the text.
    """

    value: float
    unit: Unit | None
    step: float
    hedge: Hedge = ""
    others: tuple[float, ...] = ()
    is_year: bool = False
    is_century: bool = False
    is_decade: bool = False
    start: int = field(default=0, compare=False)
    end: int = field(default=0, compare=False)


class Facts:
    """Amounts, dates and times (minutes on a dial) of a passage, whose `text` may enumerate what a claim counts.

    `bounds` finds the amounts with the hedge that it has: ("under", 120.0) for "up to 120".
    """

    def __init__(
        self,
        amounts: Iterable[tuple[float, Unit | None]],
        dates: Sequence[Date],
        times: frozenset[int],
        text: str,
        bounds: Callable[[], Collection[tuple[Hedge, float]]],
    ) -> None:
        by_unit: dict[Unit | None, set[float]] = {}
        for value, unit in within_deadline(amounts):
            by_unit.setdefault(unit, set()).add(value)
        self._by_unit = {unit: sorted(values) for unit, values in by_unit.items()}
        self.units = self._by_unit.keys()
        self.values = frozenset[float]().union(*by_unit.values())
        self._dates = {(date.year, date.month, date.day) for date in dates}
        self._dates_by_known: dict[tuple[bool, ...], set[tuple[int | None, ...]]] = {}
        self.times = times
        self._bounds = bounds
        self._text = text

    @cached_property
    def items(self) -> int:
        """Return the most items that an enumeration of one sentence, or of one list, may have."""
        sentences = _SENTENCE_END.split(self._text[:_MAX_COUNTED_CHARACTERS])
        return min(_MAX_ITEMS, 1 + max(len(_ITEM_MARK.findall(sentence)) for sentence in sentences))

    def within(self, unit: Unit | None, low: float, high: float) -> Sequence[float]:
        """Return the amounts of a unit within these bounds, both included, ascending."""
        values = self._by_unit.get(unit, [])
        return values[bisect_left(values, low) : bisect_right(values, high)]

    @cached_property
    def bounds(self) -> Collection[tuple[Hedge, float]]:
        return self._bounds()

    @cached_property
    def smallest(self) -> Sequence[float]:
        """Return the least of the values, ascending, as many as are combined with each other."""
        return heapq.nsmallest(MAX_OPERANDS, self.values)

    def has_date(self, date: Date) -> bool:
        """Return True if a date here agrees with it, and what that one leaves open is a number here."""
        if date.month is None and date.day is None and float(date.year or 0) in self.values:
            return True
        if not all(float(part) in self.values for part in date.parts):
            return False
        parts = (date.year, date.month, date.day)
        known = tuple(part is not None for part in parts)
        if known not in self._dates_by_known:
            self._dates_by_known[known] = {tuple(compress(other, known)) for other in self._dates}
        # They agree where every part known to both is the same, and there is one.
        alike = product(*((part, None) for part in compress(parts, known)))
        return any(other in self._dates_by_known[known] for other in alike if any(part is not None for part in other))


@dataclass(frozen=True, slots=True)
class Stated:
    """Statements of a claim that need evidence, and the text in which they lie."""

    quantities: tuple[Quantity, ...]
    dates: tuple[Date, ...]
    times: tuple[Time, ...]
    text: str = ""

    def __bool__(self) -> bool:
        return bool(self.quantities or self.dates or self.times)

    @property
    def wordings(self) -> tuple[str, ...]:
        """Return the statements as they are written, each once, in the order of the text."""
        spans = {(each.start, each.end) for each in self.quantities}
        spans |= {(date.start, date.end) for date in self.dates} | {(time.start, time.end) for time in self.times}
        return tuple(dict.fromkeys(self.text[start:end].strip() for start, end in sorted(spans)))


# A list without stops counts as one sentence.
_SENTENCE_END = re.compile(r"(?<=[.!?])\s|[。！？]")
_ITEM_MARK = re.compile(r"[,，、;；\n&]|\band\b|\bor\b|\bthen\b|[和与及或]")
_MAX_ITEMS = 201
_MAX_COUNTED_CHARACTERS = 100_000
_RELATIVE = 1e-9
# What the wording allows: "about 40,000" for 36,500 to 44,000, "over 40,000" for up to a quarter more.
_HEDGED_TOLERANCE = 0.1
_OPEN_ENDED = 1.25
# Feet converted to metres are rounded.
_CONVERTED = 0.025
# frozenset: testing a float against a range is linear.
YEARS = frozenset(range(1_000, 2_100))
_YEAR_TOLERANCE = 5
_DECADE, _CENTURY = 10, 100
# "The 90s" are those of the last century.
_DECADES_BEFORE = 1_900
# A number up to this many may count what the evidence lists.
_MAX_COUNTED = 12
_MAX_TERMS = 3


def missing(stated: Stated, facts: Facts, *, is_derived: bool) -> Stated:
    """Return what the claim states and the facts neither have nor, for a derived claim, yield; falsy for nothing."""
    # A date that may be read in two ways is two dates at one place.
    had = {(date.start, date.end) for date in stated.dates if facts.has_date(date)}
    made = sorted(filter(math.isfinite, _made_of(facts))) if is_derived and stated.quantities else []
    lacking = {each for each in set(stated.quantities) if not _has(facts, each, made)}
    return Stated(
        tuple(each for each in stated.quantities if each in lacking),
        tuple(date for date in stated.dates if (date.start, date.end) not in had),
        tuple(
            time
            for time in stated.times
            if time.minutes not in facts.times
            and facts.values.isdisjoint((time.minutes // 60, time.minutes // 60 + 12))
        ),
        stated.text,
    )


def _has(facts: Facts, quantity: Quantity, made: Sequence[float]) -> bool:
    bound = _as_bound(quantity)
    if any(
        _is_meant(quantity if bound is quantity or (quantity.hedge, value) not in facts.bounds else bound, value)
        for value in _comparable(facts, quantity)
    ):
        return True
    if quantity.others and all(other in facts.values for other in quantity.others):
        return True
    if (
        quantity.value.is_integer()
        and 1 < quantity.value <= _MAX_COUNTED
        and not quantity.unit
        and quantity.value <= facts.items
    ):
        return True
    return any(
        is_rounded_to(quantity, found)
        for low, high in _ranges(quantity)
        for found in made[bisect_left(made, low) : bisect_right(made, high)]
    )


def _as_bound(quantity: Quantity) -> Quantity:
    """Return the amount as it may be said of a bound: rounded by its zeros, no more.

    "Up to 150 km" may be said of 120 km, but not of "up to 120 km"; "over 300" of "over 312".
    """
    if quantity.hedge not in ("over", "under") or quantity.is_year:
        return quantity
    step = quantity.step
    while quantity.value and step >= 1 and quantity.value % (10 * step) == 0:
        step *= 10
    return replace(quantity, hedge="", step=step)


def _comparable(facts: Facts, quantity: Quantity) -> Iterator[float]:
    """Yield the evidence's amounts that may be the claim's, in the claim's measure."""
    for low, high in _ranges(quantity):
        for unit in facts.units:
            if unit is None or quantity.unit is None or unit == quantity.unit:
                yield from facts.within(unit, low, high)
            elif unit.dimension == quantity.unit.dimension:
                factor = unit.size / quantity.unit.size
                found = facts.within(unit, low / factor, high / factor)
                yield from (value * factor for value in found)
                if unit.is_imperial != quantity.unit.is_imperial and facts.within(
                    unit, quantity.value * (1 - _CONVERTED) / factor, quantity.value * (1 + _CONVERTED) / factor
                ):
                    yield quantity.value
        if quantity.unit == PERCENT:
            yield from (100 * value for value in facts.within(None, low / 100, high / 100) if value < 1)


def _ranges(quantity: Quantity) -> Iterator[tuple[float, float]]:
    """Yield the ranges in which the claim's amount may be meant; narrow, so that few are compared in vain."""
    value = quantity.value
    near = max(quantity.step, _RELATIVE * max(value, 1.0), _YEAR_TOLERANCE if quantity.is_year else 0.0)
    yield value - near, value + near
    if quantity.is_century:
        yield (value - 1) * _CENTURY, value * _CENTURY
    if quantity.is_decade:
        yield from ((first, first + _span(quantity)) for first in (value, value + _DECADES_BEFORE))
    if quantity.hedge == "over":
        yield value, value * _OPEN_ENDED
    elif quantity.hedge == "under":
        yield value / _OPEN_ENDED, value
    elif quantity.hedge:
        yield value * (1 - _HEDGED_TOLERANCE), value * (1 + 2 * _HEDGED_TOLERANCE)


def _is_meant(quantity: Quantity, found: float) -> bool:
    claimed = quantity.value
    if _equals(claimed, found):
        return True
    if quantity.is_century:
        return (claimed - 1) * _CENTURY <= found <= claimed * _CENTURY
    if quantity.is_decade:
        return any(first <= found < first + _span(quantity) for first in (claimed, claimed + _DECADES_BEFORE))
    if quantity.is_year and claimed in YEARS and quantity.unit is None:
        return bool(quantity.hedge) and abs(claimed - found) <= _YEAR_TOLERANCE
    return _is_near(quantity, found)


def _span(decade: Quantity) -> int:
    """Return the years that "the 1850s" or "the 1800s" may mean."""
    return _CENTURY if decade.value >= _CENTURY and decade.value % _CENTURY == 0 else _DECADE


def is_rounded_to(quantity: Quantity, found: float) -> bool:
    """Return True if that amount is the claim's, but for its rounding and what its wording allows."""
    return _equals(quantity.value, found) or _is_near(quantity, found)


def _is_near(quantity: Quantity, found: float) -> bool:
    """Return True if the claim's amount is that one as rounded by its digits or as its wording allows."""
    claimed, step = quantity.value, quantity.step
    is_rounded = step > 1 or step < 1 or not found.is_integer()
    if is_rounded and abs(claimed - found) <= step / 2 * (1 + 1e-6):
        return True
    if quantity.hedge == "over":
        return claimed <= found <= _OPEN_ENDED * claimed
    if quantity.hedge == "under":
        return found <= claimed <= _OPEN_ENDED * found
    return quantity.hedge == "about" and abs(claimed - found) <= _HEDGED_TOLERANCE * abs(found)


def _made_of(facts: Facts) -> Iterator[float]:
    """Yield sums, differences, products, ratios, shares and changes in percent, and means of the facts' amounts."""
    values = facts.smallest
    yield float(facts.items)
    yield from (float(count) for count in range(2, min(facts.items, _MAX_COUNTED) + 1))
    if len(values) > 1:
        yield sum(values)
        yield sum(values) / len(values)
    for a, b in combinations(values, 2):
        yield from (a + b, b - a, a * b, (a + b) / 2)
        if a and b:
            yield from (b / a, a / b, 100 * a / b, 100 * b / a, 100 * (b - a) / a, 100 * (b - a) / b)
    for size in range(3, _MAX_TERMS + 1):
        for terms in combinations(values[: MAX_OPERANDS // 2], size):
            yield sum(terms)
            yield sum(terms) / size
    yield from (100 - value for value in values)


def _equals(a: float, b: float) -> bool:
    return a == b or abs(a - b) <= _RELATIVE * max(abs(a), abs(b), 1.0)
