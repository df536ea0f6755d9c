"""Numerals written as words in languages other than English and Chinese, each read in the language of its text."""

import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from itertools import count

from plumbline.judging.quantities.numerals import han_value, letter_runs

_HUNDRED = 100
_DATA = tomllib.loads(files("plumbline.judging.quantities").joinpath("other_numerals.toml").read_text(encoding="utf-8"))
_AMBIGUOUS, _IN_ANY_PASSAGE, _COUNTS_ALONE = (
    frozenset(_DATA[name].split()) for name in ("ambiguous", "in_any_passage", "counts")
)
_WORD = re.compile(r"[^\W\d_]{2,24}(?:-[^\W\d_]{2,24}){0,3}")
_ENGLISH = frozenset({"the", "of", "and", "was", "were", "with"})
_JOIN = re.compile(r" (?:(?:y|e|et) )?و?|-(?:et-)?")
# "Drei Viertel", "tres millones": not that number.
_COUNTS_OTHERS = re.compile(
    r" (?:mil|taus|viert|dritt|fünft|tiers|quart|terc|cuart|tys|duiz|tus|тыс|млн|млрд|мил|آلاف|ألف|مليون|ملايين"
    r"|(?:et|y|e) u(?:ne?|no|na|ma?|n)\b)"
)
_COUNTED = re.compile(
    r" (?:mesi|giorni|settimane|anni|ore|minuti|euro|persone|volte|mois|jours|semaines|ans|heures|minutes|euros|fois)\b"
)
_HAN_BY_KOREAN: Mapping[str, str] = _DATA["korean"]
_HANGUL = re.compile("[가-힣]")
_KOREAN_PART = re.compile("|".join(_HAN_BY_KOREAN))
_KOREAN = re.compile(
    r"(?<![가-힣])(?:(?:(?:열|스물|서른|마흔|쉰)?(?:두|세|네|다섯|여섯|일곱|여덟|아홉)|열|스무)"
    r"(?= ?(?:달|개|시간|명|번|살|주|대|권|곳|가지|마리|장|병|잔|사람|층))"
    r"|(?:[이삼사오육칠팔구]?[십백][일이삼사오육칠팔구십]{1,4}|[이삼사오육칠팔구][십백]|[삼육칠팔구십백](?= ))"
    r"(?= ?(?:개월|년|분|원|주|회|층|퍼센트|미터|킬로|명|일(?![가-힣])|유로|달러)))"
)


@dataclass(frozen=True, slots=True)
class Numeral:
    """A numeral of a text, `text[start:end]`."""

    value: float
    start: int
    end: int


def _read_values(words: Mapping[str, str]) -> dict[str, int]:
    groups = [
        *zip(count(2), words["ones"].split(), strict=False),
        *zip(count(30, 10), words["tens"].split(), strict=False),
        *zip(count(_HUNDRED, _HUNDRED), words["hundreds"].split(), strict=False),
        *zip(count(20), [words["twenty"]] if "twenty" in words else [], strict=False),
        *zip(count(21), words.get("twenties", "").split(), strict=False),
    ]
    name = {value: group.partition("/")[0] for value, group in groups} | {1: words.get("one", "")}
    values = {word: value for value, group in groups for word in group.split("/")}
    if "compound" not in words:
        return values
    for ten in range(20, _HUNDRED, 10):
        for one in range(1, 10):
            # "Ventuno", "ventotto" and "tweeëntwintig" are as they are said.
            tens = name[ten][:-1] if words["one"] == "uno" and name[one][0] in "uo" else name[ten]
            word = words["compound"].format(ones=name[one], tens=tens)
            values[word.replace("een", "eën", 1) if name[one].endswith("e") else word] = ten + one
    below = list(values.items())
    for hundreds in range(1, 10):
        stem = (name[hundreds] if hundreds > 1 else "") + name[_HUNDRED]
        values |= {stem: hundreds * _HUNDRED}
        values |= {stem + word: hundreds * _HUNDRED + value for word, value in below if value < _HUNDRED}
    return values


_VALUES = {language: _read_values(words) for language, words in _DATA["languages"].items()}
_SIGNS = {language: frozenset(words.get("signs", "").split()) for language, words in _DATA["languages"].items()}
_ANY_SIGN = frozenset().union(*_SIGNS.values())
_UNSIGNED = [language for language, signs in _SIGNS.items() if not signs]
_IN_ANY = {word: value for values in _VALUES.values() for word, value in values.items() if word not in _AMBIGUOUS}
_EVERY = frozenset().union(*_VALUES.values())
_OF_PASSAGES = {word: value for values in _VALUES.values() for word, value in values.items() if word in _IN_ANY_PASSAGE}


