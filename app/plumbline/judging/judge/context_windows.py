"""Contexts split into windows that a model can read; every character is in some window."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from plumbline.ground.errors import FailureReason, TierFailure
from plumbline.ground.texts import CodedText
from plumbline.judging.ports.exchange import estimate_tokens
from plumbline.judging.text.segmentation import Sentence

# Each piece has braces, keys and a number around it.
_TOKENS_AROUND: Final = 16
_MAX_WINDOWS: Final = 64


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of one context; `number` counts contexts from 1, as the judge sees them."""

    number: int
    text: str


Window = tuple[Piece, ...]


def context_windows(
    contexts: Sequence[str], sentences: Sequence[Sequence[Sentence]], *, tokens: int
) -> tuple[Window, ...]:
    """Split the contexts into as few windows as their order allows, between sentences where they must be cut.

    The last sentence of a cut piece opens the next one too, so that what is said over two sentences is read at once.

    Raises TierFailure: `too_long`, when it would take more than 64 windows of so many `tokens`.
    """
    if sum(estimate_tokens(text) + _TOKENS_AROUND for text in contexts) <= tokens:
        return (tuple(Piece(number, text) for number, text in enumerate(contexts, start=1)),)
    windows: list[Window] = []
    current: list[Piece] = []
    used = 0
    for number, (text, cuts) in enumerate(zip(contexts, sentences, strict=True), start=1):
        for piece in _pieces(text, cuts, tokens - _TOKENS_AROUND):
            size = estimate_tokens(piece) + _TOKENS_AROUND
            if used + size > tokens and current:
                windows.append(tuple(current))
                current, used = [], 0
            current.append(Piece(number, piece))
            used += size
        if len(windows) >= _MAX_WINDOWS:
            raise TierFailure(FailureReason.TOO_LONG, CodedText("too_many_windows", limit=_MAX_WINDOWS, tokens=tokens))
    return (*windows, tuple(current))


def _pieces(text: str, sentences: Sequence[Sentence], tokens: int) -> Iterator[str]:
    if estimate_tokens(text) <= tokens:
        yield text
        return
    start = used = before = last = last_size = 0
    for stop in _stops(text, sentences, tokens):
        size = estimate_tokens(text[before:stop])
        if used + size > tokens and before > start:
            yield text[start:before]
            start, used = (last, last_size) if last_size + size <= tokens and last > start else (before, 0)
        used += size
        last, last_size, before = before, size, stop
    yield text[start:]


def _stops(text: str, sentences: Sequence[Sentence], tokens: int) -> Iterator[int]:
    """Yield where the text may be cut: after each sentence, and inside of one that is too long alone."""
    before = 0
    # One character is at most one token.
    for end in [*(sentence.end for sentence in sentences), len(text)]:
        while estimate_tokens(text[before:end]) > tokens:
            before += tokens
            yield before
        if end > before:
            before = end
            yield end
