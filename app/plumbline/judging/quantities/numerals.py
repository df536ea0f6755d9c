"""Values of numerals: digits in every convention, English and Chinese words, fractions and powers."""

import re
from unicodedata import normalize, numeric

from plumbline.judging.quantities.units import WORDS
from plumbline.judging.text.words import nfkc, to_simplified


def _values(key: str) -> dict[str, int]:
    return {word: int(value) for value, words in WORDS.read(key).items() for word in words.split()}


_ONES = {word: value for value, word in enumerate(WORDS.read("ones").split())}
HOURS = {word: value for word, value in _ONES.items() if 1 <= value <= 12}  # noqa: PLR2004
_TENS = {word: 10 * value for value, word in enumerate(WORDS.read("tens").split(), start=2)}
_WORD_SCALES = {"hundred": 100, "thousand": 1_000, "million": 10**6, "billion": 10**9, "trillion": 10**12}
ORDINALS = {word: value for value, word in enumerate(WORDS.read("ordinals").split(), start=1)} | _values(
    "more_ordinals"
)
_PARTS = {"half": 2, "halves": 2, "quarter": 4, **ORDINALS}
_MULTIPLES = _values("multiples") | _values("decades")
# Ordinals, multiples and their plurals, decades.
NUMBER_WORDS = {f"{word}s": value for word, value in _MULTIPLES.items()} | _MULTIPLES | ORDINALS
# Every `ENGLISH_NUMERAL` has one of them.
CARDINALS = frozenset((*_ONES, *_TENS, *_WORD_SCALES))
_CARDINAL = "|".join(sorted(CARDINALS, key=lambda word: (-len(word), word)))
# Most words begin otherwise, and are passed over at once.
_FIRST_LETTERS = "".join(sorted({"a", *(word[0] for word in CARDINALS)}))
ENGLISH_NUMERAL = re.compile(
    rf"\b(?=[{_FIRST_LETTERS}])(?:an?[ -](?=hundred|thousand|million|billion|trillion))?(?:{_CARDINAL})\b"
    rf"(?:(?:(?:(?<=hundred)|(?<=thousand)|(?<=million)|(?<=billion))(?: and |, )|[ -])(?:{_CARDINAL})\b){{0,12}}"
    rf"(?:[ -](?P<ordinal>{'|'.join(ORDINALS)})\b)?"
)
ENGLISH_PART = re.compile(WORDS.pattern("numerals.part"))

_HAN_DIGITS, _HAN_SCALES, _HAN_MYRIADS = map(_values, ("han_digits", "han_scales", "han_myriads"))
HAN_CHARACTERS = "".join([*_HAN_DIGITS, *_HAN_SCALES, *_HAN_MYRIADS])
HAN_NUMERAL = re.compile(f"[{HAN_CHARACTERS}]{{1,20}}(?:点[零〇一二三四五六七八九]{{1,8}})?")
_LETTERS, _ASCII_LETTERS = re.compile(r"[^\W\d_]+"), re.compile("[a-z]+")

# A value, and the unit of its last written digit.
Value = tuple[float, float]
# 12, 12.5, 12,5, 1,250.75, 1 250, 1'250, 1,50,000.
DIGITS = r"\d{1,3}(?:[ '’]\d{3})+(?!\d)(?:[.,]\d+)?|\d+(?:[.,]\d+)*"
_MARK = re.compile("[.,]")
_GROUPS = re.compile(r"[1-9]\d{0,2}(?:([.,])\d{3}(?!\d))(?:\1\d{3}(?!\d))*|[1-9]\d?(?:,\d\d){1,4},\d{3}")
_VULGAR = re.compile("(\\d{0,6}) ?([½¼-¾⅐-⅞])")
_POWER = re.compile(WORDS.pattern("numerals.power"))
_IN_POWER = re.compile(r"[½¼-¾⅐-⅞⁰¹²³⁴-⁹^]|\d[eE][+-]")
_LARGEST_POWER = 18
_FISCAL = re.compile(r"\b(?i:FY)[ -]?['’]?(?:20)?(?=\d\d\b)")
# Marks of footnotes; m² is a unit.
_FOOTNOTE = re.compile(r"(?<!m)[¹²³⁰⁴-⁹]{1,4}")


