"""Dates and times of day in a text, in the ways that English, Chinese and the larger European languages write them."""

import re
from calendar import monthrange
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from plumbline.judging.quantities.numerals import HOURS, count_value, letter_runs
from plumbline.judging.quantities.units import WORDS

_MONTH_BY_NAME = {name: int(number) for number, names in WORDS.read("months").items() for name in names.split()}
_ENGLISH = {names.split()[0]: int(number) for number, names in WORDS.read("months").items()}
_ENGLISH |= {name[:3]: number for name, number in list(_ENGLISH.items())} | {"sept": 9}
_MONTH_BY_NAME |= _ENGLISH
_NAMES, _FOREIGN_NAMES = frozenset(_MONTH_BY_NAME), frozenset(_MONTH_BY_NAME) - frozenset(_ENGLISH)
_MONTH, _ANY_MONTH = (
    rf"(?P<month>{'|'.join(sorted(names, key=len, reverse=True))})\b\.?" for names in (_ENGLISH, _MONTH_BY_NAME)
)
# The patterns of a kind are tried where the text has its mark; one without a mark, where find_dates says so.
_KINDS: Mapping[str, str] = WORDS.read("date_marks")
_DATE = tuple(
    (kind, re.compile(pattern.replace("MONTH", _MONTH).replace("MONAT", _ANY_MONTH)))
    for kind in _KINDS
    for pattern in WORDS.patterns(f"dates.{kind}")
)
# Either order: the day before the month or after it.
_NUMERIC = re.compile(r"(?<![\d/.])(?P<first>[0-3]?\d)[/.](?P<second>[0-3]?\d)[/.](?P<year>[12]\d{3}|\d{2})(?![\d/])")
_JOIN = re.compile(r"[-/.](?<=\d[-/.])\d")
_LED_MONTH = re.compile(
    r"\b(?!this may\b|to march (?!and|or|[12]\d{3}))"
    rf"(?:in|of|on|since|until|by|last|this|next|early|mid|late|from|to|during)[ -]{_MONTH}"
)
_MONTH_ANYWHERE = re.compile(rf"\b{_MONTH}")
_HAN = "[〇零一二三四五六七八九十]"
_PART_OF_DAY = {word: part for part, words in WORDS.read("day_parts").items() for word in words.split()}
_HAN_PART = f"(?P<part>{'|'.join(word for word in _PART_OF_DAY if not word.isascii())})?"
_TIME = re.compile(
    r"(?<!\d)(?<!\d[:.])(?P<hour>[012]?\d)(?:[:.](?P<minute>[0-5]\d)(?::[0-5]\d)?)? ?"
    r"(?:(?P<half>[ap])\.?m\b\.?|(?:o['’]?clock )?(?:in the |at )(?P<said>morning|afternoon|evening|night)\b)"
    rf"|{_HAN_PART}(?<!\d)(?<!\d[:.])(?P<hour2>[012]?\d)"
    r"(?::(?P<minute2>[0-5]\d|0)(?=:[0-5]\d(?!\d)|(?![\d:]))|h(?P<minute3>[0-5]\d)\b| ?uhr\b| ?o['’]?clock\b)"
    r"|\b(?P<twelve>noon|midday|midnight)\b|(?P<twelve_han>正午|午夜)"
)
_CLOCK = re.compile(r"\d(?: ?[ap]\.?m|:\d|h\d\d| ?uhr| ?o['’]?clock| (?:in the|at) [man])")
_NAMED_TIMES = ("noon", "midday", "midnight", "正午", "午夜")
_SPOKEN_TIME = re.compile(rf"\b(?P<spoken>half past|quarter (?:past|to)) (?P<hour>{'|'.join(HOURS)}|1[0-2]|[1-9])\b")
# "三点" may be three points: there it needs a part of the day, or minutes.
_HAN_TIME = re.compile(
    rf"{_HAN_PART}(?<![\d.{_HAN[1:-1]}])(?P<hour>[012]?\d|{_HAN}{{1,3}})[点點时時]"
    rf"(?:(?P<half>半)|(?P<quarters>[一三])刻|(?P<minute>[0-5]?\d|{_HAN}{{1,3}})分?)?"
)
_HAN_HOUR = re.compile("[点點时時]")
_LAST_DAY = re.compile("^last day|最后一[天日]$")
# Year of a date that names none.
LEAP_YEAR = 2_000
_MONTHS_IN_YEAR, _DAYS_IN_MONTH = 12, 31
_HOUR, _QUARTER_HOUR, _NOON, _HOURS_IN_DAY, _DAY_MINUTES = 60, 15, 12, 24, 1_440
_LAST_HOUR_OF_NIGHT = 4


@dataclass(frozen=True, slots=True)
class Time:
    """A time of day in minutes since midnight, both where it may be before noon or after it. At [start:end)."""

    minutes: frozenset[int]
    start: int
    end: int
    is_asked: bool = True


@dataclass(frozen=True, slots=True)
class Date:
    """A date; parts that are not given are None. Lies at [start:end) of the text.

    `is_asked`: a claim that has it needs it in its evidence; "may" alone may be no month.
    """

    year: int | None
    month: int | None
    day: int | None
    start: int
    end: int
    is_asked: bool = True

    @property
    def parts(self) -> tuple[int, ...]:
        return tuple(part for part in (self.year, self.month, self.day) if part is not None)


