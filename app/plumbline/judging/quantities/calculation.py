"""Amounts of a claim that its wording says are calculated from the quoted passages: "together", "more than", "each"."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

from plumbline.judging.quantities.arithmetic import Quantity, Stated, is_rounded_to
from plumbline.judging.quantities.derivation import MULTIPLIED
from plumbline.judging.quantities.extraction import prepared, stated_in_claim
from plumbline.judging.quantities.numerals import PERCENT, Unit

Amount = tuple[float, Unit | None]

# A quote has a handful; of more numbers anything can be made.
_MAX_OPERANDS = 8
# The sum of so many amounts is hit by chance too seldom to need a word such as "together".
_TELLING_TERMS = 3
_SUM = re.compile(
    r"\b(?:together|total|altogether|in all|combined|overall|in sum|both)\b|[共总總]|合[计計]|加起[来來]|累[计計]"
)
_DIFFERENCE = re.compile(
    r"\b(?:than|left|remain\w*|remaining|difference|gap|rest|apart|lead)\b"
    r"|\b(?:high|tall|long|short|wid|deep|old|young|larg|bigg|small|low|heavi|light|fast|slow|lat|earli)er\b"
    r"|\b(?:rose|grew|increased?|fell|dropped|decreased?|declined|gained|lost|shrank|down|up) (?:of |by )"
    r"|[比剩余餘差]|相差|[增减減][加长長少]"
)
_EACH = re.compile(r"\b(?:each|every|per|apiece|times)\b|[每各]")
_SHARED = re.compile(r"\b(?:each|every|per|apiece|equally|average|mean|split|shared?|divided)\b|[每各]|平[均分]|均分")
_CHANGE = re.compile(
    r"\b(?:rose|rise|rises|risen|grew|grown|grow|growth|increas\w+|climb\w*|gain\w*|higher|more|fell|fall\w*|drop\w*|decreas\w+"
    r"|declin\w+|shrank|lower|less|fewer|loss|lost|cut|down|up)\b|[增减減升降涨漲跌高低多少]"
)
_SHARE = re.compile(r"\b(?:of|share|proportion|percentage|rate)\b|[占佔]|比[例率重]|其中")
_HALF = re.compile(r"\bhalf\b|一半|半[数數]")


def without_calculated(lacking: Stated, passages: Sequence[str]) -> Stated:
    """Return what the claim lacks but for amounts that follow from those of the passages, as its wording says.

    Sums, differences, products, equal parts, changes and shares in percent, halves and multiples of at most eight
    amounts of like units; each only where a word of the claim or of the passage calls for it.
    """
    if not lacking.quantities:
        return lacking
    evidence = prepared(" ".join(passages))
    operands = [
        (each.value, each.unit)
        for each in stated_in_claim(evidence).quantities
        if not (each.is_year or each.is_century or each.is_decade)
    ]
    if not 0 < len(operands) <= _MAX_OPERANDS:
        return lacking
    made = list(_calculated(lacking.text, evidence, operands))
    left = tuple(each for each in lacking.quantities if not any(_matches(each, amount) for amount in made))
    return replace(lacking, quantities=left)


def _calculated(claim: str, evidence: str, operands: Sequence[Amount]) -> Iterator[Amount]:
    plain = [amount for amount in operands if amount[1] != PERCENT]
    units = {unit for _, unit in plain} - {None}
    if len(plain) >= _TELLING_TERMS and len(units) <= 1:
        yield sum(value for value, _ in plain), next(iter(units), None)
    for one, other in combinations(plain, 2):
        if one[1] == other[1] or None in (one[1], other[1]):
            yield from _combined(claim, evidence, one, other)
    factors = [factor for words, factor in ((_HALF, 0.5), *MULTIPLIED) if words.search(evidence)]
    yield from ((value * factor, unit) for value, unit in plain for factor in factors)


def _combined(claim: str, evidence: str, first: Amount, second: Amount) -> Iterator[Amount]:
    (one, unit), (other, other_unit) = first, second
    if _SUM.search(claim):
        yield one + other, unit or other_unit
    if _DIFFERENCE.search(claim):
        yield abs(one - other), unit or other_unit
    if _EACH.search(evidence):
        yield one * other, unit or other_unit
    if not (one and other):
        return
    if _SHARED.search(claim):
        yield from ((one / other, unit), (other / one, other_unit))
    if _CHANGE.search(claim):
        yield 100 * abs(other - one) / one, PERCENT
    if _SHARE.search(claim):
        yield 100 * min(one, other) / max(one, other), PERCENT


def _matches(quantity: Quantity, amount: Amount) -> bool:
    value, unit = amount
    is_alike = PERCENT not in (unit, quantity.unit) and (unit is None or quantity.unit is None)
    return (unit == quantity.unit or is_alike) and is_rounded_to(quantity, value)
