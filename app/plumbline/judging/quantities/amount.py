"""Amount: what a text says of how many or how much, read once and compared by its values, unit, sign and rate."""

import re
from dataclasses import dataclass, field
from typing import Literal

from plumbline.judging.quantities.dates import Date, Time
from plumbline.judging.quantities.units import WORDS, Unit

Hedge = Literal["", "about", "over", "under"]
Kind = Literal["number", "year", "decade", "century"]

# Behind an amount, and before it with an article or a currency between.
_HEDGES_AFTER: tuple[tuple[Hedge, re.Pattern[str]], ...] = (
    ("about", re.compile(r" ?(?:or so\b|左右|上下)")),
    ("over", re.compile(r" ?(?:or more\b|plus\b|\+|[多余來来](?!自)|以上)")),
)
_HEDGES: tuple[Hedge, ...] = ("about", "over", "under")
_HEDGE_WORDS = "|".join(f"(?P<{hedge}>{WORDS.pattern(f'hedges.{hedge}')})" for hedge in _HEDGES)
_HEDGE = re.compile(rf"(?:{_HEDGE_WORDS})[ ]?(?:an? |the |us)?[$€£¥]?\Z")
# Most numbers stand behind one of these.
_NO_HEDGES = frozenset({"in ", "of ", "by ", "on ", "at ", "or "})
_CURRENCY = rf"(?:(?:{WORDS.pattern('currencies.before')})\s?)?"
_MINUS, _PLUS = (re.compile(rf"(?:{WORDS.pattern(f'signs.{sign}_before')}){_CURRENCY}\Z") for sign in ("minus", "plus"))
_MINUS_AFTER, _PLUS_AFTER = (re.compile(WORDS.pattern(f"signs.{sign}_after")) for sign in ("minus", "plus"))
_FALLING = re.compile(WORDS.pattern("signs.falling"))
_REACH_BEFORE, _SIGN_REACH, _FALL_REACH_BEFORE, _FALL_REACH_AFTER = 20, 14, 60, 40


@dataclass(frozen=True, slots=True)
class Reading:
    """One meaning of a written amount; `step` is the unit of its last written digit."""

    value: float
    unit: Unit | None
    step: float


@dataclass(frozen=True, slots=True)
class Amount:
    """An amount at [start:end) of the prepared `text`: any of its `readings` is meant, or all `parts`, as of "1 200".

    `is_asked`: a claim that has it needs it in its evidence; "one", "half" and numbers inside of names do not.
    """

    readings: tuple[Reading, ...]
    start: int
    end: int
    text: str = field(repr=False, compare=False, default="")
    kind: Kind = "number"
    parts: tuple[float, ...] = ()
    is_asked: bool = True

    @property
    def value(self) -> float:
        return self.readings[0].value

    @property
    def unit(self) -> Unit | None:
        return self.readings[0].unit

    @property
    def hedge(self) -> Hedge:
        """Return how the wording bounds it: "about 40,000", "up to 40,000"."""
        for hedge, words in _HEDGES_AFTER:
            if words.match(self.text, self.end):
                return hedge
        before = self.text[max(0, self.start - _REACH_BEFORE) : self.start]
        found = None if before[-3:] in _NO_HEDGES else _HEDGE.search(before)
        return next((hedge for hedge in _HEDGES if found[hedge]), "") if found else ""

    @property
    def is_falling(self) -> bool:
        """Return True if words around it say that it is less: "fell by 3 %" is -3 %."""
        around = self.text[max(0, self.start - _FALL_REACH_BEFORE) : self.end + _FALL_REACH_AFTER]
        return _FALLING.search(around) is not None


def find_sign(text: str, start: int, end: int) -> int:
    """Return -1 or 1 where the amount at text[start:end) has a sign, or words for one; else 0."""
    before, after = text[max(0, start - _SIGN_REACH) : start], text[end : end + 2 * _SIGN_REACH]
    if _MINUS.search(before) or _MINUS_AFTER.match(after):
        return -1
    return int(bool(_PLUS.search(before) or _PLUS_AFTER.match(after)))


@dataclass(frozen=True, slots=True)
class Stated:
    """Amounts, dates and times of a text, as it states them."""

    amounts: tuple[Amount, ...]
    dates: tuple[Date, ...]
    times: tuple[Time, ...]
    text: str = ""

    def __bool__(self) -> bool:
        return bool(self.amounts or self.dates or self.times)

    @property
    def asked(self) -> "Stated":
        """Return those that a claim needs in its evidence."""
        amounts = tuple(each for each in self.amounts if each.is_asked)
        dates = tuple(each for each in self.dates if each.is_asked)
        return Stated(amounts, dates, tuple(each for each in self.times if each.is_asked), self.text)

    @property
    def places(self) -> tuple[tuple[int, int], ...]:
        """Return where they stand, in the order of the text, each once."""
        stated: list[Amount | Date | Time] = [*self.amounts, *self.dates, *self.times]
        return tuple(sorted({(each.start, each.end) for each in stated}))

    @property
    def wordings(self) -> tuple[str, ...]:
        """Return them as they are written, each once, in the order of the text."""
        return tuple(dict.fromkeys(self.text[start:end].strip() for start, end in self.places))
