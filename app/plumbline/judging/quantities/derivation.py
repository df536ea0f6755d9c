"""Amounts and dates that follow from neighbours in a passage: "1914-1918" is four years. They clear doubts alone."""

import datetime
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import TypeVar

from plumbline.judging.quantities.arithmetic import YEARS, Quantity
from plumbline.judging.quantities.dates import LEAP_YEAR, Date
from plumbline.judging.quantities.numerals import HAN_NUMERAL, PERCENT, UNIT_BY_NAME, Unit, han_value

One = TypeVar("One")
Other = TypeVar("Other")
Amount = tuple[float, Unit | None]

_YEAR, _DAY = UNIT_BY_NAME["year"], UNIT_BY_NAME["day"]
# Neighbours: at most so far apart, and of those the next few, so that the work is linear.
_REACH_CHARACTERS = 160
_MAX_NEIGHBOURS = 3
_MAX_DAYS = 400
# Where there are more, nothing is derived.
MAX_QUANTITIES = 300
_MAX_SPAN_YEARS = 200
_AGED = re.compile(
    rf"(?:享年|终年|年仅|卒年|\baged|\bat the age of|\bat age) ?(?P<age>\d{{1,3}}|{HAN_NUMERAL.pattern})"
    r"|(?P<age2>\d{1,3})(?: years? old|岁)"
)
# No pattern is tried on a text with none of them.
_AGE_WORDS = ("aged", "at age", "at the age", "享年", "终年", "年仅", "卒年", " old", "岁")
_MULTIPLYING = ("doubl", "twice", "twofold", "tripl", "threefold", "halv", "half", "番", "倍", "半")
MULTIPLIED = (
    (re.compile(r"\b(?:doubl(?:ed|es|ing|e)|twice as|twofold)\b|翻了?[一两]?番|翻倍|增[长加]了?一倍|两倍|2倍"), 2.0),
    (re.compile(r"\b(?:tripl(?:ed|es|ing|e)|threefold)\b|三倍|3倍|增[长加]了?两倍"), 3.0),
    (re.compile(r"\bhalv(?:ed|es|ing)\b|\bby half\b|减半|减少了?一半"), 0.5),
)
_NEXT_YEAR = re.compile(r"\b(?:following|next) year\b|次年|翌年")
# Without a unit smaller numbers count pages, sections and years of age.
_LEAST_CHANGED = 10


def derive(text: str, quantities: Sequence[Quantity], dates: Sequence[Date]) -> tuple[list[Amount], list[Date]]:
    """Return the amounts and dates that follow from neighbours in a casefolded text; linear in their number."""
    if not (quantities or dates):
        return [], []
    placed = sorted({(each.start, each.value, each.unit) for each in quantities}, key=itemgetter(0))
    years = sorted(
        {(start, value) for start, value, unit in placed if unit in (None, _YEAR) and value in YEARS}
        | {(date.start, float(date.year)) for date in dates if date.year and date.year in YEARS}
    )
    days = [
        (start, value * unit.size / _DAY.size)
        for start, value, unit in placed
        if unit and unit.dimension == "time" and unit.size >= _DAY.size
    ]
    spans = [(start, count * _DAY.size / _YEAR.size) for start, count in days]
    if years:
        spans += _ages(text)
        spans += [(match.start(), 1.0) for match in _NEXT_YEAR.finditer(text)]
    spans = sorted((start, round(years)) for start, years in spans if 1 <= years <= _MAX_SPAN_YEARS)
    amounts: list[Amount] = [
        (abs(one - other), _YEAR) for one, other in _neighbours(years, years) if 0 < abs(one - other) <= _MAX_SPAN_YEARS
    ]
    amounts += [(year + sign * span, None) for year, span in _neighbours(years, spans) for sign in (1, -1)]
    plain = [
        (start, (value, unit))
        for start, value, unit in placed
        if unit != PERCENT and value not in YEARS and (unit or value >= _LEAST_CHANGED)
    ]
    shares = [(start, value / 100) for start, value, unit in placed if unit == PERCENT]
    factors = [(start, factor) for start, share in shares for factor in (1 + share, 1 - share, share)]
    if plain and any(word in text for word in _MULTIPLYING):
        factors += [(match.start(), factor) for words, factor in MULTIPLIED for match in words.finditer(text)]
    amounts += [(value * factor, unit) for (value, unit), factor in _neighbours(plain, sorted(factors))]
    whole = [(date.start, date) for date in dates if date.month and date.day]
    whole.sort(key=itemgetter(0))
    return amounts, [
        later
        for date, count in _neighbours(whole, days)
        if count <= _MAX_DAYS
        for later in _shift_date(date, round(count))
    ]


def _neighbours(ones: Sequence[tuple[int, One]], others: Sequence[tuple[int, Other]]) -> Iterator[tuple[One, Other]]:
    """Yield the values of places, which ascend, that lie near each other: a few on either side of each of `others`."""
    for at, other in others:
        middle = bisect_left(ones, at, key=itemgetter(0))
        for start, one in ones[max(0, middle - _MAX_NEIGHBOURS) : middle + _MAX_NEIGHBOURS]:
            if abs(start - at) <= _REACH_CHARACTERS:
                yield one, other


def _ages(text: str) -> list[tuple[int, float]]:
    found = []
    for match in _AGED.finditer(text) if any(word in text for word in _AGE_WORDS) else ():
        age = match["age"] or match["age2"]
        found.append((match.start(), float(age) if age.isdecimal() else han_value(age)))
    return found


def _shift_date(date: Date, days: int) -> Iterator[Date]:
    try:
        first = datetime.date(date.year or LEAP_YEAR, date.month or 1, date.day or 1)
    except ValueError:
        return
    for shift in (days, -days):
        if 0 < first.toordinal() + shift <= datetime.date.max.toordinal():
            other = first + datetime.timedelta(days=shift)
            yield Date(other.year if date.year else None, other.month, other.day, date.start, date.end)
