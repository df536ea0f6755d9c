"""Amounts that follow from others in one step: sums, differences, products, shares, changes and spans of years."""

import re
from collections.abc import Iterator, Sequence
from itertools import combinations, product

from plumbline.judging.quantities.amount import Stated
from plumbline.judging.quantities.reader import YEARS
from plumbline.judging.quantities.units import DAY, MINUTE, PERCENT, WORDS, YEAR, Unit

_Value = tuple[float, Unit | None]

# Of more numbers anything can be made.
_MAX_OPERANDS, _MAX_UNCALLED = 6, 4
_MAX_SPAN_YEARS = 200
_CALLED = re.compile(WORDS.pattern("calculations.total", "calculations.called"))
# The sum of so many amounts is hit by chance too seldom to need a word such as "together".
_TELLING_TERMS = 3


def calculate(claim: str, evidence: Stated, *, is_called: bool = False) -> Sequence[_Value]:
    """Return the amounts that one step makes of those of a few passages, at most six.

    Spans between years or times of day, what lies a span before or after a year, the sum of three amounts and more, an
    amount changed by a percentage; all other steps where a word of the claim calls for one, or with `is_called`.
    """
    stated = [each for each in evidence.amounts if each.is_asked and each.kind in ("number", "year")]
    years = {float(date.year) for date in evidence.dates if date.year}
    years |= {each.value for each in stated if each.unit in (None, YEAR) and each.value in YEARS}
    plain = [each for each in stated if each.value not in years]
    times_of_day = combinations(evidence.times[:_MAX_OPERANDS], 2)
    lasting = [(abs(a - b), MINUTE) for one, other in times_of_day for a, b in product(one.minutes, other.minutes)]
    is_worded = _CALLED.search(claim) is not None
    if max(len(years), len(plain)) > (_MAX_OPERANDS if is_worded or not is_called else _MAX_UNCALLED):
        return lasting
    times = [(each.value, each.unit) for each in plain if each.unit and each.unit.dimension == "time"]
    spans = [round(value * unit.size / YEAR.size) for value, unit in times if unit.size >= DAY.size]
    values = [*lasting, *_by_years(years, spans)]
    operands = [(each.value, each.unit) for each in plain if each.unit is not PERCENT]
    units = {unit for _, unit in operands} - {None}
    if len(operands) >= _TELLING_TERMS and len(units) <= 1:
        values.append((sum(value for value, _ in operands), next(iter(units), None)))
    shares = [each.value / 100 for each in plain if each.unit is PERCENT]
    factors = [1 + share * sign for share in shares for sign in (1, -1)] + shares
    if is_called or is_worded:
        values += _of_two(operands)
    values += [(value * factor, unit) for (value, unit), factor in product(operands, factors)]
    return values


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


def _by_years(years: set[float], spans: Sequence[int]) -> Iterator[_Value]:
    yield from ((year + sign * span, None) for span in spans if span for year in years for sign in (1, -1))
    for one, other in combinations(years, 2):
        if abs(one - other) <= _MAX_SPAN_YEARS:
            yield abs(one - other), YEAR
