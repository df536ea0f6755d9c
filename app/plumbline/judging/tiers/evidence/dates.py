"""Dates and times of day in a text, in the ways that English and Chinese write them."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from plumbline.judging.tiers.evidence.numerals import han_value

_MONTHS = "january february march april may june july august september october november december"
_MONTH_BY_NAME = {name: number for number, name in enumerate(_MONTHS.split(), start=1)}
_MONTH_BY_NAME |= {name[:3]: number for name, number in list(_MONTH_BY_NAME.items())} | {"sept": 9}
_MONTH = rf"(?P<month>{'|'.join(sorted(_MONTH_BY_NAME, key=len, reverse=True))})\b\.?"
_DAY = r"(?P<day>[0-3]?\d)(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>[12]\d{3})(?!\d)"
_HAN = "[〇零一二三四五六七八九十]"
_DATE = tuple(
    re.compile(pattern)
    for pattern in (
        rf"(?<![\d.,]){_DAY}(?:[ -]of)?[ -]{_MONTH}(?:,?[ -]{_YEAR})?",
        rf"\b{_MONTH} {_DAY}(?![\d:]|,\d{{3}})(?:,? {_YEAR})?",
        rf"\b{_MONTH},? (?:of )?{_YEAR}",
        rf"(?<!\d){_YEAR}[-/.](?P<month>[01]?\d)[-/.](?P<day>[0-3]?\d)(?!\d)",
        rf"(?<!\d)(?P<year>[12]\d{{3}}|[〇零一二三四五六七八九]{{4}}) ?年 ?"
        rf"(?P<month>1[0-2]|0?[1-9]|{_HAN}{{1,2}}) ?月(?: ?(?P<day>[0-3]?\d|{_HAN}{{1,3}}) ?[日号])?",
        rf"(?<!\d)(?P<month>1[0-2]|0?[1-9]|{_HAN}{{1,2}}) ?月 ?(?P<day>[0-3]?\d|{_HAN}{{1,3}}) ?[日号]",
        r"(?<!\d)(?P<year>[12]\d{3}|[〇零一二三四五六七八九]{4}) ?年(?!代)",
        r"(?<![\d个])(?P<month>1[0-2]|0?[1-9]) ?月(?!\d)",
    )
)
# Either order: the day before the month or after it.
_NUMERIC = re.compile(r"(?<![\d/.])(?P<first>[0-3]?\d)[/.](?P<second>[0-3]?\d)[/.](?P<year>[12]\d{3}|\d{2})(?![\d/])")
_MONTH_ALONE = re.compile(
    rf"\b(?P<lead>in|of|on|since|until|by|last|this|next|early|mid|late|from|to|during)[ -]{_MONTH}"
)
_MONTH_ANYWHERE = re.compile(rf"\b{_MONTH}")
_TIME = re.compile(
    r"(?<![\d:.])(?P<hour>[012]?\d)(?:[:.](?P<minute>[0-5]\d)(?::[0-5]\d)?)? ?(?P<half>[ap]\.?m\b\.?)"
    r"|(?<![\d:.])(?P<hour2>[012]?\d):(?P<minute2>[0-5]\d)(?![\d:])"
)
_MONTHS_IN_YEAR, _DAYS_IN_MONTH, _HALF_DAY_MINUTES = 12, 31, 720


@dataclass(frozen=True, slots=True)
class Date:
    """A date; parts that are not given are None. Lies at [start:end) of the text."""

    year: int | None
    month: int | None
    day: int | None
    start: int
    end: int

    @property
    def parts(self) -> tuple[int, ...]:
        return tuple(part for part in (self.year, self.month, self.day) if part is not None)


def find_dates(text: str, *, lone_months: str = "led") -> tuple[list[Date], str]:
    """Return the dates of a casefolded text, and the text with blanks in their place.

    A month without day or year counts where it is "led" by a word such as "in", or "anywhere".
    """
    dates: list[Date] = []
    for pattern in _DATE:
        found = [date for match in pattern.finditer(text) if (date := _date(match)) is not None]
        dates += found
        text = blanked(text, [(date.start, date.end) for date in found])
    spans = []
    for match in _NUMERIC.finditer(text):
        year = int(match["year"]) if len(match["year"]) == 4 else 2000 + int(match["year"])  # noqa: PLR2004
        first, second = int(match["first"]), int(match["second"])
        readings = [
            Date(year, month, day, *match.span())
            for day, month in dict.fromkeys([(first, second), (second, first)])
            if 1 <= month <= _MONTHS_IN_YEAR and 1 <= day <= _DAYS_IN_MONTH
        ]
        dates += readings
        spans += [match.span()] if readings else []
    text = blanked(text, spans)
    alone = _MONTH_ALONE if lone_months == "led" else _MONTH_ANYWHERE
    dates += [Date(None, _MONTH_BY_NAME[match["month"]], None, *match.span()) for match in alone.finditer(text)]
    return dates, text


def find_times(text: str) -> Iterator[tuple[int, tuple[int, int]]]:
    """Yield times of day in a casefolded text, in minutes on a dial of twelve hours, each with its place."""
    for match in _TIME.finditer(text):
        hour, minute = int(match["hour"] or match["hour2"]), int(match["minute"] or match["minute2"] or 0)
        yield (60 * hour + minute) % _HALF_DAY_MINUTES, match.span()


def _date(match: re.Match[str]) -> Date | None:
    parts = match.groupdict()
    year, day = _number(parts.get("year")), _number(parts.get("day"))
    name = parts.get("month")
    month = _MONTH_BY_NAME[name] if name in _MONTH_BY_NAME else _number(name)
    is_month = month is None or 1 <= month <= _MONTHS_IN_YEAR
    if not is_month or (day is not None and not 1 <= day <= _DAYS_IN_MONTH):
        return None
    return Date(year, month, day, *match.span())


def _number(digits: str | None) -> int | None:
    if not digits:
        return None
    return int(digits) if digits.isdecimal() else int(han_value(digits))


def blanked(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """Replace spans, which ascend and do not overlap, by blanks."""
    parts: list[str] = []
    at = 0
    for start, end in spans:
        parts += (text[at:start], " " * (end - start))
        at = end
    return "".join([*parts, text[at:]])
