"""Alignment of the answer's sentences with windows of the contexts: cosines of token vectors.

BERTScore's precision (Zhang et al. 2020), with all contexts as the reference.
"""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from plumbline.ground.errors import FailureReason, TierFailure
from plumbline.ground.texts import CodedText
from plumbline.judging.ports.token_vectors import TokenVectors
from plumbline.judging.text.segmentation import Sentence
from plumbline.judging.text.segmented_sample import SegmentedSample
from plumbline.judging.text.words import STEM, content_words, split_compounds

ALIGNMENT_MEASURES = ("alignment",)
# Tokens of sentences compared between two looks at the clock, and at a time in memory.
_BLOCK = 2_048
# Highest alignment of unrelated texts: a model above it, or one whose vectors are all alike, separates nothing.
_HIGHEST_BASELINE = 0.99


class TokenAlignment:
    """Alignment of an answer's sentences with texts of the contexts, a few at a time to bound memory."""

    def __init__(self, sentences: TokenVectors) -> None:
        self._vectors = sentences.vectors
        self._bounds = sentences.bounds
        self._lengths = np.diff(sentences.bounds)
        self._best = np.full(len(sentences.vectors), -1.0, dtype=np.float32)
        self._means: list[NDArray[np.float32]] = []

    def add(self, contexts: TokenVectors, *, until: float) -> None:
        """Compare with more texts of the contexts, one at least; raise TierFailure at the monotonic time `until`."""
        means = np.empty((len(self._lengths), len(contexts.bounds) - 1), dtype=np.float32)
        for first, last in self._blocks():
            if time.monotonic() >= until:
                raise TierFailure(FailureReason.TIMEOUT, CodedText("comparison_timed_out"))
            start, end = self._bounds[first], self._bounds[last]
            # A row for each token of the contexts: texts are then runs of whole rows, which numpy reduces at speed.
            cosines = contexts.vectors @ self._vectors[start:end].T
            by_text = np.maximum.reduceat(cosines, contexts.bounds[:-1], axis=0)
            np.maximum(self._best[start:end], by_text.max(axis=0), out=self._best[start:end])
            totals = np.add.reduceat(by_text, self._bounds[first:last] - start, axis=1)
            means[first:last] = totals.T / self._lengths[first:last, None]
        self._means.append(means)

    def shares(self) -> NDArray[np.float32]:
        """Return the mean of each sentence's tokens' best cosines so far: shape (sentences,), in [-1, 1]."""
        return np.asarray(np.add.reduceat(self._best, self._bounds[:-1]) / self._lengths, dtype=np.float32)

    def nearest(self) -> NDArray[np.intp]:
        """Return the text with the highest mean for each sentence, the first of equals: shape (sentences,)."""
        return np.asarray(np.concatenate(self._means, axis=1).argmax(axis=1))

    def _blocks(self) -> Iterator[tuple[int, int]]:
        first = 0
        while first < len(self._lengths):
            fitting = int(np.searchsorted(self._bounds, self._bounds[first] + _BLOCK, side="right")) - 1
            last = max(first + 1, fitting)
            yield first, last
            first = last


def measure_unrelated(texts: TokenVectors) -> float:
    """Return the mean alignment of each of some unrelated texts, two at least, with all others."""
    count, shares = len(texts.bounds) - 1, []
    for text in range(count):
        alignment = TokenAlignment(texts.part(text, text + 1))
        for first, last in ((0, text), (text + 1, count)):
            if first < last:
                alignment.add(texts.part(first, last), until=float("inf"))
        shares.append(float(alignment.shares()[0]))
    return min(sum(shares) / count, _HIGHEST_BASELINE)


