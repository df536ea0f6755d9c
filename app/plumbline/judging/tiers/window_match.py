"""Sentences of the answer against windows of the contexts: what is compared, and which window is nearest to each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from plumbline.judging.text.segmented_sample import SegmentedSample
from plumbline.judging.text.words import spaced
from plumbline.judging.tiers.support.alignment import Alignment
from plumbline.judging.tiers.windows import Window, context_windows, pieces


@dataclass(frozen=True, slots=True)
class ComparisonPlan:
    """What is compared: the parts of each checkable sentence by position, and distinct windows.

    A very long sentence has several parts. A window that occurs twice is compared once, where it comes first. `parts`
    are the distinct ones.
    """

    parts_by_position: Mapping[int, Sequence[str]]
    parts: Sequence[str]
    windows: Sequence[Window]

    @property
    def texts(self) -> list[str]:
        """All that a model reads: the parts, then the windows, as models know words."""
        return [spaced(text) for text in (*self.parts, *(window.text for window in self.windows))]


@dataclass(frozen=True, slots=True)
class WindowMatch:
    """How a sentence matches the contexts.

    `alignment` in [-1, 1]: the mean over its parts; `window`: the nearest one (of the first part).
    """

    alignment: float
    window: Window


def plan_comparison(sample: SegmentedSample) -> ComparisonPlan:
    """The plan for a sample."""
    windows = {
        window.text: window for window in reversed(context_windows(sample.source.contexts, sample.context_sentences))
    }
    parts = {position: _parts(sample, position) for position in sample.checkable}
    distinct = sorted({text for part in parts.values() for text in part})
    # Sorted, so that the order of the contexts moves nothing.
    return ComparisonPlan(parts, distinct, [windows[text] for text in sorted(windows)])


def match_sentences(plan: ComparisonPlan, alignment: Alignment) -> dict[int, WindowMatch]:
    """How each sentence of the plan matches, by position.

    Args:
        plan: with at least one window.
        alignment: of the plan's parts with all of its windows, in their order.
    """
    row_by_part = {part: row for row, part in enumerate(plan.parts)}
    shares, nearest = alignment.shares(), alignment.nearest()
    matches = {}
    for position, parts in plan.parts_by_position.items():
        rows = [row_by_part[part] for part in parts]
        share = sum(float(shares[row]) for row in rows) / len(rows)
        matches[position] = WindowMatch(share, plan.windows[nearest[rows[0]]])
    return matches


def _parts(sample: SegmentedSample, position: int) -> list[str]:
    sentence = sample.sentences[position]
    return [
        sample.source.answer[start:end] for start, end in pieces(sample.source.answer, sentence.start, sentence.end)
    ]
