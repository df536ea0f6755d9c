"""Comparison of the amounts, dates and times of a claim with those of its evidence, in one function: `missing`."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice

from plumbline.ground.deadline import within_deadline
from plumbline.judging.quantities.amount import Amount, Hedge, Reading, Stated, find_sign
from plumbline.judging.quantities.calculation import calculate
from plumbline.judging.quantities.dates import Date, Time
from plumbline.judging.quantities.reader import YEARS, read_amounts
from plumbline.judging.quantities.units import DAY_OF_DATE, MINUTE, PERCENT, WORDS, Unit, find_rate
from plumbline.judging.text.words import STEM, is_han, split_tokens

_RELATIVE = 1e-9
# What the wording allows: "about 40,000" for 36,500 to 44,000, "over 40,000" for up to a quarter more.
_HEDGED_TOLERANCE = 0.1
_OPEN_ENDED = 1.25
# A result is rounded by so much at most, and feet converted to metres.
_ROUNDED_RESULT, _CONVERTED = 0.02, 0.025
_YEAR_TOLERANCE = 5
_DECADE, _CENTURY = 10, 100
# "The 90s" are those of the last century.
_DECADES_BEFORE = 1_900
# Where a value stands in more places, the first ones are compared.
_MAX_PLACES = 16
# A claim with more amounts that nothing has is not calculated.
_MAX_CALCULATED = 40
_HOUR, _NOON = 60, 12
_WITH_UNIT = (PERCENT, MINUTE)
# A bare number that may be an hour: "open from 9 to 5".
_COUNTS_NOTHING = re.compile(r"(?! ?[a-z\d%°./:])| ?(?:to|until|till|and|on|every|each)\b|\.(?!\d)")
# "Two adults and one child pay 15 crowns in total": it takes more than one step, and only single steps are tried.
_MOST_COUNTED_TOGETHER = 2
_TOTAL = re.compile(WORDS.pattern("calculations.total"))
_Range = tuple[float, float]


class Facts:
    """Amounts, dates and times of passages, to be looked up."""

    def __init__(self, stated: Stated) -> None:
        self.text = stated.text
        self.times = frozenset[int]().union(*(time.minutes for time in stated.times))
        self.values = set[float]()
        self._by_unit: dict[Unit | None, dict[float, list[Amount]]] = {}
        for amount in within_deadline(stated.amounts):
            for reading in _spell_out(amount):
                places = self._by_unit.setdefault(reading.unit, {}).setdefault(reading.value, [])
                if len(places) < _MAX_PLACES:
                    places.append(amount)
                if reading.unit is not DAY_OF_DATE:
                    self.values.add(reading.value)
        self._sorted = {unit: sorted(by_value) for unit, by_value in self._by_unit.items()}
        self._years_by_day: dict[tuple[int | None, int | str | None], set[int | None]] = {}
        for date in stated.dates:
            for day in (date.day, "any"):
                self._years_by_day.setdefault((date.month, day), set()).add(date.year)

    def near(self, reading: Reading, low: float, high: float) -> Iterator[Amount]:
        """Yield the amounts within these bounds that may be meant by a reading, in whatever measure."""
        for unit in self._by_unit:
            if reading.unit is None or unit is None or unit is reading.unit:
                if unit is not DAY_OF_DATE or reading.unit is DAY_OF_DATE:
                    yield from self._within(unit, low, high)
            elif unit.is_like(reading.unit):
                factor = unit.size / reading.unit.size
                slack = _CONVERTED * reading.value if unit.is_imperial != reading.unit.is_imperial else 0.0
                yield from self._within(unit, (low - slack) / factor, (high + slack) / factor)
        if reading.unit is PERCENT and low < 100:  # noqa: PLR2004
            yield from self._within(None, low / 100, min(high / 100, 1 - _RELATIVE))

    def _within(self, unit: Unit | None, low: float, high: float) -> Iterator[Amount]:
        values = self._sorted.get(unit, [])
        slack = _RELATIVE * max(abs(low), abs(high), 1.0)
        for value in values[bisect_left(values, low - slack) : bisect_right(values, high + slack)]:
            yield from self._by_unit[unit][value]

    def has_date(self, date: Date) -> bool:
        """Return True if a date here agrees with it, and what that one leaves open is a number here."""
        if date.month is None:
            return float(date.year or 0) in self.values
        days = (date.day, None) if date.day else ("any",)
        years = {day: self._years_by_day.get((date.month, day), set()) for day in days}
        return any(
            (date.year is None or date.year in found or (None in found and float(date.year) in self.values))
            and (day == date.day or not date.day or float(date.day) in self.values)
            for day, found in years.items()
            if found
        )

    def has_time(self, time: Time) -> bool:
        """Return True if it is a time here, or an hour that a bare number may be: "opens at 9"."""
        hours = {minutes // _HOUR for minutes in time.minutes if minutes % _HOUR == 0}
        bare = self._by_unit.get(None, {})
        is_bare = any(hour in bare or (hour % _NOON or _NOON) in bare for hour in hours)
        # "At 23.12"
        is_bare = is_bare or any(round(each // _HOUR + each % _HOUR / 100, 2) in bare for each in time.minutes)
        return is_bare or not self.times.isdisjoint(time.minutes)

    @cached_property
    def lists(self) -> list[tuple[frozenset[str], frozenset[int]]]:
        """Return the stems of the words of each sentence that lists something, with the lengths of its lists."""
        sentences = islice(filter(_SEPARATOR.search, _SENTENCE_END.split(self.text)), _MAX_LISTS)
        return [(_stems(text), _count_items(text)) for text in within_deadline(sentences)]


def _spell_out(amount: Amount) -> Iterator[Reading]:
    """Yield all that an amount of a passage may mean: its readings, its parts, a year of its century."""
    yield from amount.readings
    yield from (Reading(part, None, 1.0) for part in amount.parts)
    if amount.kind == "century":
        yield Reading(_CENTURY * amount.value - _CENTURY / 2, None, 1.0)
    elif amount.kind == "decade" and amount.value < _CENTURY:
        yield Reading(_DECADES_BEFORE + amount.value, None, 1.0)


def facts_in(text: str) -> Facts:
    return Facts(read_amounts(text, is_claim=False))


def same_numbers(quote: str, passage: str) -> bool:
    """Return True if every number of the quote, digits or words, stands in the passage."""
    return facts_in(quote).values <= facts_in(passage).values


def missing(stated: Stated, facts: Facts) -> Stated:
    """Return what a claim asks for and the facts do not have; falsy for nothing."""
    claim = stated.asked
    # A date that may be read in two ways is two dates at one place.
    had = {(date.start, date.end) for date in claim.dates if facts.has_date(date)}
    is_had = {amount: _has(facts, amount) or _is_counted(facts, amount) for amount in dict.fromkeys(claim.amounts)}
    return Stated(
        tuple(amount for amount in claim.amounts if not is_had[amount]),
        tuple(date for date in claim.dates if (date.start, date.end) not in had),
        tuple(time for time in claim.times if not facts.has_time(time)),
        claim.text,
    )


def drop_calculated(lacking: Stated, passages: Sequence[str], *, is_called: bool = False) -> Stated:
    """Return what the claim lacks but for what it says is calculated from passages; with `is_called`, or may be.

    Of the latter are totals of amounts of which the passages name none.
    """
    if not 0 < len(lacking.places) <= _MAX_CALCULATED:
        return lacking
    evidence = read_amounts("\n".join(passages), is_claim=False)
    made = calculate(lacking.text, evidence, is_called=is_called)
    is_total = is_called and _TOTAL.search(lacking.text) and not _TOTAL.search(evidence.text)
    is_total = is_total and len(read_amounts(lacking.text).places) > _MOST_COUNTED_TOGETHER
    units = [other.unit for other in evidence.amounts if other.is_asked and other.kind == "number"]
    left = tuple(
        each
        for each in lacking.amounts
        # "Above 20" is the result of too much.
        if (is_called and each.hedge in _BOUNDS) or not any(_is_result(each, *one) for one in made)
        if not (is_total and sum((each.unit or unit) is (unit or each.unit) for unit in units) > 1)
    )
    years = {(int(value),) for value, unit in made if unit is None and value in YEARS}
    return replace(lacking, amounts=left, dates=tuple(date for date in lacking.dates if date.parts not in years))


def _is_result(amount: Amount, value: float, unit: Unit | None) -> bool:
    for reading in amount.readings:
        result = value
        if unit and reading.unit and unit.is_like(reading.unit):
            result *= unit.size / reading.unit.size
        elif unit is not reading.unit and (unit in _WITH_UNIT or reading.unit is PERCENT or (unit and reading.unit)):
            continue
        if amount.hedge or abs(reading.value - result) <= _ROUNDED_RESULT * abs(result):
            slack = _RELATIVE * max(result, 1.0)
            if any(low - slack <= result <= high + slack for low, high in _ranges(amount, reading, amount.hedge)):
                return True
    return False


def _has(facts: Facts, amount: Amount) -> bool:
    hedge = amount.hedge
    for reading in amount.readings:
        for low, high in _ranges(amount, reading, hedge):
            found = facts.near(reading, low, high)
            # "Up to 150 km" may be said of 120 km, but not of "up to 120 km".
            if any(not (_bounds_too(hedge, other) or are_opposed(amount, other)) for other in found):
                return True
        step = reading.step / 2
        bounds = facts.near(reading, reading.value - step, reading.value + step) if hedge in _BOUNDS else ()
        if any(_bounds_too(hedge, other) and not are_opposed(amount, other) for other in bounds):
            return True
    hours = (_HOUR * amount.value, _HOUR * (amount.value + _NOON))
    if not (amount.unit or facts.times.isdisjoint(hours)) and _COUNTS_NOTHING.match(amount.text, amount.end):
        return True
    return bool(amount.parts) and facts.values.issuperset(amount.parts)


_BOUNDS = ("over", "under")


def _bounds_too(hedge: Hedge, other: Amount) -> bool:
    return hedge in _BOUNDS and other.hedge == hedge


def are_opposed(one: Amount, other: Amount) -> bool:
    if not other.text:
        return False
    sign, other_sign = (find_sign(each.text, each.start, each.end) for each in (one, other))
    if sign != other_sign and -1 in (sign, other_sign):
        positive, its_sign = (other, other_sign) if sign == -1 else (one, sign)
        if its_sign == 1 or not positive.is_falling:
            return True
    rate, other_rate = (find_rate(each.text, each.start, each.end) for each in (one, other))
    return bool(rate and other_rate and rate != other_rate)


def _ranges(amount: Amount, reading: Reading, hedge: Hedge) -> Iterator[_Range]:
    """Yield the ranges that the claim's amount may mean: by its rounding, and by what its wording allows."""
    value = reading.value
    is_year = amount.kind == "year" and value in YEARS and hedge != "over"
    step = (_YEAR_TOLERANCE if hedge else 0.0) if is_year else reading.step / 2
    yield value - step, value + step
    if amount.kind == "century":
        yield (value - 1) * _CENTURY, value * _CENTURY
    elif amount.kind == "decade":
        # "The 1850s" or "the 1800s".
        span = _CENTURY if value >= _CENTURY and value % _CENTURY == 0 else _DECADE
        yield from ((first, first + span - 1) for first in (value, value + _DECADES_BEFORE))
    elif hedge and not is_year:
        low, high = {
            "over": (value, value * _OPEN_ENDED),
            "under": (value / _OPEN_ENDED, value),
            "about": (value / (1 + _HEDGED_TOLERANCE), value / (1 - _HEDGED_TOLERANCE)),
        }[hedge]
        yield low, high


