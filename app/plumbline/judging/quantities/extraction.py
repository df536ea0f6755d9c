"""Numbers, dates, amounts and shares in a text, normalised for comparison of a claim with its evidence."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

from plumbline.ground.concurrency import within_deadline
from plumbline.judging.quantities.arithmetic import YEARS, Facts, Hedge, Quantity, Stated
from plumbline.judging.quantities.dates import Date, Time, blank_spans, find_dates, find_times
from plumbline.judging.quantities.derivation import MAX_QUANTITIES, derive
from plumbline.judging.quantities.numerals import (
    CARDINALS,
    ENGLISH_NUMERAL,
    ENGLISH_PART,
    HAN_NUMERAL,
    HAN_SCALE_VALUES,
    MULTIPLES,
    ORDINALS,
    PERCENT,
    UNIT_AFTER,
    UNIT_BEFORE,
    UNIT_BY_NAME,
    WORDS,
    Unit,
    english_part,
    english_value,
    han_value,
    letter_runs,
    roman_values,
)
from plumbline.judging.quantities.phrases import find_phrases
from plumbline.judging.text.words import CITATION_MARK, nfkc, pieces, to_simplified

_SCALES = {
    "hundred": 1e2, "thousand": 1e3, "k": 1e3, "million": 1e6, "mln": 1e6, "mn": 1e6, "m": 1e6, "billion": 1e9,
    "bn": 1e9, "b": 1e9, "trillion": 1e12, "tn": 1e12, "万亿": 1e12, "百万": 1e6, "千万": 1e7, "十万": 1e5,
    "百亿": 1e10, "千亿": 1e11,
} | {name: float(value) for name, value in HAN_SCALE_VALUES.items() if name not in "十拾"}  # fmt: skip
_SCALE = "|".join(sorted(_SCALES, key=len, reverse=True))
_DIGITS = re.compile(
    r"(?P<number>\d(?:\d{0,2}(?:,\d{3})+(?!\d)(?:\.\d+)?|\d{0,2}(?:[ '’]\d{3})+(?!\d)|\d*(?:\.\d+)?))"
    # The 千 of 千克 belongs to the unit.
    rf"(?P<suffix>(?:st|nd|rd|th)(?![a-z])|s(?![a-z])|[ -]?(?!千[克米瓦])(?:{_SCALE})(?![a-z]))?"
)
_GAP = re.compile("[ ,'’]")
# 2,413 in German and Spanish.
_DOTTED = re.compile(r"[1-9]\d{0,2}\.\d{3}")
# Tokenised news writes "31. 8 million".
_TORN = re.compile(r"(?<=\d)([.,]) (?=\d)")
_AFTER_DIGIT = re.compile(r"\d[ -]?\Z")
_RATIO = re.compile(r"(?<![\d/])(\d{1,3}) ?[/⁄] ?(\d{1,3})(?![\d/])")
_HAN = re.compile("[〇\u3400-\u9fff\uf900-\ufaff]")
_HAN_SHARE = re.compile(
    f"百分之(?P<number>\\d+(?:\\.\\d+)?|{HAN_NUMERAL.pattern})|(?P<tenths>[一二两兩三四五六七八九\\d])成(?![立为功])"
)
_CENTURY = re.compile(r"(?:-| )?centur(?:y|ies)|世纪")
_SHORT_RANGE = re.compile(r"(?P<century>[12](?<!\d[12])\d)\d\d ?[-–—/]{1,2} ?(?P<year>\d\d)(?![\d/-])")
# The day, month and year of a date are numbers, and no amounts of anything.
_OF_DATE = Unit("date", 1.0)
_FISCAL_YEAR = re.compile(r"(?<![a-z])fy ?['’]?(\d\d)(?!\d)")
_ABOUT_WORDS, _OVER_WORDS, _UNDER_WORDS = (WORDS.pattern(f"hedges.{hedge}") for hedge in ("about", "over", "under"))
_ABOUT = re.compile(rf"(?:{_ABOUT_WORDS})[ ]?(?:an? |the |us)?[$€£¥]?\Z")
_OVER = re.compile(rf"(?:{_OVER_WORDS})[ ]?(?:an? |us)?[$€£¥]?\Z")
_UNDER = re.compile(rf"(?:{_UNDER_WORDS})[ ]?(?:an? |us)?[$€£¥]?\Z")
_HEDGED = re.compile(f"{_ABOUT_WORDS}|{_OVER_WORDS}|{_UNDER_WORDS}")
_ABOUT_AFTER = re.compile(r" ?(?:or so\b|左右|上下)")
_OVER_AFTER = re.compile(r" ?(?:or more\b|plus\b|\+|[多余來来](?!自)|以上)")
_HEDGED_AFTER = re.compile(rf"{_ABOUT_AFTER.pattern}|{_OVER_AFTER.pattern}")
_HEDGE_REACH_CHARACTERS = 20
# Most numbers stand behind one of these.
_NO_HEDGES = frozenset({"in ", "of ", "by ", "on ", "at ", "or "})
_APPARATUS = re.compile(CITATION_MARK + r"|(?:https?://|www\.)[^\s<>()]{1,500}|(?<!\bm)(?<!km)[¹²³⁰⁴-⁹]{1,4}")
_LIST_MARK = re.compile(r"\A\s*\(?\d{1,2}(?:[.)]\s+|、)")
# "type 1" names a kind, where most ones only point at something.
_KIND = r"\b(?:type|phase|stage|grade|level|class|category|tier|zone)[ -]"
_KIND_BEFORE = re.compile(_KIND + r"\Z")
FIRST_KIND = _KIND + r"i\b|(?<![a-z])i[型级类期]"
_FIRST_KIND = re.compile(FIRST_KIND)
_LONGEST_KIND = 12
_VULGAR = re.compile("(\\d)([¼-¾⅐-⅞])")
# In a claim a Han numeral counts as a quantity only where a measure word or a second digit tells that it is one.
_MEASURES = frozenset(WORDS.read("han.measures").replace("\n", ""))
_HAN_IDIOMS = re.compile(WORDS.pattern("han.idioms"))
_TWO, _YEAR_DIGITS = 2, 4
_WORD = re.compile(r"[a-z-]{3,20}")
# Ordinals, multiples and their plurals.
_NUMBER_WORDS = {f"{word}s": value for word, value in MULTIPLES.items()} | MULTIPLES | ORDINALS


def stated_in_claim(text: str) -> Stated:
    """Return the quantities of a claim that need evidence; "one", "first" and numbers inside names are skipped."""
    if not text.isascii() or any(map(text.__contains__, ("[", "(", "//", "www."))):
        text = _APPARATUS.sub(" ", text)
    text = _LIST_MARK.sub("", prepare_text(text))
    if not text.isascii() or "-" in text or "/" in text:
        text = _SHORT_RANGE.sub(lambda match: f"{match[0][:4]} {match['century']}{match['year']}", text)
    written = text
    dates, text = find_dates(text)
    times = list(find_times(text))
    text = blank_spans(text, _spans(times))
    phrases = list(find_phrases(text, in_claim=True))
    text = blank_spans(text, _spans(phrases))
    quantities = [
        *phrases, *_digits(text, in_claim=True), *_english(text, in_claim=True), *_han(text, in_claim=True),
    ]  # fmt: skip
    if "年" in text:
        quantities = [
            replace(each, others=(1900 + each.value,)) if _is_short_year(text, each) else each for each in quantities
        ]
    return Stated(tuple(quantities), tuple(dates), tuple(times), written)


def facts_in(text: str) -> Facts:
    """Return all that a passage may state, and what plainly follows; ambiguous numbers are read in every way."""
    amounts: list[tuple[float, Unit | None]] = []
    times: set[int] = set()
    read: list[tuple[str, list[Quantity], list[Date]]] = []
    for piece in within_deadline(pieces(text)):
        folded = prepare_text(piece)
        dates, rest = find_dates(folded, lone_months="anywhere")
        times.update(time.minutes for time in find_times(folded, bare=True))
        quantities = [
            *_digits(folded, in_claim=False),
            *_english(rest, in_claim=False),
            *_han(rest, in_claim=False),
            *find_phrases(rest, in_claim=False),
        ]
        for quantity in chain(quantities, _find_implied(rest)):
            amounts.append((quantity.value, quantity.unit))
            amounts += [(value, None) for value in quantity.others]
            if quantity.is_century:
                amounts.append((100 * quantity.value - 50, None))
            elif _is_short_year(folded, quantity) or (quantity.is_decade and quantity.value < 100):  # noqa: PLR2004
                amounts.append((1900 + quantity.value, None))
        if _TORN.search(folded):
            amounts += [(each.value, each.unit) for each in _digits(_TORN.sub(r"\1", folded), in_claim=False)]
        amounts += [(value, None) for value in roman_values(piece)]
        amounts += [(1.0, None)] if _FIRST_KIND.search(folded) else []
        amounts += [(float(century + year), None) for century, year in _SHORT_RANGE.findall(folded)]
        amounts += [(2000.0 + int(year), None) for year in (_FISCAL_YEAR.findall(folded) if "fy" in folded else ())]
        read.append((folded, quantities, dates))
    found = [date for _, _, dates in read for date in dates]
    # Anything follows from a table of more numbers.
    if sum(len(quantities) for _, quantities, _ in read) <= MAX_QUANTITIES:
        for folded, quantities, dates in read:
            derived, later = derive(folded, quantities, dates)
            found += later
            amounts += derived
    amounts += [(float(part), _OF_DATE) for date in within_deadline(found) for part in date.parts]

    def bounds() -> frozenset[tuple[Hedge, float]]:
        # Few claims ask for them.
        return frozenset(
            (_hedge(folded, each.start, each.end), each.value) for folded, quantities, _ in read for each in quantities
        )

    return Facts(amounts, found, frozenset(times), text, bounds)


def _is_short_year(text: str, quantity: Quantity) -> bool:
    """Return True if it may be 85年 or 九八年, which is 1985 or 1998; 二十六年 counts years."""
    written = text[quantity.start : quantity.end]
    return 10 <= quantity.value < 100 and written.endswith("年") and "十" not in written  # noqa: PLR2004


def _spans(found: Sequence[Time | Quantity]) -> list[tuple[int, int]]:
    """Return where they lie, ascending; of two that overlap the first."""
    spans: list[tuple[int, int]] = []
    for start, end in sorted((each.start, each.end) for each in found):
        if not spans or start >= spans[-1][1]:
            spans.append((start, end))
    return spans


def same_numbers(quote: str, passage: str) -> bool:
    """Return True if every number of the quote, digits or words, stands in the passage."""
    return facts_in(quote).values <= facts_in(passage).values


def prepare_text(text: str) -> str:
    """Return the text in which quantities are read: in NFKC and folded case, ¾ apart from the number before it."""
    return text.casefold() if text.isascii() else to_simplified(nfkc(_VULGAR.sub(r"\1 \2", text)).casefold())


def _digits(text: str, *, in_claim: bool) -> Iterator[Quantity]:
    for match in within_deadline(_DIGITS.finditer(text)):
        start, end = match.span()
        if in_claim and _is_in_name(text, start, end):
            continue
        number, mark = match["number"], match["suffix"] or ""
        suffix = mark.strip(" -")
        compact = number if number.isdigit() else _GAP.sub("", number)
        value, step = float(compact), 10.0 ** -len(compact.partition(".")[2])
        others: tuple[float, ...] = ()
        before = UNIT_BEFORE.search(text[max(0, start - 5) : start])
        unit = UNIT_BY_NAME[before["unit"]] if before else None
        if suffix in _SCALES and suffix in UNIT_BY_NAME and unit is None:
            # "1500 m" is metres and "1.2m" a million, more often than not.
            if not in_claim or mark[0] == " ":
                hedge = _hedge(text, start, end) if in_claim else ""
                yield Quantity(value, UNIT_BY_NAME[suffix], step, hedge, start=start, end=end)
            if in_claim and mark[0] == " ":
                continue
        if suffix in _SCALES:
            others = (value,) if (suffix in UNIT_BY_NAME and unit is None) or not in_claim else ()
            value, step = value * _SCALES[suffix], step * _SCALES[suffix]
        else:
            others = () if number.isdigit() else _other_readings(number, in_claim=in_claim)
        is_decade = suffix == "s" or text.startswith("年代", end)
        after = UNIT_AFTER.match(text, end) if not (is_decade or suffix in ("st", "nd", "rd", "th")) else None
        if after:
            unit, end = UNIT_BY_NAME[after["unit"]], after.end()
        if in_claim and value == 1 and unit is None and not _names_kind(text, start, end):
            continue
        yield Quantity(
            value,
            unit,
            step,
            _hedge(text, start, end) if in_claim else "",
            others,
            is_year=number.isdigit() and len(number) == _YEAR_DIGITS and not suffix,
            is_century=bool(_CENTURY.match(text, end)),
            is_decade=is_decade,
            start=start,
            end=end,
        )


def _other_readings(number: str, *, in_claim: bool) -> tuple[float, ...]:
    """Return 2413 for "2.413", the parts of "1 200", nothing for most numbers."""
    if _DOTTED.fullmatch(number):
        return (float(number.replace(".", "")),)
    parts = re.split("[ '’]" if in_claim else "[ ,'’]", number)
    return tuple(float(part.replace(",", "")) for part in parts) if len(parts) > 1 else ()


def _english(text: str, *, in_claim: bool) -> Iterator[Quantity]:
    if in_claim and CARDINALS.isdisjoint(letter_runs(text)):
        return
    for match in ENGLISH_NUMERAL.finditer(text):
        value = english_value(match.group())
        if _AFTER_DIGIT.search(text, max(0, match.start() - 2), match.start()):
            continue
        if in_claim and (value <= 1 or ENGLISH_PART.match(text, match.start())):
            continue
        unit, end = _unit_after(text, match.end())
        yield Quantity(
            value,
            unit,
            1.0,
            _hedge(text, match.start(), end) if in_claim else "",
            is_year=value in YEARS and " " in match.group(),
            is_century=bool(_CENTURY.match(text, end)),
            start=match.start(),
            end=end,
        )


def _find_implied(text: str) -> Iterator[Quantity]:
    """Yield the values of fractions and of words such as "half", "twice" and "third"; claims are not held to them."""
    for match in ENGLISH_PART.finditer(text):
        yield from _share(english_part(match["count"], match["part"]))
    words = set(_WORD.findall(text))
    yield from (Quantity(float(_NUMBER_WORDS[word]), None, 1.0) for word in words & _NUMBER_WORDS.keys())
    if not words.isdisjoint(("half", "halved")):
        yield from _share(0.5)
    for count, divisor in _RATIO.findall(text):
        if int(divisor):
            yield from _share(int(count) / int(divisor))


def _han(text: str, *, in_claim: bool) -> Iterator[Quantity]:
    if text.isascii() or not _HAN.search(text):
        return
    for match in _HAN_SHARE.finditer(text):
        number = match["number"] or match["tenths"]
        value = float(number) if number[0].isdigit() else han_value(number)
        yield Quantity(value * (10.0 if match["tenths"] else 1.0), PERCENT, 1.0, start=match.start(), end=match.end())
    if not in_claim and "半" in text:
        yield from _share(0.5)
    for match in HAN_NUMERAL.finditer(text):
        start, end = match.span()
        if text[max(0, start - 1) : start].isdigit() or (in_claim and not _is_han_quantity(text, start, end)):
            continue
        is_century = text.startswith("世纪", end)
        unit, end = _unit_after(text, end)
        hedge = _hedge(text, start, end) if in_claim else ""
        yield Quantity(han_value(match.group()), unit, 1.0, hedge, is_century=is_century, start=start, end=end)


def _unit_after(text: str, at: int) -> tuple[Unit | None, int]:
    """Return the unit that stands behind a number, and its end; None and the number's end without one."""
    found = UNIT_AFTER.match(text, at)
    return (UNIT_BY_NAME[found["unit"]], found.end()) if found else (None, at)