def names_other_numeral(text: str) -> bool:
    """Return True if a text in folded case may have such a numeral."""
    words = letter_runs(text)
    if not _EVERY.isdisjoint(words):
        return True
    if text.isascii():
        return False
    is_arabic = "و" in text and any(word.removeprefix("و") in _EVERY for word in words)
    return is_arabic or (_HANGUL.search(text) is not None and _KOREAN.search(text) is not None)


def find_stated(text: str) -> Iterator[Numeral]:
    """Yield the numerals of a claim; none of a claim that has English words, nor of a word that may be no numeral."""
    if not names_other_numeral(text):
        return
    words = frozenset(_WORD.findall(text))
    languages = _languages(words)
    if not languages and not _ENGLISH.isdisjoint(words):
        return
    for each in _read(text, _values_in(languages)):
        is_counted = text[each.start : each.end] not in _COUNTS_ALONE or _COUNTED.match(text, each.end)
        if is_counted and not _COUNTS_OTHERS.match(text, each.end):
            yield each
    yield from _korean(text)


def find_possible(text: str) -> Iterator[float]:
    """Yield each value that a passage may mean, those of the parts of a numeral as well."""
    # Most passages have none, and cost no more than this.
    if not names_other_numeral(text):
        return
    words = frozenset(_WORD.findall(text))
    values = _values_in(_languages(words)) | _OF_PASSAGES
    parts = {part for word in words for part in (word, *word.split("-"), word.removeprefix("و"))}
    yield from (float(values[word]) for word in parts & values.keys())
    yield from (each.value for each in (*_read(text, values), *_korean(text)))


def _languages(words: Collection[str]) -> list[str]:
    """Return the languages that most words are signs of, and those known by their letters; none of English."""
    if _ANY_SIGN.isdisjoint(words):
        return []
    found = {language: len(signs.intersection(words)) for language, signs in _SIGNS.items()}
    most = max(found.values())
    if most <= 2 * len(_ENGLISH.intersection(words)):
        return []
    return [*(language for language, number in found.items() if number == most), *_UNSIGNED]


def _values_in(languages: Collection[str]) -> dict[str, int]:
    """Return the values of the numerals of the languages; of all, if that is not known."""
    if not languages:
        return _IN_ANY
    return {word: value for language in languages for word, value in _VALUES[language].items()}


def _read(text: str, values: Mapping[str, int]) -> Iterator[Numeral]:
    """Yield the numerals, joined where they are said as one: "deux cents", "treinta y cinco"."""
    current, start, end = 0, 0, 0
    for at, stop, value in _tokens(text, values):
        joined = _joined(current, value) if end and _JOIN.fullmatch(text, end, at) else None
        if joined is None:
            if end:
                yield Numeral(float(current), start, end)
            start = at
        current, end = value if joined is None else joined, stop
    if end:
        yield Numeral(float(current), start, end)


def _tokens(text: str, values: Mapping[str, int]) -> Iterator[tuple[int, int, int]]:
    for match in _WORD.finditer(text):
        at, whole = match.start(), match.group()
        for word in [whole] if whole in values else whole.split("-"):
            bare = word if word in values else word.removeprefix("و")
            if bare in values:
                yield at + len(word) - len(bare), at + len(word), values[bare]
            at += len(word) + 1


def _joined(current: int, value: int) -> int | None:
    """Return what two numerals are together: 4 and 100 400, 60 and 15 75, in Arabic 3 and 10 13; None if not one."""
    rest, is_digit = current % _HUNDRED, current in range(3, 10)
    if value == _HUNDRED and (is_digit or current == 2):  # noqa: PLR2004
        return current * value
    if (current, value) == (4, 20):
        return 80
    is_added = (current >= _HUNDRED and not rest and value < _HUNDRED) or (
        rest in range(20, _HUNDRED, 10) and value in range(2, 20)
    )
    return current + value if is_added or (is_digit and value in range(10, _HUNDRED, 10)) else None


def _korean(text: str) -> Iterator[Numeral]:
    for match in () if text.isascii() else _KOREAN.finditer(text):
        han = _KOREAN_PART.sub(lambda part: _HAN_BY_KOREAN[part.group()], match.group())
        yield Numeral(han_value(han), match.start(), match.end())
