"""Tier 3: how far the wording of the answer stands in the contexts, sentence by sentence. No model, no network."""

import asyncio
from concurrent.futures import Executor

from plumbline.ground.errors import FailureReason, TierFailure
from plumbline.judging.ports.readiness import Readiness, State
from plumbline.judging.text.sample import SegmentedSample
from plumbline.judging.text.segmentation import Sentence
from plumbline.judging.text.verdicts import Evidence, Judgement
from plumbline.judging.text.words import han_share, language_of
from plumbline.judging.tiers.calibration import CalibrationTable
from plumbline.judging.tiers.sentence_claims import Finding, judgement_of
from plumbline.judging.tiers.support.wording import Wording, measure_wording
from plumbline.judging.tiers.tier import Ask, TierName

MODEL = "wording-2"

# "GPT-4 是 OpenAI 的模型" is mostly Latin by its letters and still comparable with a Chinese context.
_HAN_SHARE_IN_MIXED_TEXT = 0.1


class LexicalTier:
    """Seed 4's method 3: overlap of words, sentence by sentence, through a fitted sigmoid."""

    name = TierName.LEXICAL

    def __init__(self, calibrations: CalibrationTable, executor: Executor) -> None:
        self._calibrations = calibrations
        self._executor = executor

    async def judge(self, case: SegmentedSample, ask: Ask, *, seconds: float) -> Judgement:
        """The judgement, made off the event loop.

        Raises:
            TierFailure: `cross_lingual`, the answer and all contexts are in different scripts.
        """
        return await asyncio.get_running_loop().run_in_executor(self._executor, self.judge_now, case)

    def judge_now(self, case: SegmentedSample) -> Judgement:
        """The same, at once and in this thread."""
        _refuse_cross_lingual(case)
        calibration = self._calibrations.find(tier=self.name, model=MODEL, language=case.language)
        return judgement_of(case, find_wording(case), calibration)

    def readiness(self) -> Readiness:
        return Readiness(State.READY, MODEL)


def find_wording(case: SegmentedSample) -> dict[int, Finding]:
    """What the wording of each checkable sentence says, by position, with the context sentence that has most of it."""
    return {position: _finding(case, position, wording) for position, wording in measure_wording(case).items()}


def _finding(case: SegmentedSample, position: int, wording: Wording) -> Finding:
    text = case.sentences[position].text
    copy = next((row for row in wording.rows if wording.is_whole and case.index.holds(row, text)), None)
    best = next(iter(wording.rows), None) if copy is None else copy
    return Finding(
        measures=wording.measures,
        evidence=None if best is None else _evidence(*case.index.places[best]),
        is_copy=copy is not None,
        unknown=wording.unknown,
    )


def _evidence(context: int, sentence: Sentence) -> Evidence:
    return Evidence(context, sentence.text, sentence.start, sentence.end, verified=True)


def _refuse_cross_lingual(case: SegmentedSample) -> None:
    contexts = [context for context in case.sample.contexts if context.strip()]
    if not contexts or any(language_of(context) == case.language for context in contexts):
        return
    if _has_han(case.sample.answer) and any(_has_han(context) for context in contexts):
        return
    raise TierFailure(
        FailureReason.CROSS_LINGUAL,
        f"answer in {case.language!r}, contexts in {sorted(map(language_of, contexts))}: "
        "words cannot be compared across scripts",
    )


def _has_han(text: str) -> bool:
    return han_share(text) >= _HAN_SHARE_IN_MIXED_TEXT
