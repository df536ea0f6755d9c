"""Amounts and dates that follow from others, each only where a word calls for it: "together", "two days later"."""

import datetime
import re
from collections.abc import Iterator, Sequence
from itertools import combinations, product

from plumbline.judging.quantities.amount import Amount, Stated
from plumbline.judging.quantities.dates import LEAP_YEAR, Date
from plumbline.judging.quantities.numerals import HAN_NUMERAL, count_value
from plumbline.judging.quantities.reader import YEARS, read_amounts
from plumbline.judging.quantities.units import DAY, HOUR, MINUTE, MONTH, PERCENT, WORDS, YEAR, Unit, find_rate

_Value = tuple[float, Unit | None]

# Of more numbers anything can be made.
_MAX_OPERANDS, _MAX_UNCALLED = 8, 4
# The sum of so many amounts is hit by chance too seldom to need a word such as "together".
_TELLING_TERMS = 3
_MAX_DAYS, _MAX_SPAN_YEARS = 4_000, 200
_MOST_COUNTED, _ROUNDING = 100, 0.005
_HOUR, _DAY = 60, 1_440
_SUM, _DIFFERENCE, _EACH, _SHARED, _MEAN, _TIMES, _CHANGE, _SHARE, _ENDS, _TWICE = (
    re.compile(WORDS.pattern(f"calculations.{name}"))
    for name in ("sum", "difference", "each", "shared", "mean", "times", "change", "share", "ends", "twice")
)
# Of what is paid or done every so often: how often in a longer time.
_PER_LONGER = {"day": (7.0, 30.0, 365.0), "week": (52.0,), "month": (12.0,), "quarter": (4.0,), "hour": (24.0,)}
_SPAN, _SPAN_AFTER, _RISE, _RISE_AFTER, _FALL, _FALL_AFTER = (
    re.compile(WORDS.pattern(f"calculations.{name}_{place}"))
    for name in ("span", "rise", "fall")
    for place in ("before", "behind")
)
_MULTIPLIED = tuple(
    (re.compile(WORDS.pattern(f"multiplied.{name}")), factor)
    for name, factor in (("two", 2.0), ("three", 3.0), ("half", 0.5))
)
_AGED = re.compile(
    rf"(?:享年|终年|年仅|卒年|\baged|\bat the age of|\bat age) ?(?P<age>\d{{1,3}}|{HAN_NUMERAL.pattern})"
    r"|(?P<age2>\d{1,3})(?: years? old|岁)"
)
_NEXT_YEAR = re.compile(r"\b(?:following|next) year\b|次年|翌年")
_CALL_REACH = 24


def calculate(claim: str, evidence: Stated, *, is_called: bool = True) -> tuple[list[_Value], set[tuple[int, ...]]]:
    """Return the amounts, and the parts of dates, that follow from those of a few passages.

    Of at most eight amounts: the span between two years, dates or times; a year or a date so many "later"; an amount
    that "rose by 50 %" or "doubled"; so many times an amount that the claim counts; where a word of the claim or the
    passages calls for it, sums, differences, products, equal parts, means, changes and shares of amounts of like units.
    `is_called` False: as if words called for all of it, of at most four amounts.
    """
    stated = [each for each in evidence.amounts if each.is_asked and each.kind in ("number", "year")]
    years = {float(date.year) for date in evidence.dates if date.year}
    years |= {each.value for each in stated if each.unit in (None, YEAR) and each.value in YEARS}
    plain = [each for each in stated if each.value not in years]
    most = _MAX_OPERANDS if is_called else _MAX_UNCALLED
    if len(years) > most or len(plain) > most:
        return [], set()
    operands = [(each.value, each.unit) for each in plain]
    ends = not is_called or _ENDS.search(claim) is not None
    spans = (each for each in evidence.amounts if _is_called_span(each, ends=ends))
    days = [each.value * each.unit.size / DAY.size for each in spans if each.unit]
    values = [
        *_by_years(years, days, evidence.text),
        *_by_factors(plain, evidence, has_share=not is_called or bool(_SHARE.search(claim))),
    ]
    values += [*_as_claimed(claim, evidence.text, operands, is_called=is_called), *_between(evidence)]
    values += [(2 * value, unit) for value, unit in operands if _TWICE.search(claim)]
    values += _multiples(
        read_amounts(claim).amounts, plain, has_each=not is_called or bool(_EACH.search(evidence.text))
    )
    return values, {later for date, count in product(evidence.dates, days) for later in _shift_date(date, round(count))}


