"""Amounts, dates and times of an answer's sentence that no context has, for the tiers that compare wording."""

import re
from collections.abc import Sequence
from functools import cached_property

from plumbline.ground.concurrency import within_deadline
from plumbline.judging.quantities.arithmetic import Facts, Stated, missing
from plumbline.judging.quantities.extraction import FIRST_KIND, facts_in, prepared, stated_in_claim
from plumbline.judging.quantities.other_numerals import names_other_numeral
from plumbline.judging.text.segmentation import Sentence
from plumbline.judging.text.words import pieces

# Whatever may name an amount. Most sentences have none of it, and cost nothing more.
_HINT = re.compile(
    r"\d|[〇零一二两兩三四五六七八九十百千万萬亿億半]|[½-⅞]"
    r"|\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w{3,5}teen|twenty|thirty|forty|fifty|sixty|seventy"
    r"|eighty|ninety|hundred|thousand|million|billion|trillion|half|third|quarter|fifth|century|noon|midday|midnight"
    r"|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"
)
# What an amount of a passage may hang on besides: a list, an ordinal, a multiple, a Roman numeral.
_FACT = re.compile(
    rf"{_HINT.pattern}|,[^,]{{1,80}},|、|\b(?:both|pair|couple|double|twice|trip|quad|once|single|sole|decade|centur"
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
# Beyond it, in a sample made to be slow, all is read instead.
_MAX_SEARCHED_CHARACTERS = 20_000_000
_HAN_NUMERALS = frozenset("〇零一二两兩三四五六七八九十百千万萬亿億")


class ContextQuantities:
    """Amounts, dates and times of all contexts of a sample, read in full only when a sentence needs it."""

    def __init__(self, contexts: Sequence[str], sentences: Sequence[Sequence[Sentence]]) -> None:
        self._contexts = contexts
        self._sentences = sentences
        self._searched = 0

    def find_missing(self, sentence: str) -> tuple[str, ...]:
        """Return the amounts, dates and times that the contexts neither have nor plainly yield, as they are written."""
        if not _names_amount(prepared(sentence)):
            return ()
        stated = stated_in_claim(sentence)
        if self._searched < _MAX_SEARCHED_CHARACTERS:
            self._searched += len(stated.wordings) * len(self._text)
            if stands_verbatim(stated, self._text):
                return ()
        return missing(stated, self._facts, is_derived=False).wordings

    def holds_amount(self, text: str) -> bool:
        """Return True if the text is one amount or date and nothing else, and a context states it, in any writing."""
        bare = prepared(text).strip(_AROUND_AMOUNT)
        if not bare or len(bare) > _LONGEST_AMOUNT or not _names_amount(bare):
            return False
        stated = stated_in_claim(bare)
        return stated.wordings == (bare,) and self._stated.issuperset(_values(stated))

    @cached_property
    def _stated(self) -> frozenset[tuple[object, ...]]:
        """Return what the contexts say in so many words: nothing that only follows from it."""
        spoken = (sentence.text for sentences in self._sentences for sentence in sentences)
        stated = (stated_in_claim(text) for text in spoken if _names_amount(prepared(text)))
        values = frozenset[tuple[object, ...]]().union(*map(_values, stated))
        # An amount without a unit may be one of any.
        return values | {(value[0], None) for value in values if len(value) == _AMOUNT}

    @cached_property
    def _text(self) -> str:
        return prepared("\n".join(self._contexts))

    @cached_property
    def _facts(self) -> Facts:
        spoken = (sentence.text for sentences in self._sentences for sentence in sentences)
        told = (text for text in within_deadline(spoken) if any(map(_states_fact, pieces(text, _HINT_CHARACTERS))))
        return facts_in("\n".join(told))


def _names_amount(text: str) -> bool:
    return _HINT.search(text) is not None or names_other_numeral(text)


def _states_fact(text: str) -> bool:
    return _FACT.search(text) is not None or names_other_numeral(text.casefold())


def stands_verbatim(stated: Stated, text: str) -> bool:
    """Return True if a prepared text has each amount, date and time as it is written, so that none is missing."""
    return all(_stands(wording, text) for wording in stated.wordings)


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