# Windows that a sentence is compared with, besides those near the others, and how many an answer is compared with at
# least: docs/decisions/0007.
_NEAR_WINDOWS, _FEWEST_WINDOWS = 3, 5
# MiniLM reads 256 tokens; English runs at 4 to 5 characters a token, so this stays inside with room for numbers.
MAX_CHARACTERS = 800
_BREAK = re.compile(r"[\s,;:，；：、]")
_NO_READINGS: Final[Mapping[int, Mapping[int, str]]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class SentenceWindow:
    """A stretch of one context; `text` is `context[start:end]`, `said` what a model reads of it."""

    context: int
    text: str
    start: int
    end: int
    said: str


def split_windows(
    contexts: Sequence[str],
    sentences: Sequence[Sequence[Sentence]],
    readings: Mapping[int, Mapping[int, str]] = _NO_READINGS,
) -> list[SentenceWindow]:
    """Return one window for each sentence of each context that has a letter or digit, at most `MAX_CHARACTERS` long.

    A longer sentence is cut at white space or punctuation, so that nothing is dropped. No window of several sentences:
    each word looks for its counterpart everywhere, and what a model reads twice costs twice. `readings` of a structured
    context, by the position of the sentence: its value behind its path.
    """
    windows: list[SentenceWindow] = []
    for context, (text, spans) in enumerate(zip(contexts, sentences, strict=True)):
        said = readings.get(context, {})
        for position, sentence in enumerate(spans):
            if any(map(str.isalnum, sentence.text)):
                cuts = pieces(text, sentence.start, sentence.end)
                reading = said.get(position) if len(cuts) == 1 else None
                windows += [SentenceWindow(context, text[at:end], at, end, reading or text[at:end]) for at, end in cuts]
    return windows


def pieces(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Return offsets that cut `text[start:end]` into stretches of at most `MAX_CHARACTERS`, at a break if possible."""
    found: list[tuple[int, int]] = []
    while end - start > MAX_CHARACTERS:
        cut = start + MAX_CHARACTERS
        for match in _BREAK.finditer(text, start + MAX_CHARACTERS // 2, cut):
            cut = match.end()
        found.append((start, cut))
        start = cut
    return [*found, (start, end)]


@dataclass(frozen=True, slots=True)
class ComparisonPlan:
    """Texts to compare: the parts of each checkable sentence by position, and the distinct windows near one of them.

    A very long sentence has several parts. A window that occurs twice is compared once, where it comes first. `parts`
    are the distinct ones; `texts` all that a model reads: the parts, then the windows, as models know words.
    """

    parts_by_position: Mapping[int, Sequence[str]]
    parts: Sequence[str]
    windows: Sequence[SentenceWindow]
    texts: Sequence[str]


def plan_comparison(sample: SegmentedSample) -> ComparisonPlan:
    found = split_windows(sample.source.contexts, sample.context_sentences, sample.index.readings)
    windows = {window.said: window for window in reversed(found)}
    parts = {
        position: [text[start:end] for start, end in pieces(text, 0, len(text))]
        for position, text in zip(sample.checkable, sample.assertions, strict=True)
    }
    distinct = sorted({text for part in parts.values() for text in part})
    # Sorted, so that the order of the contexts moves nothing.
    texts = _select_near(distinct, sorted(windows))
    return ComparisonPlan(
        parts, distinct, [windows[text] for text in texts], list(map(split_compounds, (*distinct, *texts)))
    )


def _select_near(parts: Sequence[str], windows: Sequence[str]) -> Sequence[str]:
    """Return the windows that share most content words with a part, for each part as many; all if one shares none.

    A word counts the more, the fewer windows have it. A text in another script, or in wholly other words, is left to
    the model.
    """
    if not parts or len(windows) <= _FEWEST_WINDOWS:
        return windows
    rows_by_word: dict[str, list[int]] = {}
    for row, window in enumerate(windows):
        for word in _stems(window):
            rows_by_word.setdefault(word, []).append(row)
    count = max(_NEAR_WINDOWS, -(-_FEWEST_WINDOWS // len(parts)))
    near: set[int] = set()
    for part in parts:
        shared = np.zeros(len(windows))
        for word in _stems(part):
            if rows := rows_by_word.get(word):
                shared[rows] += 1 / len(rows)
        if not shared.any():
            return windows
        near.update(np.argsort(-shared, kind="stable")[:count].tolist())
    return [windows[row] for row in sorted(near)]


def _stems(text: str) -> dict[str, None]:
    return dict.fromkeys(word[:STEM] for word in content_words(text))


def match_sentences(plan: ComparisonPlan, alignment: TokenAlignment) -> dict[int, tuple[float, SentenceWindow]]:
    """Return the mean alignment in [-1, 1] of each sentence's parts, and the window nearest to its first, by position.

    `alignment` has the plan's parts and windows in their order.
    """
    row_by_part = {part: row for row, part in enumerate(plan.parts)}
    shares, nearest = alignment.shares(), alignment.nearest()
    matches = {}
    for position, parts in plan.parts_by_position.items():
        rows = [row_by_part[part] for part in parts]
        share = sum(float(shares[row]) for row in rows) / len(rows)
        matches[position] = share, plan.windows[nearest[rows[0]]]
    return matches