def _between(evidence: Stated) -> Iterator[_Value]:
    """Yield the hours and minutes between two times of day, and the days, weeks and months between two dates."""
    times = sorted({minutes for each in evidence.times for minutes in each.minutes})
    for one, other in combinations(times[:_MAX_OPERANDS], 2):
        for span in (other - one, _DAY - other + one):
            yield from ((span / _HOUR, HOUR), (float(span // _HOUR), HOUR), (float(span % _HOUR), MINUTE))
    days = {date for each in evidence.dates if (date := _as_day(each))}
    for first, last in combinations(sorted(days)[:_MAX_OPERANDS], 2):
        count = (last - first).days
        if count <= _MAX_DAYS:
            yield from ((float(count), DAY), (count + 1.0, DAY))
            months = 12 * (last.year - first.year) + last.month - first.month
            yield from ((float(months), MONTH), (months + 1.0, MONTH))


def _as_day(date: Date) -> datetime.date | None:
    try:
        return datetime.date(date.year or LEAP_YEAR, date.month or 0, date.day or 1)
    except ValueError:
        return None


def _multiples(claimed: Sequence[Amount], known: Sequence[Amount], *, has_each: bool) -> Iterator[_Value]:
    """Yield what the claim has of "four tickets cost 48 euros" where one costs 12 euros: the product and the count.

    Of 10 euros a month 120 a year are a product, too, and of a length and a width their area.
    """
    counts = {
        (each.value, each.unit) for each in claimed if 1 < each.value <= _MOST_COUNTED and not _is_measure(each.unit)
    }
    for each in known:
        times = _PER_LONGER.get(find_rate(each.text, each.start, each.end), ())
        yield from ((each.value * factor, each.unit) for factor in times)
        for (count, unit), factor in product(counts, (1.0, *times)):
            made = each.value * count * factor
            is_meant = each.unit is not None or has_each
            if is_meant and any(other.unit is each.unit and abs(other.value - made) < _ROUNDING for other in claimed):
                yield from ((made, each.unit), (count, unit))
    for one, other in combinations(known, 2):
        if one.unit and other.unit and one.unit.dimension == other.unit.dimension == "length":
            area = one.value * one.unit.size * other.value * other.unit.size
            yield from (
                (area / each.unit.size, each.unit) for each in claimed if each.unit and each.unit.dimension == "area"
            )


def _is_measure(unit: Unit | None) -> bool:
    return unit is not None and unit not in (YEAR, MONTH)


def _is_called_span(amount: Amount, *, ends: bool) -> bool:
    """Return True for days or years so many "later", or that something "took", or where the claim says when it ends."""
    unit, text = amount.unit, amount.text
    if unit is None or unit.dimension != "time" or unit.size < DAY.size or not text:
        return False
    before = text[max(0, amount.start - _CALL_REACH) : amount.start]
    return bool(ends or _SPAN.search(before) or _SPAN_AFTER.match(text, amount.end))


def _by_years(years: set[float], days: Sequence[float], text: str) -> Iterator[_Value]:
    spans = [days * DAY.size / YEAR.size for days in days]
    spans += [count_value(match["age"] or match["age2"]) for match in _AGED.finditer(text)]
    spans += [1.0] if _NEXT_YEAR.search(text) else []
    for span in spans:
        if 1 <= span <= _MAX_SPAN_YEARS:
            yield from ((year + sign * round(span), None) for year in years for sign in (1, -1))
    for one, other in combinations(years, 2):
        if abs(one - other) <= _MAX_SPAN_YEARS:
            yield abs(one - other), YEAR


def _by_factors(amounts: Sequence[Amount], evidence: Stated, *, has_share: bool) -> Iterator[_Value]:
    """Yield amounts that have changed by a percentage or by a word such as "doubled", and shares of them."""
    text = evidence.text
    factors = [factor for words, factor in _MULTIPLIED if words.search(text)]
    for each in evidence.amounts:
        share = next((reading.value / 100 for reading in each.readings if reading.unit is PERCENT), None)
        if share is None:
            continue
        before = each.text[max(0, each.start - _CALL_REACH) : each.start]
        after = each.text[each.end : each.end + _CALL_REACH]
        is_called = has_share or any(mark in each.text[each.start : each.end] for mark in ("折", "分之"))
        factors += [share] if is_called else []
        factors += [1 + share] if _RISE.search(before) or _RISE_AFTER.match(after) else []
        factors += [1 - share] if _FALL.search(before) or _FALL_AFTER.match(after) else []
    for each, factor in product(amounts, factors[:_MAX_OPERANDS]):
        if each.unit is not PERCENT:
            yield each.value * factor, each.unit


def _as_claimed(claim: str, text: str, operands: Sequence[_Value], *, is_called: bool) -> Iterator[_Value]:
    plain = [each for each in operands if each[1] is not PERCENT]
    units = {unit for _, unit in plain} - {None}
    if len(plain) >= _TELLING_TERMS and len(units) <= 1:
        yield sum(value for value, _ in plain), next(iter(units), None)
    if plain and len(units) <= 1 and _MEAN.search(claim):
        yield sum(value for value, _ in plain) / len(plain), next(iter(units), None)
    words = (_SUM, _DIFFERENCE, _TIMES, _SHARED, _CHANGE, _SHARE)
    called = {each for each in words if not is_called or each.search(claim)}
    for (one, unit), (other, other_unit) in combinations(plain, 2):
        if _EACH.search(text):
            yield from ((one * other, unit), (one * other, other_unit))
        if not is_called and one and other:
            yield from ((one / other, None), (other / one, None))
        if unit is not other_unit and None not in (unit, other_unit):
            continue
        either = unit or other_unit
        share = 100 * min(one, other) / max(one, other) if one and other else 0.0
        made: dict[re.Pattern[str], list[_Value]] = {
            _SUM: [(one + other, either), (2.0, None)],
            _DIFFERENCE: [(abs(one - other), either), (2.0, None)],
            _TIMES: [(one / other, None), (other / one, None)] if share else [],
            _SHARED: [(one / other, unit), (other / one, other_unit)] if share else [],
            _CHANGE: [(100 * abs(other - one) / one, PERCENT)] if share else [],
            _SHARE: [(share, PERCENT)] if share else [],
        }
        yield from (value for words, values in made.items() if words in called for value in values)


def _shift_date(date: Date, days: int) -> Iterator[tuple[int, ...]]:
    if date.year and date.month and not date.day:
        months = round(days * DAY.size / MONTH.size)
        for at in (12 * date.year + date.month - 1 + sign * months for sign in (1, -1)):
            yield at // 12, at % 12 + 1
    if not (date.month and date.day and days <= _MAX_DAYS):
        return
    try:
        first = datetime.date(date.year or LEAP_YEAR, date.month, date.day)
    except ValueError:
        return
    for shift in (days, -days):
        if 0 < first.toordinal() + shift <= datetime.date.max.toordinal():
            other = first + datetime.timedelta(days=shift)
            yield (other.year, other.month, other.day) if date.year else (other.month, other.day)
            yield other.month, other.day
