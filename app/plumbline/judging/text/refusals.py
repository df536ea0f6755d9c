"""Refusals that the contexts contradict: "The documents do not say when it was built", and one of them does."""

import re
from collections.abc import Collection, Sequence
from typing import Final

from plumbline.ground.phrases import Phrases
from plumbline.judging.text.words import FUNCTION_CHARACTERS, STEM, is_han, split_tokens, split_words

_PHRASES: Final = Phrases("judging/text/abstentions")
_ASKS_AMOUNT, _ASKS_NAME = (
    re.compile(_PHRASES.pattern(f"en.asks_{what}", f"zh.asks_{what}"), re.IGNORECASE) for what in ("amount", "name")
)
_OF_QUESTIONS: Final = re.compile(_PHRASES.pattern("zh.of_questions"))
_UNTELLING: Final = frozenset(word[:STEM] for word in _PHRASES.words("en.of_questions"))
_AMOUNT: Final = re.compile(
    r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|twelve|twenty|thirty|hundred|half)\b|[一二两三四五六七八九十百千半]"
)
_CAPITALISED: Final = re.compile(r"\w ([A-ZÀ-ÖØ-Þ]\w+)")
_ASKS_YES: Final = re.compile(_PHRASES.pattern("en.asks_yes", "zh.asks_yes"), re.IGNORECASE)
# Words that a question must have at least, and more of them that a sentence which answers it has.
_FEWEST_WORDS, _FEWEST_MORE = 2, 2
_FEWEST_HAN = 3
_MAX_QUESTION_CHARACTERS = 400


def is_answered(asked: str, texts: Sequence[str]) -> bool:
    """Return True if one of the texts has all words of what is asked, and what may answer it.

    A question of when, how many and how long wants an amount or a date, one of who a name that it does not have.
    """
    if len(asked) > _MAX_QUESTION_CHARACTERS:
        return False
    words = _telling(asked)
    is_han_asked = any(map(is_han, words))
    if len(words) < (_FEWEST_HAN if is_han_asked else _FEWEST_WORDS):
        return False
    return any(_answers(text, asked, words) for text in texts)


def _answers(text: str, asked: str, words: Collection[str]) -> bool:
    found = _telling(text)
    if not found.issuperset(words) or text.rstrip().endswith(("?", "？")):
        return False
    if _ASKS_AMOUNT.search(asked):
        return _AMOUNT.search(text.lower()) is not None
    if _ASKS_NAME.search(asked) and text.isascii():
        return any(name[:STEM].lower() not in words for name in _CAPITALISED.findall(text))
    return _ASKS_YES.search(asked) is not None or len(found) >= len(words) + _FEWEST_MORE


def _telling(text: str) -> frozenset[str]:
    """Return the words of content, cut to their stems, and the Han characters one by one."""
    words = {word[:STEM] for word in split_words(text).content if not is_han(word)} - _UNTELLING
    han = (token for token in split_tokens(_OF_QUESTIONS.sub(" ", text)) if is_han(token))
    return frozenset(words).union(
        character for token in han for character in token if character not in FUNCTION_CHARACTERS
    )
