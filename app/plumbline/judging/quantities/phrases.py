"""Amounts written as phrases: "half an hour", 一个半小时, 八折, 三分之一, "the third quarter", 八十年代, 光绪元年."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from plumbline.judging.quantities.amount import Amount, Kind, Reading
from plumbline.judging.quantities.numerals import DECADES, ORDINALS, count_value, english_part, han_value
from plumbline.judging.quantities.units import PERCENT, QUARTER, UNIT_BY_NAME, WORDS, Unit

_FIRST_YEARS: Mapping[str, int] = WORDS.read("first_years")
# A share stated as a fraction meets one in percent that is rounded to tens.
_SHARE_STEP = 5.0


def find_phrases(text: str) -> Iterator[Amount]:
    """Yield the amounts of a prepared text that phrases name."""
    present = set(filter(text.__contains__, _ASCII_WORDS if text.isascii() else _ALL_WORDS))
    for words, pattern, read in _RULES if present else ():
        if not present.isdisjoint(words):
            for match in pattern.finditer(text):
                if (found := read(match)) is not None:
                    yield replace(found, start=match.start(), end=match.end(), text=text)


def _amount(
    value: float, unit: Unit | None, step: float = 1.0, kind: Kind = "number", *, is_asked: bool = True
) -> Amount:
    return Amount((Reading(value, unit, step),), 0, 0, kind=kind, is_asked=is_asked)


def _halves(match: re.Match[str]) -> Amount:
    count = match.groupdict().get("count")
    unit = UNIT_BY_NAME.get(f"个{match['unit']}") or UNIT_BY_NAME[match["unit"]]
    return _amount((count_value(count) if count else 0.0) + 0.5, unit, 0.1)


def _discount(match: re.Match[str]) -> Amount:
    """Return 七折 as 70 % of the price, and as 30 % off it."""
    digits = match["digits"]
    if digits.isascii():
        value = float(digits) * (1 if "." not in digits and len(digits) > 1 else 10)
    else:
        value = sum(han_value(digit) * weight for digit, weight in zip(digits, (10, 1), strict=False))
    return Amount((Reading(value, PERCENT, 1.0), Reading(100 - value, PERCENT, 1.0)), 0, 0)


def _share(match: re.Match[str]) -> Amount | None:
    parts = match.groupdict()
    if part := parts.get("part"):
        return _amount(100 * english_part(match["count"], part), PERCENT, _SHARE_STEP)
    divisor, count = (count_value(part) for part in match.group("divisor", "count"))
    return _amount(100 * count / divisor, PERCENT, _SHARE_STEP) if divisor > 1 else None


def _thousandths(match: re.Match[str]) -> Amount:
    share = 100 * count_value(match["count"]) / (1_000 if match["divisor"] == "千" else 10_000)
    return _amount(share, PERCENT, share / 100)


def _quarter(match: re.Match[str]) -> Amount:
    number = match["number"]
    return _amount(float(ORDINALS.get(number) or count_value(number[0])), QUARTER)


def _era(match: re.Match[str]) -> Amount | None:
    if match["era"] not in _FIRST_YEARS:
        return None
    number = 1.0 if match["year"] == "元" else count_value(match["year"])
    return replace(_amount(_FIRST_YEARS[match["era"]] + number - 1, None), parts=(number,))


def _decade(match: re.Match[str]) -> Amount:
    century, decade = match["century"], count_value(match["decade"])
    return _amount(((count_value(century) - 1) * 100 if century else 0) + decade, None, 10.0, "decade")


# Claims are not held to the last three.
_READERS: Mapping[str, Callable[[re.Match[str]], Amount | None]] = {
    "halves": _halves,
    "quarters_of_an_hour": lambda match: _amount(15 * count_value(match["count"]), UNIT_BY_NAME["min"]),
    "discount": _discount,
    "share": _share,
    "thousandths": _thousandths,
    "quarter": _quarter,
    "era": _era,
    "decade": _decade,
    "century": lambda match: _amount(float(ORDINALS[match["number"]]), None, kind="century"),
    "price_off": lambda match: _amount(100 - float(match["off"]), PERCENT, is_asked=False),
    "one_unit": lambda match: _amount(1.0, UNIT_BY_NAME[match["unit"]], is_asked=False),
    "named_decade": lambda match: _amount(float(DECADES[match["name"]]), None, 10.0, is_asked=False),
}
_RULES = tuple(
    (WORDS.words(f"phrase_words.{name}"), re.compile(pattern), read)
    for name, read in _READERS.items()
    for pattern in WORDS.patterns(f"phrases.{name}")
)
_ALL_WORDS = frozenset(word for words, _, _ in _RULES for word in words)
_ASCII_WORDS = frozenset(filter(str.isascii, _ALL_WORDS))
