"""Labelled rows as sentences with the windows of the contexts that tier embedding compares them with."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from plumbline.extras.calibration.labels import LabelledRow, read_labels
from plumbline.judging.text.sample import Sample
from plumbline.judging.text.segmented_sample import segment
from plumbline.judging.text.words import content_words
from plumbline.judging.tiers.calibration import Finding
from plumbline.judging.tiers.lexical import collect_lexical_findings
from plumbline.judging.tiers.lexical_features import WORD_MEASURES, KnownPassages
from plumbline.judging.tiers.token_alignment import SentenceWindow, plan_comparison, split_windows

# Windows that a network reads with a claim: those that share most of its rare words.
NEAR_WINDOWS: Final = 3
# Of a claim: measures of its words, whether the contexts have it whole, and the share of its runs of words there.
WORDS: Final = (*WORD_MEASURES, "whole", "copied")
_SCALES: Final = {"near_pairs": 3.0, "unknown_names": 3.0, "unknown_numbers": 2.0}


@dataclass(frozen=True, slots=True)
class Passages:
    """The contexts of a row as windows, with the words that choose among them."""

    windows: Sequence[str]
    rows_by_word: dict[str, list[int]]

    def near(self, text: str, count: int = NEAR_WINDOWS) -> list[str]:
        """Return the windows that share most rare content words with `text`, in reading order."""
        if len(self.windows) <= count:
            return list(self.windows)
        shared = np.zeros(len(self.windows))
        for word in dict.fromkeys(content_words(text)):
            if rows := self.rows_by_word.get(word):
                shared[rows] += 1 / len(rows)
        best = np.argsort(-shared, kind="stable")[:count]
        return [self.windows[row] for row in sorted(best.tolist())]


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence of an answer: its length, what tier lexical finds of it, and its parts as the model reads them."""

    text: str
    length: int
    finding: Finding
    parts: Sequence[str]


@dataclass(frozen=True, slots=True)
class Row:
    """One labelled answer. `compared`: the windows that tier embedding compares it with, as the model reads them."""

    id: str
    dataset: str
    doc: str
    label: int
    sample: Sample
    claims: Sequence[Claim]
    compared: Sequence[str]
    passages: Passages

    @property
    def sentences(self) -> list[str]:
        return [claim.text for claim in self.claims]


def read_rows(path: Path, most: int, language: str = "en") -> list[Row]:
    """Return the rows of a file of labels in a language that have a sentence to judge, by document.

    Args:
        most: of each set and label.
    """
    taken: Counter[tuple[str, int]] = Counter()
    rows = []
    for each in sorted(read_labels(path).rows, key=lambda row: (row.cluster, row.sample.contexts)):
        if each.lang == language and taken[each.dataset, each.label] < most and (row := _row(each)):
            taken[each.dataset, each.label] += 1
            rows.append(row)
    return rows


def _row(labelled: LabelledRow) -> Row | None:
    """Return a labelled row as claims and windows; None if tier embedding would not judge it."""
    segmented = segment(labelled.sample)
    if segmented.language != (labelled.lang or segmented.language) or not segmented.checkable:
        return None
    if not segmented.has_context:
        return None
    plan, findings = plan_comparison(segmented), collect_lexical_findings(segmented)
    said = dict(zip(plan.parts, plan.texts, strict=False))
    claims = [
        Claim(
            text, len(segmented.sentences[at].text), findings[at], [said[part] for part in plan.parts_by_position[at]]
        )
        for at, text in zip(segmented.checkable, segmented.assertions, strict=True)
    ]
    windows = split_windows(labelled.sample.contexts, segmented.context_sentences, segmented.index.readings)
    return Row(
        id=str(labelled.line),
        dataset=labelled.dataset,
        doc=labelled.cluster or str(labelled.line),
        label=int(labelled.label),
        sample=labelled.sample,
        claims=claims,
        compared=plan.texts[len(plan.parts) :],
        passages=_passages(windows),
    )


def words_of(claim: Claim) -> list[float]:
    """Return the numbers named by `WORDS`, none far above 1."""
    measures = claim.finding.measures
    scaled = [measures[name] / _SCALES.get(name, 1.0) for name in WORD_MEASURES]
    return [*scaled, float(claim.finding.is_copy), claim.finding.copied]


def rows_of_claims(row: Row, texts: Sequence[str], labels: Sequence[int], dataset: str) -> list[Row]:
    """Return rows whose answers are one claim each, about the contexts of a row."""
    made = []
    for text, label, each in zip(texts, labels, KnownPassages(segment(row.sample)).measure(texts), strict=True):
        finding = Finding(each.measures, None, each.is_whole, copied=each.copied)
        claims = [Claim(text, len(text), finding, [text])]
        near = row.passages.near(text)
        made.append(replace(row, dataset=dataset, label=label, claims=claims, compared=near))
    return made


def _passages(windows: Sequence[SentenceWindow]) -> Passages:
    texts = list(dict.fromkeys(window.said for window in windows))
    rows_by_word: dict[str, list[int]] = {}
    for row, text in enumerate(texts):
        for word in dict.fromkeys(content_words(text)):
            rows_by_word.setdefault(word, []).append(row)
    return Passages(texts, rows_by_word)