# A number up to this many may count what the evidence lists.
_MAX_COUNTED = 12
_MAX_LISTS = 2_000
# A list without stops counts as one sentence; its items may stand in lines of their own.
_SENTENCE_END = re.compile(r"(?<=[.!?])\s(?!\s*[-*•])|[。！？]|\n\n(?!\s*[-*•\d])")
_SEPARATOR = re.compile(r", (?:and |or |& )?|[,、;；]| and | or | & |\n\s*(?:[-*•]|\d{1,2}[.)])? ?|[和与及或]")
_LIST_START = re.compile(r"[:：(（]")
_MEASURES = frozenset(WORDS.read("han.measures").replace("\n", ""))
_NOUN_WORDS, _NOUN_HAN = 3, 2
_SHARED_WITH_CLAIM = 2


def _is_counted(facts: Facts, amount: Amount) -> bool:
    """Return True if the evidence lists so many of what the claim counts.

    The list stands in a sentence that has the noun, or where no sentence has it, in the one with most words of the
    claim.
    """
    value = amount.value
    if amount.unit or not value.is_integer() or not 1 < value <= _MAX_COUNTED or amount.kind != "number":
        return False
    nouns = _nouns_behind(amount)
    near = [counts for stems, counts in facts.lists if not nouns.isdisjoint(stems)]
    if not near:
        claim = _stems(amount.text)
        shared = [(len(claim & stems), counts) for stems, counts in facts.lists]
        most = max((count for count, _ in shared), default=0)
        near = [counts for count, counts in shared if count == most >= _SHARED_WITH_CLAIM]
    return any(value in counts for counts in near)


