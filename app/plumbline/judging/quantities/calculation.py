"""Amounts and dates that follow from others in one step: sums, differences, products, shares, changes and spans."""

import datetime
import re
from collections.abc import Iterator, Sequence
from itertools import combinations, product

from plumbline.judging.quantities.amount import Amount, Stated
from plumbline.judging.quantities.dates import LEAP_YEAR, Date
from plumbline.judging.quantities.numerals import count_value
from plumbline.judging.quantities.reader import YEARS, read_amounts
from plumbline.judging.quantities.units import DAY, HOUR, MINUTE, MONTH, PERCENT, WORDS, YEAR, Unit, find_rate

_Value = tuple[float, Unit | None]

# Of more numbers anything can be made.
_MAX_OPERANDS, _MAX_UNCALLED = 6, 4
_MAX_DAYS, _MAX_SPAN_YEARS, _MOST_COUNTED, _ROUNDING = 4_000, 200, 100, 0.005
_HOUR, _DAY = 60, 1_440
# "Aged 70", "the next year".
_AGED = re.compile(WORDS.pattern("calculations.aged"))
_CALLED = re.compile(WORDS.pattern("calculations.total", "calculations.called"))
_EACH, _MEAN = (re.compile(WORDS.pattern(f"calculations.{name}")) for name in ("each", "mean"))
_MULTIPLIED = tuple(
    (re.compile(WORDS.pattern(f"calculations.{name}")), factor)
    for name, factor in (("two", 2.0), ("three", 3.0), ("half", 0.5))
)
# The sum of so many amounts is hit by chance too seldom to need a word such as "together".
_TELLING_TERMS = 3
# Of what is paid or done every so often: how often in a longer time.
_PER_LONGER = {"day": (7.0, 30.0, 365.0), "week": (52.0,), "month": (12.0,), "quarter": (4.0,), "hour": (24.0,)}


def calculate(claim: str, evidence: Stated, *, is_called: bool = False) -> tuple[list[_Value], set[tuple[int, ...]]]:
    """Return the amounts, and the parts of dates, that one step makes of those of a few passages, at most six.

    Spans between years, dates and times, what lies a span before or after one, so many times an amount that the claim
    counts, an amount that "doubled" or changed by a percentage; all other steps where a word of the claim calls for
    one, or with `is_called`.
    """
    stated = [each for each in evidence.amounts if each.is_asked and each.kind in ("number", "year")]
    years = {float(date.year) for date in evidence.dates if date.year}
    years |= {each.value for each in stated if each.unit in (None, YEAR) and each.value in YEARS}
    plain = [each for each in stated if each.value not in years]
    is_worded = _CALLED.search(claim) is not None
    if max(len(years), len(plain)) > (_MAX_OPERANDS if is_worded or not is_called else _MAX_UNCALLED):
        return [], set()
    days = [
        each.value * each.unit.size / DAY.size
        for each in plain
        if each.unit and each.unit.dimension == "time" and each.unit.size >= DAY.size
    ]
    has_each = is_called or _EACH.search(evidence.text) is not None
    spans = [round(each * DAY.size / YEAR.size) for each in days]
    spans += [round(count_value(match["age"])) if match["age"] else 1 for match in _AGED.finditer(evidence.text)]
    values = [*_by_years(years, spans), *_between(evidence), *_multiples(claim, plain, has_each=has_each)]
    operands = [(each.value, each.unit) for each in plain if each.unit is not PERCENT]
    units = {unit for _, unit in operands} - {None}
    if len(operands) >= _TELLING_TERMS and len(units) <= 1:
        values.append((sum(value for value, _ in operands), next(iter(units), None)))
    shares = [each.value / 100 for each in plain if each.unit is PERCENT]
    factors = [1 + share * sign for share in shares for sign in (1, -1)] + shares
    factors += [factor for words, factor in _MULTIPLIED if words.search(f"{evidence.text} {claim}")]
    if is_called or is_worded:
        values += _of_two(operands)
        if _MEAN.search(claim) and len(operands) > 1 and len(units) <= 1:
            values.append((sum(value for value, _ in operands) / len(operands), next(iter(units), None)))
    values += [(value * factor, unit) for (value, unit), factor in product(operands, factors)]
    return values, {later for date, count in product(evidence.dates, days) for later in _shift_date(date, round(count))}