def prepare_text(text: str) -> str:
    """Return the text in which amounts are read: NFKC, folded case, simplified; ¾ as .75, 3 × 10⁵ as 300000."""
    text = _FISCAL.sub("FY 20", text)
    if text.isascii():
        return (_POWER.sub(_write_out, text) if _IN_POWER.search(text) else text).casefold()
    if _IN_POWER.search(text):
        text = _VULGAR.sub(lambda match: f"{int(match[1] or 0) + numeric(match[2]):.6g}", _POWER.sub(_write_out, text))
        text = _FOOTNOTE.sub(" ", text)
    return to_simplified(nfkc(text).casefold())


def _write_out(match: re.Match[str]) -> str:
    written = match["raised"] or match["caret"] or match["exponent"]
    power = int(normalize("NFKC", written).replace("−", "-"))
    if abs(power) > _LARGEST_POWER:
        return match.group()
    value = float(match["factor"] or match["mantissa"] or 1) * 10.0**power
    return f"{value:.15g}" if value >= 1 and value < 1e15 else f"{value:.{max(0, -power) + 9}f}".rstrip("0").rstrip(".")  # noqa: PLR2004


def read_digits(written: str) -> tuple[tuple[Value, ...], tuple[float, ...]]:
    """Return what a run of digits and marks may mean, and the numbers of which it may be a list.

    "1,250" is 1250 or 1.25; "12,5" is 12.5, or 12 and 5; "1.2.3" is nothing but its parts.
    """
    if written.isdigit():
        return ((float(written), 1.0),), ()
    if not written[1:].replace(".", "").replace(",", "").isdigit():
        # 1 250: blanks and apostrophes only stand between thousands.
        parts = re.split("[ '’]", written)
        return read_digits("".join(parts))[0], tuple(float(part.replace(",", ".")) for part in parts)
    marks = _MARK.findall(written)
    parts = _MARK.split(written)
    listed: tuple[float, ...] = tuple(map(float, parts)) if set(marks) == {","} else ()
    decimals = (float(f"{''.join(parts[:-1])}.{parts[-1]}"), 10.0 ** -len(parts[-1]))
    readings: tuple[Value, ...] = ()
    if _GROUPS.fullmatch(written):
        thousands, listed = (float("".join(parts)), 1.0), ()
        readings = (thousands,) if len(marks) > 1 else tuple(sorted((thousands, decimals), reverse=marks == [","]))
    elif len(marks) == 1 or (marks[-1] not in marks[:-1] and _GROUPS.fullmatch(written[: -len(parts[-1]) - 1])):
        readings = (decimals,)
    elif set(marks) == {"."}:
        listed = tuple(float(".".join(parts[at : at + 2])) for at in range(len(parts) - 1))
    return readings, listed


def letter_runs(folded: str) -> list[str]:
    """Return the words of a text in folded case, the parts of compounds one by one."""
    return (_ASCII_LETTERS if folded.isascii() else _LETTERS).findall(folded)


def english_value(numeral: str) -> float:
    """Return the value of an `ENGLISH_NUMERAL`: "two hundred and five thousand" 205,000, "nineteen eighty" 1980."""
    total = current = 0
    last = 0
    for word in re.split(r"[ ,-]+", numeral):
        if word in _WORD_SCALES:
            scale = _WORD_SCALES[word]
            if scale == _WORD_SCALES["hundred"]:
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
    divisor = _PARTS[part] if part in _PARTS else _PARTS[part.rstrip("s")]
    return count_value(count) / divisor


def count_value(written: str) -> float:
    """Return the value of a count: digits, "a", an English or a Chinese numeral."""
    if written[0].isdecimal():
        return float(written)
    if written.isascii():
        return 1.0 if written in ("a", "an") else english_value(written)
    return han_value(written)


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
