"""The sentences of contexts as windows, long ones in pieces: what tier embedding compares."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from plumbline.judging.text.segmentation import Sentence

# MiniLM reads 256 tokens; English runs at 4 to 5 characters a token, so this stays inside with room for numbers.
MAX_CHARACTERS = 800
_BREAK = re.compile(r"[\s,;:，；：、]")


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of one context; `text` is `context[start:end]`."""

    context: int
    text: str
    start: int
    end: int


def context_windows(contexts: Sequence[str], sentences: Sequence[Sequence[Sentence]]) -> list[Window]:
    """One window for each sentence of each context that has a letter or digit, none longer than `MAX_CHARACTERS`.

    A longer sentence is cut at white space or punctuation, so that nothing is dropped. No window of several sentences:
    each word looks for its counterpart everywhere, and what a model reads twice costs twice.
    """
    return [
        Window(context, text[start:end], start, end)
        for context, (text, spans) in enumerate(zip(contexts, sentences, strict=True))
        for sentence in spans
        if any(map(str.isalnum, sentence.text))
        for start, end in pieces(text, sentence.start, sentence.end)
    ]


def pieces(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Offsets that cut `text[start:end]` into stretches of `MAX_CHARACTERS` at most, at a break where there is one."""
    found: list[tuple[int, int]] = []
    while end - start > MAX_CHARACTERS:
        cut = _last_break(text, start + MAX_CHARACTERS // 2, start + MAX_CHARACTERS)
        found.append((start, cut))
        start = cut
    return [*found, (start, end)]


def _last_break(text: str, low: int, high: int) -> int:
    last = high
    for match in _BREAK.finditer(text, low, high):
        last = match.end()
    return last