def _of_two(operands: Sequence[_Value]) -> Iterator[_Value]:
    for (one, unit), (other, other_unit) in combinations(operands, 2):
        yield from ((one * other, unit), (one * other, other_unit))
        if one and other:
            yield from ((one / other, unit), (other / one, other_unit), (one / other, None), (other / one, None))
        if unit is other_unit or None in (unit, other_unit):
            yield from ((one + other, unit or other_unit), (abs(one - other), unit or other_unit))
            if one and other:
                changes = (100 * abs(other - one) / one, 100 * min(one, other) / max(one, other))
                yield from ((change, PERCENT) for change in changes)


def _between(evidence: Stated) -> Iterator[_Value]:
    """Yield the hours and minutes between two times of day, and the days, weeks and months between two dates."""
    times = sorted({minutes for each in evidence.times for minutes in each.minutes})
    for one, other in combinations(times[:_MAX_OPERANDS], 2):
        for span in (other - one, _DAY - other + one):
            yield from ((span / _HOUR, HOUR), (float(span // _HOUR), HOUR), (float(span % _HOUR), MINUTE))
    days = {date for each in evidence.dates if (date := _as_day(each.year, each.month, each.day or 1))}
    for first, last in combinations(sorted(days)[:_MAX_OPERANDS], 2):
        count = (last - first).days
        if count <= _MAX_DAYS:
            months = 12 * (last.year - first.year) + last.month - first.month
            yield from ((count + 0.0, DAY), (count + 1.0, DAY), (months + 0.0, MONTH), (months + 1.0, MONTH))


def _as_day(year: int | None, month: int | None, day: int | None) -> datetime.date | None:
    try:
        return datetime.date(year or LEAP_YEAR, month or 0, day or 0)
    except ValueError:
        return None


def _multiples(claim: str, known: Sequence[Amount], *, has_each: bool) -> Iterator[_Value]:
    """Yield what the claim has of "four tickets cost 48 euros" where one costs 12 euros: the product and the count.

    Of 10 euros a month 120 a year are a product, too, and of a length and a width their area.
    """
    claimed = read_amounts(claim).amounts
    counts = {each.value for each in claimed if 1 < each.value <= _MOST_COUNTED and each.unit in (None, YEAR, MONTH)}
    for each in known:
        times = _PER_LONGER.get(find_rate(each.text, each.start, each.end), ())
        yield from ((each.value * factor, each.unit) for factor in times)
        for count, factor in product(counts, (1.0, *times)):
            made = each.value * count * factor
            is_meant = each.unit is not None or has_each
            if is_meant and any(other.unit is each.unit and abs(other.value - made) < _ROUNDING for other in claimed):
                yield from ((made, each.unit), (count, None))
    for one, other in combinations(known, 2):
        if one.unit and other.unit and one.unit.dimension == other.unit.dimension == "length":
            area = one.value * one.unit.size * other.value * other.unit.size
            units = {each.unit for each in claimed if each.unit and each.unit.dimension == "area"}
            yield from ((area / unit.size, unit) for unit in units)


def _by_years(years: set[float], spans: Sequence[int]) -> Iterator[_Value]:
    yield from ((year + sign * span, None) for span in spans if span for year in years for sign in (1, -1))
    for one, other in combinations(years, 2):
        if abs(one - other) <= _MAX_SPAN_YEARS:
            yield abs(one - other), YEAR


def _shift_date(date: Date, days: int) -> Iterator[tuple[int, ...]]:
    if date.year and date.month and not date.day:
        months = round(days * DAY.size / MONTH.size)
        for at in (12 * date.year + date.month - 1 + sign * months for sign in (1, -1)):
            yield at // 12, at % 12 + 1
    first = _as_day(date.year, date.month, date.day)
    for shift in (days, -days) if first and days <= _MAX_DAYS else ():
        if first and 0 < first.toordinal() + shift <= datetime.date.max.toordinal():
            other = first + datetime.timedelta(days=shift)
            yield (other.year, other.month, other.day) if date.year else (other.month, other.day)
            yield other.month, other.day
