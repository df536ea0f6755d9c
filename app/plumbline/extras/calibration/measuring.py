"""Labelled answers as a tier measures them, and the same answers beside contexts that have nothing to do with them."""

import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from plumbline.extras.calibration.fitting import MeasuredAnswers
from plumbline.extras.calibration.labels import LabelledRow
from plumbline.ground.errors import TierFailure
from plumbline.judging.text.segmented_sample import SegmentedSample, segment
from plumbline.judging.text.words import Language
from plumbline.judging.tiers.calibration import CalibrationTable, measures_of
from plumbline.judging.tiers.embedding import EmbeddingTier
from plumbline.judging.tiers.lexical import MODEL as LEXICAL_MODEL
from plumbline.judging.tiers.lexical import collect_lexical_findings
from plumbline.judging.tiers.sentence_claims import Finding
from plumbline.judging.tiers.tier import JudgeOptions, SentenceEncoder, TierName

# Nobody waits for one answer.
_PATIENT = JudgeOptions(can_wait=True)
# Answers set beside contexts of other subjects.
_UNRELATED_PAIRS = 300


class Measure(Protocol):
    """How one tier measures the sentences of a sample, by position."""

    async def __call__(self, case: SegmentedSample) -> Mapping[int, Finding]:
        """Raises:
        TierFailure: the tier does not measure this sample.
        """
        ...


@dataclass(frozen=True, slots=True)
class Measured:
    """The answers that a tier measures in one language, and how many it refused."""

    answers: MeasuredAnswers
    unrelated: MeasuredAnswers
    refused: int


@dataclass(frozen=True, slots=True)
class MeasuringTier:
    """A tier's name and model, and how it measures."""

    name: TierName
    model: str
    measure: Measure


def measuring_tier(name: TierName, encoder: SentenceEncoder) -> MeasuringTier:
    """Tier lexical or tier embedding, without its limit on windows."""
    if name is TierName.LEXICAL:
        return MeasuringTier(name, LEXICAL_MODEL, _measure_wording)
    tier = EmbeddingTier(encoder, CalibrationTable(()), ThreadPoolExecutor(1), max_windows=sys.maxsize)

    async def measure(case: SegmentedSample) -> Mapping[int, Finding]:
        return (await tier.compare(case, _PATIENT, seconds=float("inf"))).finding_by_position

    return MeasuringTier(name, encoder.model, measure)


async def _measure_wording(case: SegmentedSample) -> Mapping[int, Finding]:
    return collect_lexical_findings(case)


async def measure_rows(rows: Sequence[LabelledRow], tier: MeasuringTier, *, language: Language) -> Measured | None:
    """The rows in the language, measured; None when there is none with something to judge and contexts to judge by.

    A row that says that it is in another language than its answer is found to be in is left out.
    """
    ordered = sorted(rows, key=lambda row: (row.cluster, row.sample.contexts))
    cases = [(row, segment(row.sample)) for row in ordered if row.lang in ("", language)]
    judged = [(row, case) for row, case in cases if case.language == language and case.checkable and case.has_context]
    names = measures_of(tier.name, language)
    answers, refused = await _measure(judged, tier.measure, names)
    if not len(answers):
        return None
    unrelated, _ = await _measure(_unrelated(judged), tier.measure, names)
    return Measured(answers, unrelated, refused)


async def _measure(
    rows: Sequence[tuple[LabelledRow, SegmentedSample]], measure: Measure, names: tuple[str, ...]
) -> tuple[MeasuredAnswers, int]:
    measured: list[tuple[LabelledRow, list[tuple[float, Finding]]]] = []
    for row, case in rows:
        try:
            findings = await measure(case)
        except TierFailure:
            continue
        measured.append((row, [(float(len(case.sentences[at].text)), found) for at, found in findings.items()]))
    sentences = [sentence for _, found in measured for sentence in found]
    answers = MeasuredAnswers(
        names=names,
        measures=np.array([[found.measures[name] for name in names] for _, found in sentences], dtype=np.float64),
        owners=np.repeat(np.arange(len(measured)), [len(found) for _, found in measured]),
        lengths=np.array([length for length, _ in sentences], dtype=np.float64),
        is_copy=np.array([found.is_copy for _, found in sentences], dtype=bool),
        labels=np.array([row.label for row, _ in measured], dtype=np.float64),
        datasets=np.array([row.dataset for row, _ in measured], dtype=np.str_),
        clusters=np.array([row.cluster for row, _ in measured], dtype=np.str_),
    )
    return answers, len(rows) - len(measured)


def _unrelated(rows: Sequence[tuple[LabelledRow, SegmentedSample]]) -> list[tuple[LabelledRow, SegmentedSample]]:
    """Answers with the contexts of another dataset; where there is one dataset, of another document. Deterministic."""
    several = len({row.dataset for row, _ in rows}) > 1
    found = []
    for at in range(0, len(rows), max(1, len(rows) // _UNRELATED_PAIRS)):
        row = rows[at][0]
        others = (rows[(at + len(rows) // 2 + step) % len(rows)][0] for step in range(len(rows)))
        other = next((other for other in others if _is_strange(row, other, several=several)), None)
        if other:
            case = segment(replace(other.sample, answer=row.sample.answer, question=""))
            if case.checkable:
                found.append((row, case))
    return found


def _is_strange(row: LabelledRow, other: LabelledRow, *, several: bool) -> bool:
    return row.dataset != other.dataset if several else row.cluster != other.cluster