def _nouns_behind(amount: Amount) -> frozenset[str]:
    """Return the stems of the words that may say what is counted: "three old branches of"; 城市 of 三个城市."""
    after = amount.text[amount.end : amount.end + 40]
    if after[:1] and is_han(after[0]):
        rest = after[1:] if after[0] in _MEASURES else after
        return _stems(rest[:_NOUN_HAN])
    return _stems(" ".join(re.split(r"[^\w\s'-]", after)[0].split()[:_NOUN_WORDS]))


def _stems(text: str) -> frozenset[str]:
    """Return the first letters of a text's words, without the ending of a plural, and its pairs of Han characters."""
    found = set[str]()
    for token in split_tokens(text):
        if is_han(token):
            found.update(token[at : at + 2] for at in range(max(1, len(token) - 1)))
        elif token.isalpha() and len(token) >= _NOUN_WORDS:
            found.add(token.removesuffix("s")[:STEM])
    return frozenset(found)


def _count_items(sentence: str) -> frozenset[int]:
    """Return how many items its lists may have: from its start, or behind a colon or a bracket."""
    parts = _LIST_START.split(sentence)
    counts = [1 + len(_SEPARATOR.findall(part.strip(" \n,.;)）"))) for part in parts]
    # "In 1990, A, B and C": the first is none.
    return frozenset([*counts, *(count - 1 for count in counts)])
