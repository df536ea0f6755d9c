"""Numerals written as words, English and Chinese, and the units that numbers carry."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_UNITS_WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
    " eighteen nineteen"
)
_TENS_WORDS = "twenty thirty forty fifty sixty seventy eighty ninety"
_ORDINAL_WORDS = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth"
    " sixteenth seventeenth eighteenth nineteenth twentieth"
)
_ONES = {word: value for value, word in enumerate(_UNITS_WORDS.split())}
HOURS = {word: value for word, value in _ONES.items() if 1 <= value <= 12}  # noqa: PLR2004
_TENS = {word: 10 * value for value, word in enumerate(_TENS_WORDS.split(), start=2)}
_SCALES = {"hundred": 100, "thousand": 1_000, "million": 10**6, "billion": 10**9, "trillion": 10**12}
ORDINALS = {word: value for value, word in enumerate(_ORDINAL_WORDS.split(), start=1)}
ORDINALS |= {"thirtieth": 30, "fortieth": 40, "fiftieth": 50, "sixtieth": 60, "hundredth": 100}
_PARTS = {"half": 2, "halves": 2, "quarter": 4, **ORDINALS}
# Words that stand for a number in a passage; an answer that uses one is not held to it.
MULTIPLES = {
    "once": 1.0, "twice": 2.0, "thrice": 3.0, "double": 2.0, "doubled": 2.0, "doubling": 2.0, "triple": 3.0,
    "tripled": 3.0, "tripling": 3.0, "quadruple": 4.0, "quadrupled": 4.0, "couple": 2.0, "pair": 2.0, "both": 2.0,
    "duo": 2.0, "twins": 2.0,
    "trio": 3.0, "quartet": 4.0, "dozen": 12.0, "decade": 10.0, "century": 100.0, "single": 1.0, "sole": 1.0,
    "hat-trick": 3.0, "fortnight": 14.0, "biweekly": 2.0, "teens": 13.0, "score": 20.0, "solo": 1.0, "brace": 2.0,
}  # fmt: skip
DECADES = {"twenties": 1920, "thirties": 1930, "forties": 1940, "fifties": 1950, "sixties": 1960, "seventies": 1970}
DECADES |= {"eighties": 1980, "nineties": 1990}
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
    factor: float
    system: str = ""


PERCENT = Unit("percent", 1.0)
# Quarters of a year by their number: Q3, the third quarter.
QUARTER = Unit("quarter", 1.0)
_IMPERIAL = "imperial"
_FOOT_METRES, _POUND_GRAMS = 0.3048, 453.59237
_MINUTE, _HOUR, _DAY = 60.0, 3_600.0, 86_400.0
_YEAR = 365.25 * _DAY

# No exchange rates. Names by spaces; an underscore stands for a space within one.
_UNIT_NAMES: dict[Unit, str] = {
    PERCENT: "% percent per-cent per_cent pct 个百分点",
    Unit("length", 1_000.0): "km kilometre kilometres kilometer kilometers 公里 千米",
    Unit("length", 1.0): "m metre metres meter meters 米",
    Unit("length", 0.01): "cm centimetre centimetres centimeter centimeters 厘米",
    Unit("length", 0.001): "mm millimetre millimetres millimeter millimeters 毫米",
    Unit("length", 5_280 * _FOOT_METRES, _IMPERIAL): "mile miles 英里",
    Unit("length", 3 * _FOOT_METRES, _IMPERIAL): "yard yards yd 码",
    Unit("length", 500.0): "里 华里",
    Unit("length", _FOOT_METRES, _IMPERIAL): "ft foot feet 英尺",
    Unit("length", _FOOT_METRES / 12, _IMPERIAL): "inch inches 英寸",
    Unit(
        "area", 1_000_000.0
    ): "square_kilometre square_kilometres square_kilometer square_kilometers sq_km km2 平方公里 平方千米",
    Unit("area", 10_000.0): "ha hectare hectares 公顷",
    Unit("area", 1.0): "square_metre square_metres square_meter square_meters sq_m sqm m2 平方米 平米",
    Unit("area", 2_000 / 3): "亩",
    Unit("area", (5_280 * _FOOT_METRES) ** 2, _IMPERIAL): "square_mile square_miles sq_mi",
    Unit("area", 43_560 * _FOOT_METRES**2, _IMPERIAL): "acre acres 英亩",
    Unit("area", _FOOT_METRES**2, _IMPERIAL): "square_foot square_feet sq_ft sqft",
    Unit("mass", 1_000_000.0): "tonne tonnes 吨",
    Unit("mass", 1_000.0): "kg kilo kilos kilogram kilograms kilogramme kilogrammes 公斤 千克",
    Unit("mass", 500.0): "斤 市斤",
    Unit("mass", 1.0): "g gram grams gramme grammes 克",
    Unit("mass", 0.001): "mg milligram milligrams 毫克",
    Unit("mass", _POUND_GRAMS, _IMPERIAL): "lb lbs 磅",
    Unit("energy", 1.0): "wh 瓦时",
    Unit("energy", 1e3): "kwh 千瓦时 度电",
    Unit("energy", 1e6): "mwh 兆瓦时",
    Unit("power", 1.0): "watt watts 瓦",
    Unit("power", 1e3): "kw kilowatt kilowatts 千瓦",
    Unit("power", 1e6): "mw megawatt megawatts 兆瓦",
    Unit("speed", 1.0): "km/h kph kmh",
    Unit("speed", 1.609344, _IMPERIAL): "mph",
    Unit("volume", 1.0): "l litre litres liter liters 升",
    Unit("volume", 0.001): "ml millilitre millilitres milliliter milliliters 毫升",
    Unit("time", 1.0): "s sec secs seconds 秒 秒钟",
    Unit("time", _MINUTE): "min mins minute minutes 分钟",
    Unit("time", _HOUR): "h hr hrs hour hours 小时 个小时 钟头 个钟头",
    Unit("time", _DAY): "day days 天",
    Unit("time", 7 * _DAY): "week weeks 周 星期 个星期 礼拜 个礼拜",
    Unit("time", 14 * _DAY): "fortnight fortnights",
    Unit("time", _YEAR / 12): "month months 个月",
    Unit("time", _YEAR): "year years yr yrs 年",
    Unit("time", 10 * _YEAR): "decade decades",
    Unit("time", 100 * _YEAR): "century centuries 个世纪",
    Unit("bytes", 1e3): "kb",
    Unit("bytes", 1e6): "mb",
    Unit("bytes", 1e9): "gb",
    Unit("bytes", 1e12): "tb",
    Unit("celsius", 1.0): "°c 摄氏度",
    Unit("fahrenheit", 1.0): "°f 华氏度",
    Unit("dollar", 1.0): "$ us$ usd dollar dollars 美元",
    Unit("dollar", 0.01): "cent cents 美分",
    Unit("euro", 1.0): "€ eur euro euros 欧元",
    Unit("pound sterling", 1.0): "£ gbp 英镑",
    Unit("yuan", 1.0): "rmb cny yuan 元 人民币 元人民币",
    Unit("yen", 1.0): "jpy yen 日元",
}
UNIT_BY_NAME = {name.replace("_", " "): unit for unit, names in _UNIT_NAMES.items() for name in names.split()}
_ASCII_UNITS = sorted((name for name in UNIT_BY_NAME if name.isascii() and name[-1].isalnum()), key=len, reverse=True)
_OTHER_UNITS = sorted((name for name in UNIT_BY_NAME if not name.isascii() or name == "%"), key=len, reverse=True)
# After a number; a letter must not go on after the name of a unit, a Han character may.
UNIT_AFTER = re.compile(
    rf"[ -]?(?P<unit>(?:{'|'.join(re.escape(name) for name in _ASCII_UNITS)})(?![a-zà-öø-ÿ])"
    rf"|{'|'.join(re.escape(name) for name in _OTHER_UNITS)})"
)
UNIT_BEFORE = re.compile(r"(?P<unit>us\$|usd|rmb|cny|eur|gbp|[$€£])\s?\Z")
