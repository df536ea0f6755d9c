"""Dates and times of day in a text, in the ways that English and Chinese write them."""

import re
from calendar import monthrange
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from plumbline.judging.quantities.numerals import HOURS, han_value

_MONTHS = "january february march april may june july august september october november december"
_MONTH_BY_NAME = {name: number for number, name in enumerate(_MONTHS.split(), start=1)}
_MONTHS_CUT = tuple(name[:3] for name in _MONTH_BY_NAME)
_MONTH_BY_NAME |= {name[:3]: number for name, number in list(_MONTH_BY_NAME.items())} | {"sept": 9}
_MONTH = rf"(?P<month>{'|'.join(sorted(_MONTH_BY_NAME, key=len, reverse=True))})\b\.?"
_DAY = r"(?P<day>[0-3]?\d)(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>[12]\d{3})(?!\d)"
_HAN = "[〇零一二三四五六七八九十]"
# "15 Feb 19", "'85": of this century or of the last. Without an apostrophe it ends its clause, or it may be a number.
_SHORT_YEAR = r"(?:['’](?P<short>\d\d)(?![\ds])|(?P<short2>\d\d)(?= ?(?:$|[.,;:)\]](?!\d))))"
_HAN_YEAR = r"(?<!\d)(?P<year>[12]\d{3}|[〇零一二三四五六七八九]{4}) ?年"
_HAN_MONTH = rf"(?P<month>1[0-2]|0?[1-9]|{_HAN}{{1,2}}) ?月"
_HAN_DAY = rf"(?P<day>[0-3]?\d|{_HAN}{{1,3}}) ?[日号]"
_JOINED, _NAMED = "joined", "named"
# A pattern is tried where the text has one of these, an apostrophe, or numbers that a mark joins.
_DATE = tuple(
    (marks, re.compile(pattern))
    for marks, pattern in (
        (_NAMED, rf"(?<![\d.,]){_DAY}(?:[ -]of)?[ -]{_MONTH},?[ -]{_SHORT_YEAR}"),
        (_NAMED, rf"\b{_MONTH} {_DAY},? {_SHORT_YEAR}"),
        ("'", rf"\b{_MONTH},? ['’](?P<short>\d\d)(?![\ds])"),
        (_NAMED, rf"(?<![\d.,]){_DAY}(?:[ -]of)?[ -]{_MONTH}(?:,?[ -]{_YEAR})?"),
        (_NAMED, rf"\b{_MONTH} {_DAY}(?![\d:]|,\d{{3}})(?:,? {_YEAR})?"),
        ("last day of", rf"\blast day of {_MONTH}(?:,? (?:of )?{_YEAR})?"),
        (_NAMED, rf"\b{_MONTH},? (?:of )?{_YEAR}"),
        (_JOINED, rf"(?<!\d){_YEAR}[-/.](?P<month>[01]?\d)[-/.](?P<day>[0-3]?\d)(?!\d)"),
        ("月", rf"(?:{_HAN_YEAR} ?)?{_HAN_MONTH}份?的?最后一[天日]"),
        ("月", rf"{_HAN_YEAR} ?{_HAN_MONTH}(?: ?{_HAN_DAY})?"),
        ("月", rf"(?<!\d){_HAN_MONTH} ?{_HAN_DAY}"),
        ("年", rf"{_HAN_YEAR}(?!代)"),
        ("'", r"(?<![\w'’])['’](?P<short>\d\d)(?![\w'’])"),
        ("月", r"(?<![\d个十])(?P<month>1[0-2]|0?[1-9]|十[一二]?|[一二三四五六七八九]) ?月(?![\d球亮饼光])"),
    )
)
# Either order: the day before the month or after it.
_NUMERIC = re.compile(r"(?<![\d/.])(?P<first>[0-3]?\d)[/.](?P<second>[0-3]?\d)[/.](?P<year>[12]\d{3}|\d{2})(?![\d/])")
_JOIN = re.compile(r"[-/.](?<=\d[-/.])\d")
_MONTH_ALONE = re.compile(
    rf"\b(?P<lead>in|of|on|since|until|by|last|this|next|early|mid|late|from|to|during)[ -]{_MONTH}"
)
_MONTH_ANYWHERE = re.compile(rf"\b{_MONTH}")
_TIME = re.compile(
    r"(?<![\d:.])(?P<hour>[012]?\d)(?:[:.](?P<minute>[0-5]\d)(?::[0-5]\d)?)? ?(?P<half>[ap]\.?m\b\.?)"
    r"|(?<![\d:.])(?P<hour2>[012]?\d):(?P<minute2>[0-5]\d)(?![\d:])"
    r"|\b(?P<twelve>noon|midday|midnight)\b|(?P<twelve_han>正午|午夜)"
)
_CLOCK = re.compile(r"\d(?: ?[ap]\.?m|:\d)")
_NAMED_TIMES = ("noon", "midday", "midnight", "正午", "午夜")
_SPOKEN = ("half past ", "quarter past ", "quarter to ")
_SPOKEN_TIME = re.compile(rf"\b(?P<part>half past|quarter (?:past|to)) (?P<hour>{'|'.join(HOURS)}|1[0-2]|[1-9])\b")
# "三点" may be three points: there it needs a part of the day, or minutes.
_HAN_TIME = re.compile(
    rf"(?P<part>[上下]午|[早晚]上|凌晨|清晨|傍晚|中午|夜里|当晚)?"
    rf"(?<![\d.{_HAN[1:-1]}])(?P<hour>[012]?\d|{_HAN}{{1,3}})[点點时時]"
    rf"(?:(?P<half>半)|(?P<quarters>[一三])刻|(?P<minute>[0-5]?\d|{_HAN}{{1,3}})分)?"
)
_HAN_HOUR = re.compile("[点點时時]")
_LAST_DAY = re.compile("^last day|最后一[天日]$")
# Year of a date that names none.
LEAP_YEAR = 2_000
_MONTHS_IN_YEAR, _DAYS_IN_MONTH, _HALF_DAY_MINUTES = 12, 31, 720
_HOUR, _HALF_HOUR, _QUARTER_HOUR, _HOURS_IN_DAY = 60, 30, 15, 24


