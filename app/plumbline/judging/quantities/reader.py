"""The one reader of amounts: digits, words, phrases, dates and times of a text, in English and Chinese."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from plumbline.ground.deadline import within_deadline
from plumbline.judging.quantities import numerals, units
from plumbline.judging.quantities.amount import Amount, Kind, Reading, Stated
from plumbline.judging.quantities.dates import Time, blank_spans, find_dates, find_times
from plumbline.judging.quantities.numerals import ENGLISH_PART, HAN_NUMERAL, count_value, han_value, prepare_text
from plumbline.judging.quantities.units import PERCENT, SCALES, UNIT_BY_NAME, WORDS, Unit, find_unit_before, find_units
from plumbline.judging.text.identifiers import find_identifiers
from plumbline.judging.text.words import CITATION_MARK, pieces

# Years as a claim means them; frozenset: testing a float against a range is linear.
YEARS = frozenset(range(1_000, 2_100))
# The 千 of 千克 belongs to the unit.
_NUMBER = re.compile(
    rf"(?P<number>{numerals.DIGITS})"
    rf"(?P<suffix>(?:st|nd|rd|th|['’]?s)(?![a-z])|[ -]?(?!千[克米瓦])(?:{units.SCALE})(?![a-z]))?"
)
# Tokenised news writes "1 , 200".
_TORN_APART = re.compile(r"(?<=\d) ([.,]) (?=\d{3}(?!\d))")
_AFTER_DIGIT = re.compile(r"\d[ -]?\Z")
_FRACTION = re.compile(r"(?<![\d/.])(?P<count>\d{1,3}) ?[/⁄] ?(?P<divisor>\d{1,3})(?![\d/])")
_HAN = re.compile("[〇\u3400-\u9fff\uf900-\ufaff]")
_HAN_SHARE = re.compile(
    f"百分之(?P<number>\\d+(?:\\.\\d+)?|{HAN_NUMERAL.pattern})|(?P<tenths>[一二两兩三四五六七八九\\d])成(?![立为功])"
)
_CENTURY = re.compile(r"(?:-| )?centur(?:y|ies)|世纪")
# "2018-19" is two years; "2004-06" may be June.
_SHORT_RANGE = re.compile(r"(?P<century>[12](?<!\d[12])\d)\d\d[-–—/]{1,2}(?P<year>\d\d)(?![\d/-])")
_CITED = re.compile(CITATION_MARK)
_LIST_MARK = re.compile(r"\A\s*\(?\d{1,2}(?:[.)]\s+|、)")
_IDIOM = re.compile(WORDS.pattern("idioms.whole"))
_SAID_BEFORE = re.compile(rf"(?:{WORDS.pattern('idioms.before')})\Z")
_LONGEST_SAID_BEFORE = 12
# In a claim a Han numeral counts as a quantity only where a measure word or a second digit tells that it is one.
_MEASURES = frozenset(WORDS.read("han.measures").replace("\n", ""))
_HAN_IDIOMS = re.compile(WORDS.pattern("han.idioms"))
_WORD = re.compile(r"[a-z-]{3,20}")
_ORDINALS = ("st", "nd", "rd", "th")
_YEAR_DIGITS = 4
# A share stated as a fraction meets one in percent that is rounded to tens.
_SHARE_STEP, _ONE_IN_STEP = 0.05, 0.2


def read_amounts(text: str, *, is_claim: bool = True) -> Stated:
    """Return the amounts, dates and times of a text, each read in every way that it may be meant.

    `is_claim`: an answer's text may begin with the mark of a list and cite; a Chinese passage's "¥" is the yuan.
    """
    if is_claim:
        return _read_piece(_prepare_claim(text), text)
    found = [_read_piece(_prepare_passage(piece), piece) for piece in within_deadline(pieces(text))]
    if len(found) == 1:
        return found[0]
    # Each amount knows the piece in which it stands.
    return Stated(
        tuple(amount for each in found for amount in each.amounts),
        tuple(date for each in found for date in each.dates),
        tuple(time for each in found for time in each.times),
        "".join(each.text for each in found),
    )


def _read_piece(written: str, piece: str) -> Stated:
    dates, text = find_dates(written)
    times = list(find_times(text))
    text = blank_spans(text, _spans(times))
    phrases = list(_find_phrases(text))
    text = blank_spans(text, _spans([each for each in phrases if each.is_asked]))
    amounts = [*phrases, *_digits(text, written), *_english(text, written), *_han(text, written), *_implied(text)]
    amounts += [_amount(float(date.year), None, is_asked=False) for date in dates if date.year]
    amounts += [_amount(float(date.day), units.DAY_OF_DATE, is_asked=False) for date in dates if date.day]
    return Stated(tuple(amounts), tuple(dates), tuple(times), written)


def _prepare_claim(piece: str) -> str:
    if names := [(each.start, each.end) for each in find_identifiers(piece)]:
        piece = blank_spans(piece, names)
    if "[" in piece or "(" in piece or not piece.isascii():
        piece = _CITED.sub(" ", piece)
    return _TORN_APART.sub(r"\1", _IDIOM.sub(" ", _LIST_MARK.sub("", prepare_text(piece))))


def _prepare_passage(piece: str) -> str:
    text = prepare_text(piece)
    if "¥" in text and _HAN.search(text) and "日" not in text:
        text = text.replace("¥", "rmb")
    return _TORN_APART.sub(r"\1", text)


def _spans(found: Sequence[Time | Amount]) -> list[tuple[int, int]]:
    """Return where they lie, ascending; of two that overlap the first."""
    spans: list[tuple[int, int]] = []
    for start, end in sorted((each.start, each.end) for each in found):
        if not spans or start >= spans[-1][1]:
            spans.append((start, end))
    return spans


def _digits(text: str, written: str) -> Iterator[Amount]:
    shares: dict[int, float] = {}
    for match in _FRACTION.finditer(text) if "/" in text or "⁄" in text else ():
        if int(match["divisor"]):
            share = int(match["count"]) / int(match["divisor"])
            shares |= {match.start("count"): share, match.start("divisor"): share}
    for match in within_deadline(_NUMBER.finditer(text)):
        start, number, suffix = match.start(), match["number"], (match["suffix"] or "").strip(" -'’")
        values, parts = numerals.read_digits(number)
        if not values:
            yield from (_amount(part, None, is_asked=False) for part in parts)
            continue
        readings, end = _with_units(text, match, values)
        value = values[0][0]
        kind: Kind = "century" if _CENTURY.match(text, end) else "number"
        if suffix == "s" or text.startswith("年代", end):
            kind = "decade"
        elif number.isdigit() and len(number) == _YEAR_DIGITS and end == match.end() and not suffix:
            # "1000人" counts people.
            kind = "number" if text[end : end + 1] in _MEASURES else "year"
        if start in shares:
            share = shares[start]
            readings += [Reading(share, None, _SHARE_STEP), Reading(100 * share, PERCENT, 100 * _SHARE_STEP)]
        is_bare_one = value == 1 and readings[0].unit is None
        is_asked = not (is_bare_one or _is_in_name(text, start, match.end()) or _is_said_before(text, start, value))
        yield Amount(tuple(readings), start, end, written, kind, parts, is_asked)
        if suffix in SCALES:
            yield _amount(value, None, is_asked=False)


def _with_units(text: str, match: re.Match[str], values: Sequence[numerals.Value]) -> tuple[list[Reading], int]:
    """Return what a number means with its scale and the unit around it, and where that ends."""
    mark, end = match["suffix"] or "", match.end()
    suffix = mark.strip(" -'’")
    if suffix == "s":
        return [Reading(value, None, step) for value, step in values], end
    if suffix in _ORDINALS:
        return [Reading(values[0][0], unit, 1.0) for unit in (None, units.DAY_OF_DATE)], end
    before, factor = find_unit_before(text, match.start()), SCALES.get(suffix, 1.0)
    found, end = find_units(text, end) if not text.startswith("年代", end) else ((), end)
    if found and not suffix and (more := units.SCALE_AFTER_UNIT.match(text, end)):
        end, factor = more.end(), SCALES.get(more["scale"], 1.0)
    readings = [Reading(value * factor, unit, step * factor) for unit in found or (before,) for value, step in values]
    if suffix in UNIT_BY_NAME and not (found or before):
        # "1500 m" is metres and "1.2m" a million, more often than not.
        metres = [Reading(value, UNIT_BY_NAME[suffix], step) for value, step in values]
        readings = metres if mark[0] == " " else [*readings, *metres]
    return readings, end


def _english(text: str, written: str) -> Iterator[Amount]:
    if numerals.CARDINALS.isdisjoint(numerals.letter_runs(text)):
        return
    for match in numerals.ENGLISH_NUMERAL.finditer(text):
        start, value = match.start(), numerals.english_value(match.group())
        if _AFTER_DIGIT.search(text, max(0, start - 2), start):
            continue
        found, end = find_units(text, match.end())
        is_asked = (
            value > 1
            and match.group() not in SCALES
            and not (ENGLISH_PART.match(text, start) or _is_said_before(text, start, value))
        )
        kind: Kind = "year" if value in YEARS and " " in match.group() else "number"
        if _CENTURY.match(text, end):
            kind = "century"
        readings = tuple(Reading(value, unit, 1.0) for unit in found or (None,))
        yield Amount(readings, start, end, written, kind, is_asked=is_asked)


def _implied(text: str) -> Iterator[Amount]:
    """Yield the values of fractions and of words such as "half", "twice" and "third"; claims are not held to them."""
    words = set(_WORD.findall(text))
    shares = [numerals.english_part(*match.group("count", "part")) for match in ENGLISH_PART.finditer(text)]
    shares += [0.5] if "half" in words or "halved" in words or "半" in text else []
    for share in shares:
        yield Amount((Reading(share, None, 1.0), Reading(share * 100, PERCENT, 1.0)), 0, 0, is_asked=False)
    values = [numerals.NUMBER_WORDS[word] for word in words & numerals.NUMBER_WORDS.keys()]
    values += [int(century + year) for century, year in _SHORT_RANGE.findall(text)]
    yield from (_amount(float(value), None, is_asked=False) for value in values)


def _han(text: str, written: str) -> Iterator[Amount]:
    if text.isascii() or not _HAN.search(text):
        return
    for match in _HAN_SHARE.finditer(text):
        value = count_value(match["tenths"]) * 10 if match["tenths"] else count_value(match["number"])
        yield Amount((Reading(value, PERCENT, 1.0),), match.start(), match.end(), written)
    for match in HAN_NUMERAL.finditer(text):
        start, end = match.span()
        if text[max(0, start - 1) : start].isdigit():
            continue
        is_asked = _is_han_quantity(text, start, end)
        kind: Kind = "century" if text.startswith("世纪", end) else "number"
        found, after = find_units(text, end)
        value = han_value(match.group())
        readings = tuple(Reading(value, unit, 1.0) for unit in found or (None,))
        yield Amount(readings, start, after, written, kind, is_asked=is_asked)


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


def _is_said_before(text: str, start: int, value: float) -> bool:
    """Return True for "the two", which only speaks of them again."""
    return value == 2 and _SAID_BEFORE.search(text[max(0, start - _LONGEST_SAID_BEFORE) : start]) is not None  # noqa: PLR2004


def _is_in_name(text: str, start: int, end: int) -> bool:
    """Return True if letters are joined to the number: COVID-19, F-16, 3D; a hash of a name is not a quantity."""
    before, after = text[max(0, start - 2) : start], text[end : end + 2]
    if before and ((before[-1].isascii() and before[-1].isalpha()) or before[-1] in "_#"):
        return find_unit_before(text, start) is None
    if len(before) > 1 and before[-1] in "-–./" and before[-2].isascii() and before[-2].isalnum():
        range_ = _SHORT_RANGE.match(text, max(0, start - _YEAR_DIGITS - 1))
        return before[-2].isalpha() or (range_ is not None and range_.end() == end)
    return bool(after and after[0].isascii() and after[0].isalpha() and not units.UNIT_AFTER.match(text, end))


def _find_phrases(text: str) -> Iterator[Amount]:
    present = set(filter(text.__contains__, _ASCII_WORDS if text.isascii() else _ALL_WORDS))
    for words, pattern, read in _RULES if present else ():
        if not present.isdisjoint(words):
            for match in pattern.finditer(text):
                if (found := read(match)) is not None:
                    yield replace(found, start=match.start(), end=match.end(), text=text)


def _amount(
    value: float, unit: Unit | None, step: float = 1.0, *, parts: tuple[float, ...] = (), is_asked: bool = True
) -> Amount:
    return Amount((Reading(value, unit, step),), 0, 0, parts=parts, is_asked=is_asked)


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


def _share_phrase(match: re.Match[str]) -> Amount | None:
    parts = match.groupdict()
    if part := parts.get("part"):
        return _amount(100 * numerals.english_part(match["count"], part), PERCENT, 100 * _SHARE_STEP)
    divisor, count = (count_value(each) for each in match.group("divisor", "count"))
    share = 100 * count / max(1, divisor)
    if match.group().isascii():
        # "One in five" may also be said of 1 and 5.
        return _amount(share, PERCENT, share * _ONE_IN_STEP, parts=(count, divisor))
    return _amount(share, PERCENT, 100 * _SHARE_STEP if divisor <= 100 else share / 100) if divisor > 1 else None  # noqa: PLR2004


def _compound(match: re.Match[str]) -> Amount | None:
    """Return "1 h 10 min" as 70 minutes, or as 1 and 10."""
    unit, smaller = UNIT_BY_NAME[match["unit"]], UNIT_BY_NAME[match["smaller"]]
    count, more = count_value(match["count"]), count_value(match["more"])
    value = count * unit.size / smaller.size + more
    return _amount(value, smaller, parts=(count, more)) if unit.size > smaller.size else None


# Claims are not held to the last one.
_READERS: Mapping[str, Callable[[re.Match[str]], Amount | None]] = {
    "halves": _halves,
    "discount": _discount,
    "share": _share_phrase,
    "quarter": lambda match: _amount(
        float(numerals.ORDINALS.get(match["number"]) or count_value(match["number"][0])), units.QUARTER
    ),
    "compound": _compound,
    "century": lambda match: replace(_amount(float(numerals.ORDINALS[match["number"]]), None), kind="century"),
    "one_unit": lambda match: _amount(1.0, UNIT_BY_NAME[match["unit"]], is_asked=False),
}
_RULES = tuple(
    (WORDS.words(f"phrase_words.{name}"), re.compile(pattern), read)
    for name, read in _READERS.items()
    for pattern in WORDS.patterns(f"phrases.{name}")
)
_ALL_WORDS = frozenset(word for words, _, _ in _RULES for word in words)
_ASCII_WORDS = frozenset(filter(str.isascii, _ALL_WORDS))
