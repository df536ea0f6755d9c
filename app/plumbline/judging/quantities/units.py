"""Units of amounts, and what an amount is counted by: "447 EUR m", "USD 890 million", 3亿港元, "30 litres a minute"."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from plumbline.ground.phrases import Phrases

WORDS: Final = Phrases("judging/quantities/words")


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """A unit, one object for all its names, as a multiple of its dimension's base; systems are converted roughly.

    `dimension` is a path: "$" is of any dollar, "US$" of "dollar/us" alone.
    """

    dimension: str
    size: float
    is_imperial: bool = False

    def is_like(self, other: "Unit") -> bool:
        one, two = self.dimension, other.dimension
        return one == two or one.startswith(f"{two}/") or two.startswith(f"{one}/")


def _units_by_name(names: str) -> Iterator[tuple[str, Unit]]:
    for dimension, units in WORDS.read("units").items():
        for each in units:
            unit = Unit(dimension, each["size"], each.get("imperial", False))
            yield from ((name.replace("_", " "), unit) for name in each.get(names, "").split())


UNIT_BY_NAME: Final = dict(_units_by_name("names"))
# Pounds are of mass or of money.
OTHER_UNIT_BY_NAME: Final = dict(_units_by_name("also"))
PERCENT: Final = UNIT_BY_NAME["%"]
YEAR: Final = UNIT_BY_NAME["year"]
MINUTE: Final = UNIT_BY_NAME["minute"]
DAY: Final = UNIT_BY_NAME["day"]
# Quarters of a year by their number: Q3, the third quarter.
QUARTER: Final = Unit("quarter", 1.0)
# The day of a date: "the 12th" may be that of "12 March".
DAY_OF_DATE: Final = Unit("day of a date", 1.0)
_LONGEST_FIRST = sorted(UNIT_BY_NAME, key=len, reverse=True)
_WORDS = "|".join(re.escape(name) for name in _LONGEST_FIRST if name.isascii() and name[-1].isalnum())
_OTHERS = "|".join(re.escape(name) for name in _LONGEST_FIRST if not (name.isascii() and name[-1].isalnum()))
# After a number; a letter must not go on after the name of a unit, a Han character may.
UNIT_AFTER: Final = re.compile(rf"[ -]?(?P<unit>(?:{_WORDS})(?![a-zà-öø-ÿ])|{_OTHERS})")
_UNIT_BEFORE: Final = re.compile(rf"(?<![a-z])(?P<unit>{WORDS.pattern('currencies.before')})\s?\Z")
_LONGEST_BEFORE: Final = 7
# Tens of thousands of people: 万人 behind the number, as in a table's header.
SCALES: Final = {name: float(value) for value, names in WORDS.read("scales").items() for name in names.split()}
SCALE: Final = "|".join(sorted(map(re.escape, SCALES), key=len, reverse=True))
SCALE_AFTER_UNIT: Final = re.compile(rf" ?(?P<scale>{WORDS.pattern('currencies.scale_behind')})(?![a-z])")

_RATE_AFTER, _RATE_BEFORE = (
    re.compile(WORDS.pattern("rates.after")),
    re.compile(f"(?:{WORDS.pattern('rates.before')})\\Z"),
)
_RATE_BY_WORD = {word: rate for rate, words in WORDS.read("rate_words").items() for word in words.split()}
_RATE_REACH_BEFORE, _RATE_REACH_AFTER = 32, 40


def find_rate(text: str, start: int, end: int) -> str:
    """Return what the amount at text[start:end) is counted for, such as "year"; an empty string for no rate."""
    after = _RATE_AFTER.match(text[end : end + _RATE_REACH_AFTER])
    found = after or _RATE_BEFORE.search(text[max(0, start - _RATE_REACH_BEFORE) : start])
    return _RATE_BY_WORD[next(filter(None, found.groups()))] if found else ""


def find_units(text: str, at: int) -> tuple[tuple[Unit, ...], int]:
    """Return what the unit behind a number may be, and its end; nothing and the number's end without one."""
    found = UNIT_AFTER.match(text, at)
    if found is None:
        return (), at
    tables = (UNIT_BY_NAME, OTHER_UNIT_BY_NAME)
    return tuple(table[found["unit"]] for table in tables if found["unit"] in table), found.end()


def find_unit_before(text: str, start: int) -> Unit | None:
    """Return the currency whose sign or code stands before a number."""
    found = _UNIT_BEFORE.search(text[max(0, start - _LONGEST_BEFORE) : start])
    return UNIT_BY_NAME[found["unit"]] if found else None
