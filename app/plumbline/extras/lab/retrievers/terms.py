"""Texts into the terms of a keyword index: the same for what is indexed and what is asked."""

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Literal

from plumbline.ground.errors import InvalidInput
from plumbline.judging.text.words import FUNCTION_CHARACTERS, is_han, tokens_of

Language = Literal["auto", "en", "zh", "none"]
Terms = Callable[[str], list[str]]

# Lucene's standard tokenizer knows no longer ones either (its default); tantivy drops terms beyond 65,530 bytes.
LONGEST_WORD = 255


def terms_in(language: Language) -> Terms:
    """The function from a text to its terms, in order, repeats kept.

    Text is taken in NFKC and case-folded, without possessives; punctuation parts words, and letters from digits.
    Whatever the language, a run of Han gives each character and, between two, their pair: `肺癌` is `肺 肺癌 癌`,
    so that a single character is found, and a phrase is a run of terms. Words of Latin and other letters stay whole,
    those beyond 255 characters are cut there.

    `en` takes Snowball's English stems (Porter 2) and drops tantivy's 33 English stop words, `zh` drops characters
    that only hold a sentence together, alone or as a pair; `auto` does both, `none` neither. A text of nothing else
    than stop words has no terms.

    Raises:
        InvalidInput: tantivy, which stems and indexes them, is not installed.
    """
    if find_spec("tantivy") is None:
        raise InvalidInput(
            'keyword retrievers need the package tantivy; install it with pip install "plumbline-rag[lab]"'
        )
    drops_functions = language in ("auto", "zh")
    stemmed = _english() if language in ("auto", "en") else None

    def terms(text: str) -> list[str]:
        found = [unit for token in tokens_of(text) for unit in _units(token, drops_functions)]
        return stemmed(found) if stemmed else found

    return terms


def _units(token: str, drops_functions: bool) -> Iterator[str]:
    if not is_han(token):
        yield token.replace("’", "'").removesuffix("'s")[:LONGEST_WORD]
        return
    for place, character in enumerate(token):
        pair = token[place : place + 2]
        if not (drops_functions and character in FUNCTION_CHARACTERS):
            yield character
        if len(pair) > 1 and not (drops_functions and FUNCTION_CHARACTERS.issuperset(pair)):
            yield pair


def _english() -> Callable[[list[str]], list[str]]:
    from tantivy import Filter, TextAnalyzerBuilder, Tokenizer  # noqa: PLC0415 - an extra

    # Tokens hold no white space, so that they come back apart as they went in.
    words = TextAnalyzerBuilder(Tokenizer.whitespace()).filter(Filter.stopword("english"))
    analyzer = words.filter(Filter.stemmer("english")).build()

    def stemmed(tokens: list[str]) -> list[str]:
        found: list[str] = analyzer.analyze(" ".join(tokens))
        return found

    return stemmed
