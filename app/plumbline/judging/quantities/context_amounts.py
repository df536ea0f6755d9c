"""Amounts, dates and times of an answer that no context has, for the tiers without a judge."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property

from plumbline.judging.quantities.amount import Stated, find_sign
from plumbline.judging.quantities.comparison import Facts, drop_calculated, missing
from plumbline.judging.quantities.numerals import HAN_CHARACTERS, letter_runs, prepare_text
from plumbline.judging.quantities.reader import read_amounts
from plumbline.judging.quantities.units import SCALE, WORDS, find_rate, find_unit_before

# Whatever may name an amount. Most sentences have none of it, and cost nothing more.
_SIGN = re.compile("[\\d〇零一二两兩三四五六七八九十百千万萬亿億半½-⅞]")
_BEGINNINGS = WORDS.words("hints.numbers")
_MAX_PLACES_TRIED = 16
_AROUND_AMOUNT = " \n.,;:!?*_`\"'。，；：！？“”"
_LONGEST_AMOUNT, _MORE_THAN_AMOUNT = 40, 6
# A sample made to be slow has more: all of it is read instead.
_MAX_SEARCHED_CHARACTERS = 20_000_000
_HAN_NUMERALS = frozenset(HAN_CHARACTERS)
_SCALE_BEHIND = re.compile(rf" ?(?:{SCALE})(?![a-z])")


class ContextAmounts:
    """Amounts, dates and times of all contexts of a sample, read in full only when a sentence needs it.

    Args:
        contexts, lines: the texts, and what their sentences say: of a table's row, each cell behind its column.
        given: returns a text whose amounts with a unit are not made up either: a question that takes no yes or no.
    """

    def __init__(self, contexts: Sequence[str], lines: Sequence[str], given: Callable[[], str]) -> None:
        self._contexts = contexts
        self._lines = lines
        self._given = given
        self._searched = 0

    def find_missing(self, sentence: str, near: Sequence[str] = ()) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the amounts, dates and times as written that contexts neither have nor, in passages `near`, yield.

        The second tuple holds those that they yield by a calculation that no word calls for.
        """
        if not names_amount(prepare_text(sentence)):
            return (), ()
        stated = read_amounts(sentence).asked
        if self._searched < _MAX_SEARCHED_CHARACTERS:
            self._searched += len(stated.places) * len(self._text)
            if stand_verbatim(stated, self._text):
                return (), ()
        lacking = drop_calculated(missing(stated, self._facts), near)
        unasked = missing(lacking, self._question).amounts if lacking.amounts else ()
        made_up = tuple(each for each in lacking.amounts if not each.unit or each in unasked)
        lacking = replace(lacking, amounts=made_up)
        left = lacking.wordings
        # "33" alone says nothing of how it was found.
        if left and len(sentence) > len("".join(left)) + _MORE_THAN_AMOUNT:
            left = drop_calculated(lacking, near, is_called=False).wordings
        return left, tuple(wording for wording in lacking.wordings if wording not in left)

    def holds_amount(self, text: str) -> bool:
        """Return True if the text is one amount or date and nothing else, and a context states it, in any writing."""
        bare = prepare_text(text).strip(_AROUND_AMOUNT)
        if not bare or len(bare) > _LONGEST_AMOUNT or not names_amount(bare):
            return False
        stated = read_amounts(bare).asked
        if stated.wordings != (bare,) or missing(stated, self._facts):
            return False
        # A month is less than a day of it.
        return {date.parts for date in self._stated.dates}.issuperset(date.parts for date in stated.dates)

    @cached_property
    def _question(self) -> Facts:
        return Facts(read_amounts(self._given()).asked)

    @cached_property
    def _text(self) -> str:
        return prepare_text("\n".join(self._contexts))

    @cached_property
    def _stated(self) -> Stated:
        return read_amounts("\n".join(self._lines), is_claim=False)

    @cached_property
    def _facts(self) -> Facts:
        return Facts(self._stated)


def names_amount(text: str) -> bool:
    """Return True if a prepared text may name an amount, a date or a time."""
    if _SIGN.search(text):
        return True
    return any(word[:3] in _BEGINNINGS or word.endswith("teen") for word in letter_runs(text))


def stand_verbatim(stated: Stated, text: str) -> bool:
    """Return True if a prepared text has each amount, date and time as it is written, with its sign and rate."""
    return all(_stands(stated.text, start, end, text) for start, end in stated.places)


def _stands(claim: str, first: int, last: int, text: str) -> bool:
    wording = claim[first:last].strip()
    start = -1
    for _ in range(_MAX_PLACES_TRIED):
        start = text.find(wording, start + 1)
        if start < 0:
            return False
        end = start + len(wording)
        before, after = text[max(0, start - 2) : start], text[end : end + 2]
        if _continues(wording[0], before[::-1]) or _continues(wording[-1], after) or _SCALE_BEHIND.match(text, end):
            continue
        if find_unit_before(claim, first) not in (None, find_unit_before(text, start)):
            continue
        if find_sign(claim, first, last) == find_sign(text, start, end):
            rate = find_rate(claim, first, last)
            if not rate or rate == find_rate(text, start, end):
                return True
    return False


def _continues(edge: str, beyond: str) -> bool:
    """Return True if the two characters beyond the edge continue a number or a word."""
    if not beyond:
        return False
    if edge in _HAN_NUMERALS or beyond[0] in _HAN_NUMERALS:
        return (edge.isdigit() or edge in _HAN_NUMERALS) and (beyond[0].isdigit() or beyond[0] in _HAN_NUMERALS)
    if edge.isdigit() and beyond[0] in ".,/" and beyond[1:].isdigit():
        return True
    return edge.isascii() and edge.isalnum() and beyond[0].isascii() and beyond[0].isalnum()