def find_dates(text: str) -> tuple[list[Date], str]:
    """Return the dates of a prepared text, and the text with blanks in their place.

    A month without day or year is asked for where it is led by a word such as "in".
    """
    dates: list[Date] = []
    words = frozenset(letter_runs(text))
    has_month, is_joined = not _NAMES.isdisjoint(words), _JOIN.search(text) is not None
    kinds = {kind for kind, mark in _KINDS.items() if mark and mark in text.replace("’", "'")}
    kinds |= {"named"} if has_month else set()
    kinds |= set() if _FOREIGN_NAMES.isdisjoint(words) else {"foreign"}
    kinds |= {"joined"} if is_joined else set()
    for kind, pattern in _DATE:
        if kind in kinds:
            found = [date for match in pattern.finditer(text) for date in _read(match)]
            dates += found
            text = blank_spans(text, list(dict.fromkeys((date.start, date.end) for date in found)))
    spans = []
    for match in _NUMERIC.finditer(text) if is_joined else ():
        first, second = int(match["first"]), int(match["second"])
        readings = [
            Date(year, month, day, *match.span())
            for year in _years(match["year"])
            for day, month in dict.fromkeys([(first, second), (second, first)])
            if 1 <= month <= _MONTHS_IN_YEAR and 1 <= day <= _DAYS_IN_MONTH
        ]
        dates += readings
        spans += [match.span()] if readings else []
    text = blank_spans(text, spans)
    if not has_month:
        return dates, text
    led = {match.end("month"): match.start() for match in _LED_MONTH.finditer(text)}
    for match in _MONTH_ANYWHERE.finditer(text):
        start, is_led = led.get(match.end("month"), match.start()), match.end("month") in led
        dates.append(Date(None, _ENGLISH[match["month"]], None, start, match.end(), is_led))
    return dates, text


def find_times(text: str) -> Iterator[Time]:
    """Yield the times of day in a prepared text; those that may count something else, as in "三点", are not asked."""
    has_time = _CLOCK.search(text) is not None or any(map(text.__contains__, _NAMED_TIMES))
    for match in _TIME.finditer(text) if has_time else ():
        twelve = match["twelve"] or match["twelve_han"]
        if twelve:
            yield Time(frozenset([0 if twelve in ("midnight", "午夜") else _NOON * _HOUR]), *match.span())
            continue
        hour, minute = match["hour"] or match["hour2"], match["minute"] or match["minute2"] or match["minute3"]
        part = {"a": "morning", "p": "afternoon"}.get(match["half"]) or _PART_OF_DAY.get(match["said"] or match["part"])
        # "2:0" may be a result.
        yield Time(_minutes(hour, int(minute or 0), part), *match.span(), is_asked=minute != "0")
    for match in _SPOKEN_TIME.finditer(text) if " past " in text or "quarter to " in text else ():
        minute = 2 * _QUARTER_HOUR if match["spoken"] == "half past" else _QUARTER_HOUR
        hour = HOURS.get(match["hour"]) or int(match["hour"])
        shift = -minute if match["spoken"] == "quarter to" else minute
        yield Time(frozenset((value + shift) % _DAY_MINUTES for value in _minutes(str(hour), 0, None)), *match.span())
    for match in _HAN_TIME.finditer(text) if _HAN_HOUR.search(text) else ():
        is_asked = any(match.group("part", "half", "quarters")) or match.group().endswith("分")
        hour, quarters = _number(match["hour"]) or 0, _number(match["quarters"]) or 0
        minute = 2 * _QUARTER_HOUR if match["half"] else quarters * _QUARTER_HOUR + (_number(match["minute"]) or 0)
        if hour <= _HOURS_IN_DAY and minute < _HOUR:
            part = _PART_OF_DAY.get(match["part"])
            yield Time(_minutes(str(hour), minute, part), *match.span(), is_asked=is_asked)


def _minutes(written: str, minute: int, part: str | None) -> frozenset[int]:
    """Return the minutes since midnight: two for "5:00" without a part of the day, one for "05:00" and "17:00"."""
    hour = int(written)
    if hour > _NOON or written.startswith("0"):
        return frozenset([(_HOUR * hour + minute) % _DAY_MINUTES])
    early, late = ((_HOUR * (hour % _NOON + shift) + minute) for shift in (0, _NOON))
    if part is None:
        return frozenset([early, late])
    is_late = part == "afternoon" or (part == "night" and _LAST_HOUR_OF_NIGHT < hour < _NOON)
    return frozenset([late if is_late else early])


def _read(match: re.Match[str]) -> Iterator[Date]:
    parts = match.groupdict()
    day, name = _number(parts.get("day")), parts.get("month")
    month = _MONTH_BY_NAME[name] if name in _MONTH_BY_NAME else _number(name)
    is_month = month is None or 1 <= month <= _MONTHS_IN_YEAR
    if month and is_month and _LAST_DAY.search(match.group()):
        day = monthrange(_number(parts.get("year")) or LEAP_YEAR, month)[1]
    days = [(day, *match.span())]
    if other := _number(parts.get("other")):
        # Each with a place of its own: two dates at one place are two readings of one.
        (_, first), (at, second) = sorted([(match.start("day"), day), (match.start("other"), other)])
        days = [(first, match.start(), at), (second, at, match.end())]
    if is_month and (day is None or 1 <= day <= _DAYS_IN_MONTH):
        for year in _years(parts.get("year") or parts.get("short") or parts.get("short2")):
            yield from (Date(year, month, each, start, end) for each, start, end in days)


def _years(written: str | None) -> tuple[int | None, ...]:
    """Return the year as written, or the two that two digits may mean."""
    year = _number(written)
    return (1900 + year, 2000 + year) if year is not None and len(written or "") == 2 else (year,)  # noqa: PLR2004


def _number(written: str | None) -> int | None:
    return int(count_value(written)) if written else None


def blank_spans(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """Replace spans, which ascend and do not overlap, by blanks."""
    parts: list[str] = []
    at = 0
    for start, end in spans:
        parts += (text[at:start], " " * (end - start))
        at = end
    return "".join([*parts, text[at:]])
