"""Names and numbers of a sentence that the contexts do not have: what a fluent answer most often makes up."""

import re

from plumbline.judging.text.words import Words, has_content, words_of

# A word with a capital inside a sentence; the first word of a sentence has one anyway.
_CAPITALISED = re.compile(r"(?<![^\W_])[A-Z]\w*(?:['’][A-Za-z]+)?")
_LETTER_OR_DIGIT = re.compile(r"[^\W_]")
_SHORTEST_NAME = 2
# "One" is more often a pronoun than a number.
_NUMBER_WORDS = (
    "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen", "fourteen",
    "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty",
)  # fmt: skip
_DIGITS = {word: str(value) for value, word in enumerate(_NUMBER_WORDS, start=2)}
_WORDS = {digits: word for word, digits in _DIGITS.items()}


def unknown_names(text: str, known: frozenset[str]) -> tuple[str, ...]:
    """Capitalised words of the text, the first word apart, that are not among the known words; each once, as written.

    Args:
        text: one sentence.
        known: every word of the contexts, as `words_of` gives them.
    """
    first = _LETTER_OR_DIGIT.search(text)
    found = dict.fromkeys(match.group() for match in _CAPITALISED.finditer(text, first.start() + 1 if first else 0))
    return tuple(name for name in found if _is_name(name) and not known.issuperset(words_of(name).every))


def unknown_numbers(words: Words, known: frozenset[str]) -> tuple[str, ...]:
    """Numbers among the words, in digits or from two to twenty in letters, that are known in neither form."""
    digits = dict.fromkeys(_DIGITS.get(word, word) for word in words.every if word in _DIGITS or word[0].isdigit())
    return tuple(number for number in digits if number not in known and _WORDS.get(number) not in known)


def _is_name(text: str) -> bool:
    """Single letters and stopwords ("The") are none."""
    return len(text) >= _SHORTEST_NAME and has_content(text)
