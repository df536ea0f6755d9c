"""Amounts, dates and times of an answer that no context has, for the tiers without a judge."""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain

from plumbline.judging.quantities.amount import Stated
from plumbline.judging.quantities.comparison import Facts, drop_calculated, facts_in, missing
from plumbline.judging.quantities.dates import blank_spans
from plumbline.judging.quantities.numerals import letter_runs, prepare_text
from plumbline.judging.quantities.reader import read_amounts
from plumbline.judging.quantities.units import WORDS
from plumbline.judging.text.short_answers import question_assertions

# Whatever may name an amount. Most sentences have none of it, and cost nothing more.
_SIGN = re.compile("[\\d〇零一二两兩三四五六七八九十百千万萬亿億半½-⅞]")
_BEGINNINGS = WORDS.words("hints.numbers")
_MORE_THAN_AMOUNT = 6
_FIGURE = re.compile(r"(?<![A-Za-z_#\d.,])(?<!\w-)\d[\d.,]*")
# "(USD m)", （单位：亿元）, but not "game(s)".
_HEADING = re.compile(r"(?<![a-z])[(（](?:单位[:：] ?)?([^()（）\d]{1,12})[)）]")
_MAX_HEADINGS, _MAX_FIGURES = 4, 500


class ContextAmounts:
    """Amounts, dates and times of all contexts of a sample, read in full only when a sentence needs it.

    Args:
        contexts, lines: the texts, and what their sentences say: of a table's row, each cell behind its column.
        question: its amounts are neither made up nor proven, years and whole dates apart.
    """

    def __init__(self, contexts: Sequence[str], lines: Sequence[str], question: str) -> None:
        self._contexts = contexts
        self._lines = lines
        self._question = question
        self._assertions = question_assertions(question)

    def find_missing(self, sentence: str, near: Sequence[str] = ()) -> tuple[str, ...]:
        """Return the amounts, dates and times as written that the contexts lack.

        Neither those of the question, nor what one step makes of the amounts of passages `near`, nor figures of a table
        whose heading alone has their unit are lacking.
        """
        # What "No." denies need not be in a context.
        is_denied = sentence == self._assertions.get(False)
        if is_denied or not names_amount(prepare_text(sentence)) or self._holds_sentence(sentence):
            return ()
        lacking = missing(read_amounts(sentence), self._facts)
        if not lacking:
            return ()
        unasked = missing(lacking, self._asked)
        amounts = tuple(each for each in lacking.amounts if each.kind == "year" or each in unasked.amounts)
        amounts = missing(Stated(amounts, (), ()), self._headed).amounts
        dates = tuple(each for each in lacking.dates if each.year or each in unasked.dates)
        made_up = replace(unasked, amounts=amounts, dates=dates)
        # "33" alone says nothing of how it was found.
        if len(sentence) > len("".join(made_up.wordings)) + _MORE_THAN_AMOUNT:
            made_up = drop_calculated(made_up, near, is_called=True)
            # "190元，便宜40元，只要150元"
            made_up = drop_calculated(made_up, [blank_spans(made_up.text, made_up.places)], is_called=True)
        return made_up.wordings

    def _holds_sentence(self, sentence: str) -> bool:
        """Return True if a context has the sentence to the letter, and no number of it may go on beyond its ends."""
        is_closed = not sentence[:1].isdigit() and not sentence[-1:].isalnum()
        return is_closed and any(sentence in context for context in self._contexts)

    def shares_amount(self, sentence: str) -> bool:
        """Return True if the contexts have an amount, date or time of the sentence."""
        stated = read_amounts(sentence).asked if names_amount(prepare_text(sentence)) else Stated((), (), ())
        return bool(stated) and len(missing(stated, self._facts).places) < len(stated.places)

    @cached_property
    def _asked(self) -> Facts:
        """Return the amounts of the question; none of one that asks whether they are right."""
        return facts_in("" if self._assertions else self._question)

    @cached_property
    def _headed(self) -> Facts:
        """Return the figures of the contexts in the units that stand in brackets, as (USD m); 里约 is no mile."""
        texts = [prepare_text(context) for context in self._contexts]
        found = dict.fromkeys(chain(*map(_HEADING.findall, texts)))
        units = [unit for unit in found if any(each.end > len(unit) for each in read_amounts(f"1 {unit}").amounts)]
        figures = list(dict.fromkeys(chain(*map(_FIGURE.findall, texts))))[:_MAX_FIGURES] if units else []
        return facts_in("; ".join(f"{figure} {unit}" for unit in units[:_MAX_HEADINGS] for figure in figures))

    @cached_property
    def _facts(self) -> Facts:
        return facts_in("\n".join(self._lines))


def names_amount(text: str) -> bool:
    """Return True if a prepared text may name an amount, a date or a time."""
    words = (word[:3] in _BEGINNINGS or word.endswith("teen") for word in letter_runs(text))
    return _SIGN.search(text) is not None or any(words)
