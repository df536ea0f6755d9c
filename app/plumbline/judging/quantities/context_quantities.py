"""Amounts, dates and times of an answer that no context has, and those calculated from it as the wording says."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import combinations

from plumbline.ground.concurrency import within_deadline
from plumbline.judging.quantities.arithmetic import Facts, Quantity, Stated, is_rounded_to, missing
from plumbline.judging.quantities.derivation import MULTIPLIED
from plumbline.judging.quantities.extraction import FIRST_KIND, facts_in, prepare_text, stated_in_claim
from plumbline.judging.quantities.numerals import PERCENT, WORDS, Unit, letter_runs
from plumbline.judging.text.segmentation import Sentence
from plumbline.judging.text.words import pieces

Amount = tuple[float, Unit | None]

# Whatever may name an amount. Most sentences have none of it, and cost nothing more.
_SIGN = re.compile("[\\d〇零一二两兩三四五六七八九十百千万萬亿億半½-⅞]")
_NUMBER_WORDS = WORDS.words("hints.numbers")
_NUMBER_WORD = rf"\b(?:{'|'.join(WORDS.read('hints.numbers').split())}|\w{{3,5}}teen)"
_HINT = re.compile(_NUMBER_WORD)
# The pattern takes ten times as long as a look at the words' first letters.
_LETTERS = range(3, 5)
_BEGINNINGS = frozenset(word[: _LETTERS[-1]] for word in _NUMBER_WORDS)
# What an amount of a passage may hang on besides: a list, an ordinal, a multiple, a Roman numeral.
_FACT = re.compile(
    rf"{_SIGN.pattern}|{_NUMBER_WORD}|,[^,]{{1,80}},|、|\b(?:both|pair|couple|double|twice|trip|quad|once|single|sole|decade|centur"
    r"|fortnight|dozen|first|second|fourth|sixth|seventh|eighth|ninth|tenth|trio|quart|duo|twins|[ivxl]{2,6}\b)|翻番|翻倍"
    rf"|{FIRST_KIND}",
    re.IGNORECASE,
)
_MAX_PLACES_TRIED = 16
# The pattern takes up to 4 µs a character.
_HINT_CHARACTERS = 4_000
_AROUND_AMOUNT = " \n.,;:!?*_`\"'。，；：！？“”"
_LONGEST_AMOUNT = 40
# Parts of what stands for an amount: its value and its unit.
_AMOUNT = 2
# A sample made to be slow has more: all of it is read instead.
_MAX_SEARCHED_CHARACTERS = 20_000_000
_HAN_NUMERALS = frozenset("〇零一二两兩三四五六七八九十百千万萬亿億")


class ContextQuantities:
    """Amounts, dates and times of all contexts of a sample, read in full only when a sentence needs it.

    `given` returns a text whose amounts with a unit are not made up either: a question that takes no yes or no.
    """

    def __init__(
        self, contexts: Sequence[str], sentences: Sequence[Sequence[Sentence]], given: Callable[[], str]
    ) -> None:
        self._contexts = contexts
        self._given = given
        self._sentences = sentences
        self._searched = 0

    def find_missing(self, sentence: str) -> tuple[str, ...]:
        """Return the amounts, dates and times that the contexts neither have nor plainly yield, as they are written."""
        if not _names_amount(prepare_text(sentence)):
            return ()
        stated = stated_in_claim(sentence)
        if self._searched < _MAX_SEARCHED_CHARACTERS:
            wordings = stated.wordings
            self._searched += len(wordings) * len(self._text)
            if stand_verbatim(wordings, self._text):
                return ()
        lacking = missing(stated, self._facts, is_derived=False)
        made_up = tuple(
            each
            for each in lacking.quantities
            if not each.unit or (each.value, each.unit) not in self._question_amounts
        )
        return replace(lacking, quantities=made_up).wordings

    def holds_amount(self, text: str) -> bool:
        """Return True if the text is one amount or date and nothing else, and a context states it, in any writing."""
        bare = prepare_text(text).strip(_AROUND_AMOUNT)
        if not bare or len(bare) > _LONGEST_AMOUNT or not _names_amount(bare):
            return False
        stated = stated_in_claim(bare)
        return stated.wordings == (bare,) and self._stated_values.issuperset(_values(stated))

    @cached_property
    def _question_amounts(self) -> frozenset[Amount]:
        return frozenset((each.value, each.unit) for each in stated_in_claim(self._given()).quantities)

    @cached_property
    def _stated_values(self) -> frozenset[tuple[object, ...]]:
        """Return what the contexts say in so many words: nothing that only follows from it."""
        spoken = (sentence.text for sentences in self._sentences for sentence in sentences)
        stated = (stated_in_claim(text) for text in spoken if _names_amount(prepare_text(text)))
        values = frozenset[tuple[object, ...]]().union(*map(_values, stated))
        # An amount without a unit may be one of any.
        return values | {(value[0], None) for value in values if len(value) == _AMOUNT}

    @cached_property
    def _text(self) -> str:
        return prepare_text("\n".join(self._contexts))

    @cached_property
    def _facts(self) -> Facts:
        spoken = (sentence.text for sentences in self._sentences for sentence in sentences)
        stated = (text for text in spoken if any(map(_states_fact, within_deadline(pieces(text, _HINT_CHARACTERS)))))
        return facts_in("\n".join(stated))


def _names_amount(text: str) -> bool:
    if _SIGN.search(text):
        return True
    words = letter_runs(text)
    may_hint = "teen" in text or any(not _BEGINNINGS.isdisjoint([word[:size] for word in words]) for size in _LETTERS)
    return may_hint and _HINT.search(text) is not None


def _states_fact(text: str) -> bool:
    return _FACT.search(text) is not None


def stand_verbatim(wordings: Sequence[str], text: str) -> bool:
    """Return True if a prepared text has each amount, date and time as it is written, so that none is missing."""
    return all(_stands(wording, text) for wording in wordings)


def _stands(wording: str, text: str) -> bool:
    start = -1
    for _ in range(_MAX_PLACES_TRIED):
        start = text.find(wording, start + 1)
        if start < 0:
            return False
        end = start + len(wording)
        before, after = text[max(0, start - 2) : start], text[end : end + 2]
        if not _continues(wording[0], before[::-1]) and not _continues(wording[-1], after):
            return True
    return False


def _values(stated: Stated) -> set[tuple[object, ...]]:
    """Return its amounts with their units, its dates by year, month and day, and its times by their minutes."""
    return {
        *((each.value, each.unit) for each in stated.quantities),
        *((date.year, date.month, date.day) for date in stated.dates),
        *((time.minutes,) for time in stated.times),
    }


def _continues(edge: str, beyond: str) -> bool:
    """Return True if the two characters beyond the edge continue a number or a word."""
    if not beyond:
        return False
    if edge in _HAN_NUMERALS or beyond[0] in _HAN_NUMERALS:
        return (edge.isdigit() or edge in _HAN_NUMERALS) and (beyond[0].isdigit() or beyond[0] in _HAN_NUMERALS)
    if edge.isdigit() and beyond[0] in ".," and beyond[1:].isdigit():
        return True
    return edge.isascii() and edge.isalnum() and beyond[0].isascii() and beyond[0].isalnum()


# A quote has a handful; of more numbers anything can be made.
_MAX_OPERANDS = 8
# The sum of so many amounts is hit by chance too seldom to need a word such as "together".
_TELLING_TERMS = 3
_SUM, _DIFFERENCE, _EACH, _SHARED, _CHANGE, _SHARE, _HALF = (
    re.compile(WORDS.pattern(f"calculations.{name}"))
    for name in ("sum", "difference", "each", "shared", "change", "share", "half")
)


def drop_calculated(lacking: Stated, passages: Sequence[str]) -> Stated:
    """Return what the claim lacks but for amounts that follow from those of the passages, as its wording says.

    Sums, differences, products, equal parts, changes and shares in percent, halves and multiples of at most eight
    amounts of like units; each only where a word of the claim or of the passage calls for it.
    """
    if not lacking.quantities:
        return lacking
    evidence = prepare_text(" ".join(passages))
    operands = [
        (each.value, each.unit)
        for each in stated_in_claim(evidence).quantities
        if not (each.is_year or each.is_century or each.is_decade)
    ]
    if not 0 < len(operands) <= _MAX_OPERANDS:
        return lacking
    made = list(_calculate(lacking.text, evidence, operands))
    left = tuple(each for each in lacking.quantities if not any(_matches(each, amount) for amount in made))
    return replace(lacking, quantities=left)


def _calculate(claim: str, evidence: str, operands: Sequence[Amount]) -> Iterator[Amount]:
    plain = [amount for amount in operands if amount[1] != PERCENT]
    units = {unit for _, unit in plain} - {None}
    if len(plain) >= _TELLING_TERMS and len(units) <= 1:
        yield sum(value for value, _ in plain), next(iter(units), None)
    for one, other in combinations(plain, 2):
        if one[1] == other[1] or None in (one[1], other[1]):
            yield from _combine(claim, evidence, one, other)
    factors = [factor for words, factor in ((_HALF, 0.5), *MULTIPLIED) if words.search(evidence)]
    yield from ((value * factor, unit) for value, unit in plain for factor in factors)


def _combine(claim: str, evidence: str, first: Amount, second: Amount) -> Iterator[Amount]:
    (one, unit), (other, other_unit) = first, second
    if _SUM.search(claim):
        yield one + other, unit or other_unit
    if _DIFFERENCE.search(claim):
        yield abs(one - other), unit or other_unit
    if _EACH.search(evidence):
        yield one * other, unit or other_unit
    if not (one and other):
        return
    if _SHARED.search(claim):
        yield from ((one / other, unit), (other / one, other_unit))
    if _CHANGE.search(claim):
        yield 100 * abs(other - one) / one, PERCENT
    if _SHARE.search(claim):
        yield 100 * min(one, other) / max(one, other), PERCENT


def _matches(quantity: Quantity, amount: Amount) -> bool:
    value, unit = amount
    is_alike = PERCENT not in (unit, quantity.unit) and (unit is None or quantity.unit is None)
    return (unit == quantity.unit or is_alike) and is_rounded_to(quantity, value)
