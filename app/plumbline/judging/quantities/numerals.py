"""Numerals written as words, English and Chinese, and the units that numbers carry."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from plumbline.ground.phrases import Phrases

WORDS: Final = Phrases("judging/quantities/words")


def _values(key: str) -> dict[str, int]:
    return {word: int(value) for value, words in WORDS.read(key).items() for word in words.split()}


_ONES = {word: value for value, word in enumerate(WORDS.read("ones").split())}
HOURS = {word: value for word, value in _ONES.items() if 1 <= value <= 12}  # noqa: PLR2004
_TENS = {word: 10 * value for value, word in enumerate(WORDS.read("tens").split(), start=2)}
_SCALES = {"hundred": 100, "thousand": 1_000, "million": 10**6, "billion": 10**9, "trillion": 10**12}
ORDINALS = {word: value for value, word in enumerate(WORDS.read("ordinals").split(), start=1)} | _values(
    "more_ordinals"
)
_PARTS = {"half": 2, "halves": 2, "quarter": 4, **ORDINALS}
MULTIPLES = {word: float(value) for word, value in _values("multiples").items()}
DECADES = _values("decades")
# Every `ENGLISH_NUMERAL` has one of them.
CARDINALS = frozenset((*_ONES, *_TENS, *_SCALES))
_CARDINAL = "|".join(sorted(CARDINALS, key=lambda word: (-len(word), word)))
# Most words begin otherwise, and are passed over at once.
_FIRST_LETTERS = "".join(sorted({"a", *(word[0] for word in CARDINALS)}))
ENGLISH_NUMERAL = re.compile(
    rf"\b(?=[{_FIRST_LETTERS}])(?:an?[ -](?=hundred|thousand|million|billion|trillion))?(?:{_CARDINAL})\b"
    rf"(?:(?:(?:(?<=hundred)|(?<=thousand)|(?<=million)|(?<=billion))(?: and |, )|[ -])(?:{_CARDINAL})\b){{0,12}}"
    rf"(?:[ -](?P<ordinal>{'|'.join(ORDINALS)})\b)?"
)
ENGLISH_PART = re.compile(
    r"\b(?P<count>an?|one|two|three|four|five|seven|\d{1,2})[ -]"
    r"(?P<part>halves|half|thirds?|quarters?|fourths?|fifths?|sixths?|eighths?|tenths?)\b"
)

_HAN_DIGITS = {
    **{digit: value for value, digit in enumerate("零一二三四五六七八九")},
    **{digit: value for value, digit in enumerate("零壹贰叁肆伍陆柒捌玖")},
    "〇": 0, "两": 2, "兩": 2, "贰": 2, "參": 3, "陸": 6,
}  # fmt: skip
_HAN_SCALES = {"十": 10, "拾": 10, "百": 100, "佰": 100, "千": 1_000, "仟": 1_000}
_HAN_MYRIADS = {"万": 10**4, "萬": 10**4, "亿": 10**8, "億": 10**8, "兆": 10**12}
HAN_SCALE_VALUES = {**_HAN_SCALES, **_HAN_MYRIADS}
HAN_NUMERAL = re.compile(
    f"[{''.join([*_HAN_DIGITS, *_HAN_SCALES, *_HAN_MYRIADS])}]{{1,20}}(?:点[零〇一二三四五六七八九]{{1,8}})?"
)
_ROMAN = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}


_LETTERS, _ASCII_LETTERS = re.compile(r"[^\W\d_]+"), re.compile("[a-z]+")


def letter_runs(folded: str) -> list[str]:
    """Return the words of a text in folded case, the parts of compounds one by one."""
    return (_ASCII_LETTERS if folded.isascii() else _LETTERS).findall(folded)


def english_value(numeral: str) -> float:
    """Return the value of an `ENGLISH_NUMERAL`: "two hundred and five thousand" 205,000, "nineteen eighty" 1980."""
    total = current = 0
    last = 0
    for word in re.split(r"[ ,-]+", numeral):
        if word in _SCALES:
            scale = _SCALES[word]
            if scale == _SCALES["hundred"]:
                current = (current or 1) * scale
            else:
                total, current = total + (current or 1) * scale, 0
            last = 0
            continue
        value = _ONES.get(word, _TENS.get(word, ORDINALS.get(word)))
        if value is None:
            continue
        # "nineteen eighty-four" counts hundreds.
        if last >= 10 and value >= 10:  # noqa: PLR2004
            current *= 100
        current, last = current + value, value
    return float(total + current)


def english_part(count: str, part: str) -> float:
    """Return the value of "two thirds"."""
    divisor = _PARTS[part] if part in _PARTS else _PARTS[part.rstrip("s")]
    return (1 if count in ("a", "an") else _ONES.get(count) or int(count)) / divisor


def han_value(numeral: str) -> float:
    """Return the value of a `HAN_NUMERAL`: 三亿二千万 320,000,000, 二〇二〇 2020."""
    whole, _, decimals = numeral.partition("点")
    if all(character in _HAN_DIGITS for character in whole):
        value = float("".join(str(_HAN_DIGITS[character]) for character in whole))
    else:
        value = _positional(whole)
    if decimals:
        value += float("0." + "".join(str(_HAN_DIGITS[character]) for character in decimals))
    return value


def _positional(numeral: str) -> float:
    total = section = digit = 0
    myriad = 10**16
    for character in numeral:
        if character in _HAN_DIGITS:
            digit = _HAN_DIGITS[character]
        elif character in _HAN_SCALES:
            section += (digit or 1) * _HAN_SCALES[character]
            digit = 0
        else:
            part, last, myriad = section + digit, myriad, _HAN_MYRIADS[character]
            # 三万五千亿: a greater myriad counts all that stands before it.
            total = (total + part) * myriad if last < myriad else total + (part or 1) * myriad
            section = digit = 0
    return float(total + section + digit)


def han_to_digits(text: str) -> str:
    """Return the text with Chinese numerals in digits, 二十七 as 27; a text of another script as it is."""
    return HAN_NUMERAL.sub(lambda match: f"{han_value(match.group()):.12g}", text)


def roman_values(text: str) -> Iterator[float]:
    """Yield the values of Roman numerals of two letters or more, and of single V and X: "World War II"."""
    for match in re.finditer(r"\b(?:[IVXLC]{2,8}|[VX])\b", text):
        digits = [_ROMAN[letter] for letter in match.group()]
        pairs = zip(digits, [*digits[1:], 0], strict=True)
        yield float(sum(-this if this < following else this for this, following in pairs))


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """A unit, one object for all its names, as a multiple of its dimension's base; systems are converted roughly."""

    dimension: str
    size: float
    is_imperial: bool = False


