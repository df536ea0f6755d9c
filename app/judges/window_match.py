"""Sentences of the answer against windows of the contexts: what is compared, and how the vectors then match. Pure."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.errors import FailureReason, TierFailure
from app.generation.sample import SegmentedSample
from app.generation.words import contains_verbatim
from app.judges.windows import Window, context_windows, pieces

# Cosines this near are one: arithmetic in another order moves them as far.
_EQUAL_COSINES = 1e-6
_MAX_EQUALS = 16
# Sentences compared between two looks at the clock.
_CHUNK = 128


@dataclass(frozen=True, slots=True)
class ComparisonPlan:
    """What is compared: distinct windows, the parts of each checkable sentence by position, and all texts to encode.

    A very long sentence has several parts. `texts` are distinct and sorted, so that the order of the contexts moves
    nothing.
    """

    windows: Sequence[Window]
    parts_by_position: Mapping[int, Sequence[str]]
    texts: Sequence[str]


@dataclass(frozen=True, slots=True)
class WindowMatch:
    """How a sentence matches the contexts.

    `cosine` in [-1, 1]: with its best window, the mean over its parts; `window`: the best one (of the first part);
    `is_verbatim`: each part stands in its best window word for word.
    """

    cosine: float
    window: Window
    is_verbatim: bool


def plan_comparison(case: SegmentedSample) -> ComparisonPlan:
    """The plan for a sample; a window that occurs twice is compared once, where it comes first."""
    windows = {
        window.text: window for window in reversed(context_windows(case.sample.contexts, case.context_sentences))
    }
    parts = {position: _parts(case, position) for position in case.checkable}
    texts = sorted(windows.keys() | {text for part in parts.values() for text in part})
    return ComparisonPlan(tuple(windows.values()), parts, texts)


def match_sentences(plan: ComparisonPlan, vectors: NDArray[np.float32], *, until: float) -> dict[int, WindowMatch]:
    """How each sentence of the plan matches, by position.

    Args:
        plan: with at least one window.
        vectors: shape (len(plan.texts), d), unit vectors of its texts.
        until: monotonic time at which to give up.

    Raises:
        TierFailure: `timeout`.
    """
    row_by_text = {text: row for row, text in enumerate(plan.texts)}
    windows = vectors[[row_by_text[window.text] for window in plan.windows]]
    distinct = sorted({text for part in plan.parts_by_position.values() for text in part})
    match_by_text: dict[str, WindowMatch] = {}
    for start in range(0, len(distinct), _CHUNK):
        if time.monotonic() >= until:
            raise TierFailure(FailureReason.TIMEOUT, "the deadline passed before the sentences were compared")
        chunk = distinct[start : start + _CHUNK]
        cosines = np.clip(vectors[[row_by_text[text] for text in chunk]] @ windows.T, -1.0, 1.0)
        for text, row in zip(chunk, cosines, strict=True):
            match_by_text[text] = _best_window(text, row, plan.windows)
    return {
        position: _joined([match_by_text[text] for text in part]) for position, part in plan.parts_by_position.items()
    }


def _parts(case: SegmentedSample, position: int) -> list[str]:
    sentence = case.sentences[position]
    return [case.sample.answer[start:end] for start, end in pieces(case.sample.answer, sentence.start, sentence.end)]


def _best_window(text: str, cosines: NDArray[np.float32], windows: Sequence[Window]) -> WindowMatch:
    """The window of the highest cosine; of equals one that holds the text verbatim."""
    top = cosines.max()
    equals = np.flatnonzero(cosines >= top - _EQUAL_COSINES)[:_MAX_EQUALS]
    verbatim = next((index for index in equals if contains_verbatim(windows[index].text, text)), None)
    best = equals[0] if verbatim is None else verbatim
    return WindowMatch(float(top), windows[best], verbatim is not None)


def _joined(matches: Sequence[WindowMatch]) -> WindowMatch:
    return WindowMatch(
        cosine=sum(match.cosine for match in matches) / len(matches),
        window=matches[0].window,
        is_verbatim=all(match.is_verbatim for match in matches),
    )
