"""Sentences that are no copies after all: of a condition left out, a denial around them, an addition."""

import re
from collections.abc import Callable, Collection, Sequence
from typing import Final

from plumbline.ground.phrases import Phrases
from plumbline.judging.text.words import is_han, split_words

_PHRASES: Final = Phrases("judging/text/open_clauses")
# A condition may stand some words before the copy, a denial right before it.
_CONDITION: Final = re.compile(rf"\b(?:{_PHRASES.pattern('en.conditions')})\b|{_PHRASES.pattern('zh.conditions')}")
_DENIAL: Final = re.compile(rf"\b(?:{_PHRASES.pattern('en.denials')})\b|{_PHRASES.pattern('zh.denials')}")
_BEHIND: Final = re.compile(rf" ?(?:{_PHRASES.pattern('en.limits')})\b| ?.{{0,2}}(?:{_PHRASES.pattern('zh.limits')})")
REACH: Final = 120
_DENIAL_REACH: Final = 40
_CLAUSE: Final = re.compile(_PHRASES.pattern("en.clauses", "zh.clauses"))
_FEWEST_WORDS, _FEWEST_HAN = 2, 4
# Less of its words, or pairs of Han characters, in any one sentence of the contexts, and nothing covers a clause.
_COVERED, _COVERED_HAN = 0.5, 0.35


def is_cut(before: str, behind: str) -> bool:
    """Return True if the normalised words around a copy put it under a condition, or deny it."""
    denied = _DENIAL.search(before, max(0, len(before) - _DENIAL_REACH))
    return bool(_BEHIND.match(behind) or _CONDITION.search(before) or denied)


def leaves_out_condition(text: str, passage: str) -> bool:
    """Return True if the passage nearest to a text has a condition, and the text none."""
    return _CONDITION.search(passage.lower()) is not None and _CONDITION.search(text.lower()) is None


def has_open_clause(text: str, share: Callable[[Collection[str]], float]) -> bool:
    """Return True if no one sentence of the contexts, by its `share`, has enough of the words of a clause."""
    clauses = [clause for clause in _CLAUSE.split(text) if clause]
    return len(clauses) > 1 and any(_is_open(split_words(clause).without_stopwords, share) for clause in clauses)


def _is_open(words: Sequence[str], share: Callable[[Collection[str]], float]) -> bool:
    fewest, covered = (_FEWEST_HAN, _COVERED_HAN) if any(map(is_han, words)) else (_FEWEST_WORDS, _COVERED)
    return len(words) >= fewest and share(words) < covered