def _units_by_name() -> Iterator[tuple[str, Unit]]:
    for dimension, units in WORDS.read("units").items():
        for each in units:
            unit = Unit(dimension, each["size"], each.get("imperial", False))
            yield from ((name.replace("_", " "), unit) for name in each["names"].split())


UNIT_BY_NAME = dict(_units_by_name())
PERCENT = UNIT_BY_NAME["%"]
# Quarters of a year by their number: Q3, the third quarter.
QUARTER = Unit("quarter", 1.0)
_ASCII_UNITS = sorted((name for name in UNIT_BY_NAME if name.isascii() and name[-1].isalnum()), key=len, reverse=True)
_OTHER_UNITS = sorted((name for name in UNIT_BY_NAME if not name.isascii() or name == "%"), key=len, reverse=True)
# After a number; a letter must not go on after the name of a unit, a Han character may.
UNIT_AFTER = re.compile(
    rf"[ -]?(?P<unit>(?:{'|'.join(re.escape(name) for name in _ASCII_UNITS)})(?![a-zà-öø-ÿ])"
    rf"|{'|'.join(re.escape(name) for name in _OTHER_UNITS)})"
)
UNIT_BEFORE = re.compile(r"(?P<unit>us\$|usd|rmb|cny|eur|gbp|[$€£])\s?\Z")
