"""Labelled rows as sentences with the windows of the contexts that tier embedding compares them with."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from plumbline.extras.calibration.labels import LabelledRow, read_labels
from plumbline.judging.text.sample import Sample
from plumbline.judging.text.segmented_sample import segment
from plumbline.judging.text.words import content_words
from plumbline.judging.tiers.lexical_features import measure_lexical_features
from plumbline.judging.tiers.token_alignment import SentenceWindow, split_windows

# Windows that the head reads with a sentence: those that share most of its rare words, and their neighbours.
NEAR_WINDOWS = 5
MEASURES = ("character_coverage", "near_pairs", "unknown_names", "unknown_numbers", "negation", "roles")


@dataclass(frozen=True, slots=True)
class Passages:
    """The contexts of a row as windows, with the words that choose among them."""

    windows: Sequence[str]
    rows_by_word: dict[str, list[int]]

    def near(self, text: str, count: int = NEAR_WINDOWS) -> list[int]:
        """Return the rows of the windows that share most rare content words with `text`, in reading order."""
        if len(self.windows) <= count:
            return list(range(len(self.windows)))
        shared = np.zeros(len(self.windows))
        for word in dict.fromkeys(content_words(text)):
            if rows := self.rows_by_word.get(word):
                shared[rows] += 1 / len(rows)
        best = np.argsort(-shared, kind="stable")[:count]
        return sorted(int(row) for row in best)


@dataclass(frozen=True, slots=True)
class Row:
    """One labelled answer: its sentences, and what tiers 2 and 3 measure of their wording."""

    id: str
    dataset: str
    doc: str
    label: int
    sample: Sample
    sentences: Sequence[str]
    measures: Sequence[Sequence[float]]
    copies: Sequence[bool]
    passages: Passages


def read_rows(path: Path, languages: Sequence[str] = ("en",)) -> list[Row]:
    """Return the rows of a file of labels in these languages that have a sentence to judge."""
    return [row for each in read_labels(path).rows if each.lang in languages and (row := _row(each, languages))]


def passages_of(windows: Sequence[SentenceWindow]) -> Passages:
    texts = list(dict.fromkeys(window.said for window in windows))
    rows_by_word: dict[str, list[int]] = {}
    for row, text in enumerate(texts):
        for word in dict.fromkeys(content_words(text)):
            rows_by_word.setdefault(word, []).append(row)
    return Passages(texts, rows_by_word)


def _row(labelled: LabelledRow, languages: Sequence[str]) -> Row | None:
    segmented = segment(labelled.sample)
    if segmented.language not in languages or not segmented.checkable:
        return None
    features = measure_lexical_features(segmented)
    windows = split_windows(labelled.sample.contexts, segmented.context_sentences, segmented.index.readings)
    if not windows:
        return None
    found = [features[position] for position in segmented.checkable]
    return Row(
        id=str(labelled.line),
        dataset=labelled.dataset,
        doc=labelled.cluster or str(labelled.line),
        label=int(labelled.label),
        sample=labelled.sample,
        sentences=list(segmented.assertions),
        measures=[[each.measures.get(name, 0.0) for name in MEASURES] for each in found],
        copies=[each.is_whole for each in found],
        passages=passages_of(windows),
    )