@dataclass(frozen=True, slots=True)
class Time:
    """A time of day in minutes on a dial of twelve hours. Lies at [start:end) of the text."""

    minutes: int
    start: int
    end: int


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
    has_month = any(map(text.__contains__, _MONTHS_CUT)) and _MONTH_ANYWHERE.search(text) is not None
    marks = set(filter(text.__contains__, ("月", "年", "last day of")))
    if "'" in text or "’" in text:
        marks.add("'")
    if has_month:
        marks.add(_NAMED)
    if _JOIN.search(text):
        marks.add(_JOINED)
    for mark, pattern in _DATE:
        if mark not in marks:
            continue
        found = [date for match in pattern.finditer(text) for date in _read(match)]
        dates += found
        text = blank_spans(text, list(dict.fromkeys((date.start, date.end) for date in found)))
    spans = []
    for match in _NUMERIC.finditer(text) if _JOINED in marks else ():
        year = match["year"]
        years = (int(year),) if len(year) == 4 else _centuries(year)  # noqa: PLR2004
        first, second = int(match["first"]), int(match["second"])
        readings = [
            Date(year, month, day, *match.span())
            for year in years
            for day, month in dict.fromkeys([(first, second), (second, first)])
            if 1 <= month <= _MONTHS_IN_YEAR and 1 <= day <= _DAYS_IN_MONTH
        ]
        dates += readings
        spans += [match.span()] if readings else []
    text = blank_spans(text, spans)
    if not has_month:
        return dates, text
    alone = _MONTH_ALONE if lone_months == "led" else _MONTH_ANYWHERE
    dates += [Date(None, _MONTH_BY_NAME[match["month"]], None, *match.span()) for match in alone.finditer(text)]
    return dates, text


def find_times(text: str, *, bare: bool = False) -> Iterator[Time]:
    """Yield the times of day in a casefolded text; `bare`: those too that may count something else, as in "三点"."""
    has_time = _CLOCK.search(text) is not None or any(map(text.__contains__, _NAMED_TIMES))
    for match in _TIME.finditer(text) if has_time else ():
        hour, minute = int(match["hour"] or match["hour2"] or 0), int(match["minute"] or match["minute2"] or 0)
        yield Time((_HOUR * hour + minute) % _HALF_DAY_MINUTES, *match.span())
    for match in _SPOKEN_TIME.finditer(text) if any(map(text.__contains__, _SPOKEN)) else ():
        minute = _HALF_HOUR if match["part"] == "half past" else _QUARTER_HOUR
        hour = HOURS.get(match["hour"]) or int(match["hour"])
        minutes = _HOUR * hour + (-minute if match["part"] == "quarter to" else minute)
        yield Time(minutes % _HALF_DAY_MINUTES, *match.span())
    for match in _HAN_TIME.finditer(text) if _HAN_HOUR.search(text) else ():
        if not (bare or any(match.group("part", "half", "quarters", "minute"))):
            continue
        hour, quarters = _number(match["hour"]) or 0, _number(match["quarters"]) or 0
        minute = _HALF_HOUR if match["half"] else quarters * _QUARTER_HOUR + (_number(match["minute"]) or 0)
        if hour <= _HOURS_IN_DAY and minute < _HOUR:
            yield Time((_HOUR * hour + minute) % _HALF_DAY_MINUTES, *match.span())


def _read(match: re.Match[str]) -> Iterator[Date]:
    parts = match.groupdict()
    day, name, short = _number(parts.get("day")), parts.get("month"), parts.get("short") or parts.get("short2")
    month = _MONTH_BY_NAME[name] if name in _MONTH_BY_NAME else _number(name)
    is_month = month is None or 1 <= month <= _MONTHS_IN_YEAR
    if month and is_month and _LAST_DAY.search(match.group()):
        day = monthrange(_number(parts.get("year")) or LEAP_YEAR, month)[1]
    if is_month and (day is None or 1 <= day <= _DAYS_IN_MONTH):
        for year in _centuries(short) if short else (_number(parts.get("year")),):
            yield Date(year, month, day, *match.span())


def _centuries(short_year: str) -> tuple[int, int]:
    return 1900 + int(short_year), 2000 + int(short_year)


def _number(digits: str | None) -> int | None:
    if not digits:
        return None
    return int(digits) if digits.isdecimal() else int(han_value(digits))


def blank_spans(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """Replace spans, which ascend and do not overlap, by blanks."""
    parts: list[str] = []
    at = 0
    for start, end in spans:
        parts += (text[at:start], " " * (end - start))
        at = end
    return "".join([*parts, text[at:]])
