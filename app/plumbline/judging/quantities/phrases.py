"""Amounts written as phrases: "half an hour", 一个半小时, 八折, 三分之一, "the third quarter", 八十年代, 光绪元年."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from plumbline.judging.quantities.arithmetic import Quantity
from plumbline.judging.quantities.numerals import (
    DECADES,
    HAN_NUMERAL,
    ORDINALS,
    PERCENT,
    QUARTER,
    UNIT_BY_NAME,
    WORDS,
    english_part,
    english_value,
    han_value,
)

# A rule is tried where the text has one of its words.
_Rule = tuple[tuple[str, ...], re.Pattern[str], Callable[[re.Match[str]], Quantity | None]]

_HAN = HAN_NUMERAL.pattern
_HAN_DIGIT = "[一二两兩三四五六七八九]"
_LASTING = r"(?P<unit>minute|hour|day|week|fortnight|month|year|decade|century|mile|kilomet(?:re|er)|lit(?:re|er))"
_LASTING_HAN = r"(?P<unit>小时|钟头|分钟|世纪|公里|英里|公斤|千克|年|月|天|米|升|斤|吨)"
_COUNT = r"(?P<count>an?|one|two|three|four|five|six|seven|eight|nine|ten|\d{1,4})"
_FIRST_YEARS: Mapping[str, int] = WORDS.read("first_years")
# A share stated as a fraction meets one in percent that is rounded to tens.
_SHARE_STEP = 5.0


def find_phrases(text: str, *, in_claim: bool) -> Iterator[Quantity]:
    """Yield the amounts of a casefolded text that phrases name; those of a claim may be blanked out after that."""
    rules, all_words, ascii_words = _OF_CLAIMS if in_claim else _OF_PASSAGES
    present = set(filter(text.__contains__, ascii_words if text.isascii() else all_words))
    if not present:
        return
    for words, pattern, read in rules:
        if not present.isdisjoint(words):
            for match in pattern.finditer(text):
                if (found := read(match)) is not None:
                    yield replace(found, start=match.start(), end=match.end())


def _halves(match: re.Match[str]) -> Quantity:
    count = match.groupdict().get("count")
    unit = UNIT_BY_NAME.get(f"个{match['unit']}") or UNIT_BY_NAME[match["unit"]]
    return Quantity((_count(count) if count else 0.0) + 0.5, unit, 0.1)


def _count(written: str) -> float:
    if written in ("a", "an"):
        return 1.0
    if written[0].isascii():
        return float(written) if written[0].isdigit() else english_value(written)
    return float(written) if written[0].isdecimal() else han_value(written)


def _quarters_of_an_hour(match: re.Match[str]) -> Quantity:
    return Quantity(15 * _count(match["count"]), UNIT_BY_NAME["min"], 1.0)


def _discount(match: re.Match[str]) -> Quantity:
    digits = match["digits"]
    if digits.isascii():
        value = float(digits) * (1 if "." not in digits and len(digits) > 1 else 10)
    else:
        value = sum(han_value(digit) * weight for digit, weight in zip(digits, (10, 1), strict=False))
    return Quantity(value, PERCENT, 1.0)


def _fraction(match: re.Match[str]) -> Quantity | None:
    divisor, count = (_count(part) for part in match.group("divisor", "count"))
    return Quantity(100 * count / divisor, PERCENT, _SHARE_STEP) if divisor > 1 else None


def _thousandths(match: re.Match[str]) -> Quantity:
    share = 100 * _count(match["count"]) / (1_000 if match["divisor"] == "千" else 10_000)
    return Quantity(share, PERCENT, share / 100)


def _quarter(match: re.Match[str]) -> Quantity:
    number = next(filter(None, match.groups()))
    value = float(ORDINALS.get(number) or (han_value(number) if not number[0].isascii() else int(number[0])))
    return Quantity(value, QUARTER, 1.0)


def _era(match: re.Match[str]) -> Quantity:
    number = 1.0 if match["year"] == "元" else _count(match["year"])
    return Quantity(_FIRST_YEARS[match["era"]] + number - 1, None, 1.0, others=(number,))


def _decade(match: re.Match[str]) -> Quantity:
    century, decade = match["century"], _count(match["decade"])
    return Quantity(((_count(century) - 1) * 100 if century else 0) + decade, None, 10.0, is_decade=True)


_HAN_COUNT = rf"(?P<count>{_HAN_DIGIT}|十|(?<!\d)\d{{1,3}})"
_DISCOUNT = rf"(?P<digits>{_HAN_DIGIT}{{1,2}}|(?<![\d.])\d(?:\.\d|\d)?) ?折(?![叠扣磨断射返腾旧合算])"
_HALF, _HAN_HALF = ("half",), ("半",)
_ALWAYS: tuple[_Rule, ...] = tuple(
    (words, re.compile(pattern), read)
    for words, pattern, read in (
        (_HALF, rf"\bhalf[ -](?:an? |of an? )?{_LASTING}\b", _halves),
        (_HALF, rf"\b{_COUNT} {_LASTING}s? and a half\b", _halves),
        (_HALF, rf"\b{_COUNT} and a half {_LASTING}s?\b", _halves),
        (_HAN_HALF, rf"(?:{_HAN_COUNT}个|(?<![第前上下后]))半个?{_LASTING_HAN}", _halves),
        (_HAN_HALF, rf"{_HAN_COUNT}个?{_LASTING_HAN}半(?![个年天月])", _halves),
        (("刻钟",), r"(?P<count>[一三])刻钟", _quarters_of_an_hour),
        (("quarter",), r"\b(?P<count>a|three)[ -]quarters?(?: of an |[ -])hour", _quarters_of_an_hour),
        (("折",), _DISCOUNT, _discount),
        (
            ("分之",),
            rf"(?<!百)(?P<divisor>{_HAN_DIGIT}|十|(?<!\d)\d{{1,2}})分之(?P<count>{_HAN_DIGIT}|\d{{1,2}}(?!\d))",
            _fraction,
        ),
        (("分之",), rf"(?P<divisor>[千万])分之(?P<count>\d{{1,4}}(?:\.\d{{1,3}})?|{_HAN})", _thousandths),
        (
            ("third", "quarter", "fourth", "fifth", "sixth", "eighth", "tenth"),
            r"\b(?P<count>one|two|three|four|five|a)[ -](?P<part>thirds?|quarters?|fourths?|fifths?|sixths?|eighths?"
            r"|tenths?)(?= of\b)(?! of an? (?:hour|century|season|year|game|match|mile))",
            lambda match: Quantity(100 * english_part(match["count"], match["part"]), PERCENT, _SHARE_STEP),
        ),
        (
            ("quarter", "季度", *(f"q{number}" for number in range(1, 5)), *(f"{number}q" for number in range(1, 5))),
            r"\bq([1-4])\b|(?<![a-z0-9])([1-4])q\b|\b(first|second|third|fourth|1st|2nd|3rd|4th)[ -]quarter\b"
            r"|第?(?<![\d个〇零一二三四五六七八九十])([一二三四1-4])季度",
            _quarter,
        ),
        (
            tuple(_FIRST_YEARS),
            rf"(?P<era>{'|'.join(_FIRST_YEARS)})(?P<year>元|\d{{1,3}}|[一二三四五六七八九十]{{1,3}})年",
            _era,
        ),
        (
            ("年代",),
            rf"(?:(?P<century>\d{{2}}|{_HAN})世纪)?(?P<decade>[二三四五六七八九]十|(?<!\d)[1-9]0)年代",
            _decade,
        ),
        (
            ("centur",),
            rf"\b({'|'.join(ORDINALS)})[ -]centur(?:y|ies)\b",
            lambda match: Quantity(float(ORDINALS[match[1]]), None, 1.0, is_century=True),
        ),
    )
)
# Claims are not held to these.
_IN_PASSAGES: tuple[_Rule, ...] = tuple(
    (words, re.compile(pattern), read)
    for words, pattern, read in (
        (("折",), _DISCOUNT, lambda match: Quantity(100 - _discount(match).value, PERCENT, 1.0)),
        (
            ("%",),
            r"((?<![\d.])\d{1,2}(?:\.\d{1,2})?) ?% ?(?:off|discount|reduction|的?优惠|的?折扣)",
            lambda match: Quantity(100 - float(match[1]), PERCENT, 1.0),
        ),
        (
            ("a ", "an ", "one "),
            rf"\b(?:an?|one) {_LASTING}\b",
            lambda match: Quantity(1.0, UNIT_BY_NAME[match["unit"]], 1.0),
        ),
        (("ties",), rf"\b({'|'.join(DECADES)})\b", lambda match: Quantity(float(DECADES[match[1]]), None, 10.0)),
    )
)


def _with_words(rules: tuple[_Rule, ...]) -> tuple[tuple[_Rule, ...], frozenset[str], frozenset[str]]:
    """Return rules with all their words, and with those that a text in ASCII may have."""
    words = frozenset(word for words, _, _ in rules for word in words)
    return rules, words, frozenset(filter(str.isascii, words))


_OF_CLAIMS, _OF_PASSAGES = _with_words(_ALWAYS), _with_words(_ALWAYS + _IN_PASSAGES)