def _share(share: float) -> Iterator[Quantity]:
    yield Quantity(share, None, 1.0)
    yield Quantity(share * 100, PERCENT, 1.0)


def _is_han_quantity(text: str, start: int, end: int) -> bool:
    numeral = text[start:end]
    if _HAN_IDIOMS.match(text, start) or numeral in ("一", "百", "千", "万", "亿", "零"):
        return False
    if text[max(0, start - 3) : start].endswith("之") or text.startswith(("分之", "成"), end):
        return False
    if numeral == "二" and text[max(0, start - 1) : start] == "第" and text[end : end + 1] in ("年", "天", "日"):
        # The year after, the day after.
        return False
    return end < len(text) and (text[end] in _MEASURES or text.startswith("世纪", end))


def _names_kind(text: str, start: int, end: int) -> bool:
    before = text[max(0, start - _LONGEST_KIND) : start]
    return bool(_KIND_BEFORE.search(before)) or text.startswith(("型", "级", "类", "期"), end)


def _is_in_name(text: str, start: int, end: int) -> bool:
    """Return True if letters are joined to the number: COVID-19, F-16, 3D; a hash of a name is not a quantity."""
    before, after = text[max(0, start - 2) : start], text[end : end + 2]
    if before and ((before[-1].isascii() and before[-1].isalpha()) or before[-1] in "_#"):
        return not before.endswith(("$", "rmb", "usd"))
    if len(before) == _TWO and before[1] in "-–./" and before[0].isascii() and before[0].isalnum():
        return before[0].isalpha()
    return bool(after and after[0].isascii() and after[0].isalpha() and not UNIT_AFTER.match(text, end))


def _hedge(text: str, start: int, end: int) -> Hedge:
    before = text[max(0, start - _HEDGE_REACH_CHARACTERS) : start]
    if before[-3:] in _NO_HEDGES:
        before = ""
    if not (_HEDGED.search(before) or _HEDGED_AFTER.match(text, end)):
        return ""
    if _ABOUT.search(before) or _ABOUT_AFTER.match(text, end):
        return "about"
    if _OVER.search(before) or _OVER_AFTER.match(text, end):
        return "over"
    return "under" if _UNDER.search(before) else ""
