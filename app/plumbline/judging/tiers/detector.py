"""Tier detector: a trained model that the user brings says how far the contexts support each sentence."""

import asyncio
import math
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import replace
from itertools import groupby

from plumbline.ground.texts import CodedText
from plumbline.judging.ports.exchange import DetectorFinding, Passage
from plumbline.judging.ports.models import Detector
from plumbline.judging.ports.observation import Readiness
from plumbline.judging.text.segmented_sample import SegmentedSample
from plumbline.judging.text.verdicts import Judgement
from plumbline.judging.tiers.calibration import SUPPORTED_FROM, CalibrationTable
from plumbline.judging.tiers.judgement import build_judgement
from plumbline.judging.tiers.lexical import collect_lexical_findings
from plumbline.judging.tiers.lexical_features import Finding
from plumbline.judging.tiers.tier import JudgeOptions, TierName, check_language

# Flag of a judgement by a model that scores answers whole: every sentence has the same support.
WHOLE_ANSWER = "whole_answer"
# A probability that is rounded to 0 or 1 has a logit all the same.
_LEAST = 1e-6
# A reason names so many words without support.
_MAX_FAULTS = 5


class DetectorTier:
    """Support of each sentence by a detector; a fitted calibration maps its logit, without one it is taken as it is."""

    name = TierName.DETECTOR

    def __init__(self, detector: Detector, calibrations: CalibrationTable, executor: Executor) -> None:
        self._detector = detector
        self._calibrations = calibrations
        self._executor = executor

    async def judge(self, sample: SegmentedSample, options: JudgeOptions, *, seconds: float) -> Judgement:
        """Return the judgement within `seconds`.

        Raises TierFailure: `unsupported_language`, `timeout`, or what the detector declares.
        """
        findings, cut = await self._findings(sample, options, seconds=seconds)
        calibration = self._calibrations.find(tier=self.name, model=self._detector.model, language=sample.language)
        warning = CodedText("answer_cut", share=cut, model=self._detector.model)
        judgement = build_judgement(sample, findings, calibration, warnings=(warning,) if cut else ())
        if self._detector.unit == "answer" and not self._detector.marks_words:
            return replace(judgement, flags=(*judgement.flags, WHOLE_ANSWER))
        return judgement

    async def compare(self, sample: SegmentedSample, options: JudgeOptions, *, seconds: float) -> dict[int, Finding]:
        """Measure each checkable sentence, by its position; raise as `judge`. For calibration."""
        return (await self._findings(sample, options, seconds=seconds))[0]

    def readiness(self) -> Readiness:
        return self._detector.readiness()

    async def _findings(
        self, sample: SegmentedSample, options: JudgeOptions, *, seconds: float
    ) -> tuple[dict[int, Finding], float]:
        check_language(sample, model=self._detector.model, languages=self._detector.languages)
        is_whole = self._detector.unit == "answer"
        claims = [sample.source.answer] if is_whole else list(sample.assertions)
        reading = await self._detector.read(
            _passages(sample),
            sample.source.question or "",
            claims,
            seconds=seconds,
            scope=options.tenant,
        )
        words = await asyncio.get_running_loop().run_in_executor(self._executor, collect_lexical_findings, sample)
        by_position: dict[int, DetectorFinding] = {}
        for number, position in enumerate(sample.checkable):
            whole = reading.findings[0 if is_whole else number]
            by_position[position] = _part(sample, position, whole) if self._detector.marks_words else whole
        found = {position: _join(words[position], each, sample) for position, each in by_position.items()}
        return found, reading.cut


def _passages(sample: SegmentedSample) -> Sequence[Passage]:
    return [
        Passage(number, text, tuple((each.start, each.end) for each in sentences))
        for number, (text, sentences) in enumerate(zip(sample.source.contexts, sample.context_sentences, strict=True))
        if text.strip()
    ]


def _part(sample: SegmentedSample, position: int, whole: DetectorFinding) -> DetectorFinding:
    """Return the finding of one sentence out of that of the answer: it is as good as its weakest word."""
    sentence = sample.sentences[position]
    words = [each for each in whole.words if each[0] < sentence.end and each[1] > sentence.start]
    return DetectorFinding(min((support for *_, support in words), default=whole.support), words=words)


def find_faults(words: Sequence[tuple[int, int, float]]) -> list[tuple[int, int]]:
    """Return the runs of words without support, as characters [start, end) of their text."""
    runs = [list(run) for is_fault, run in groupby(words, key=lambda word: word[2] < SUPPORTED_FROM) if is_fault]
    return [(run[0][0], run[-1][1]) for run in runs]


def _join(words: Finding, found: DetectorFinding, sample: SegmentedSample) -> Finding:
    share = min(1.0 - _LEAST, max(_LEAST, found.support))
    text = sample.source.answer
    marked = tuple(f"“{text[start:end]}” ({start}-{end})" for start, end in find_faults(found.words)[:_MAX_FAULTS])
    return Finding(
        {"logit": math.log(share / (1.0 - share))},
        words.evidence,
        words.is_copy,
        is_denied=found.is_denied,
        unsupported_words=marked,
    )
