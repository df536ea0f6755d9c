"""Tier 3: overlap of the answer's wording with the contexts', sentence by sentence. No model, no network."""

from concurrent.futures import Executor
from dataclasses import replace

from plumbline.ground.deadline import within_deadline
from plumbline.ground.errors import FailureReason, TierFailure
from plumbline.ground.texts import CodedText
from plumbline.judging.ports.observation import Readiness, State
from plumbline.judging.text import offload
from plumbline.judging.text.open_clauses import REACH, is_cut
from plumbline.judging.text.segmented_sample import SegmentedSample
from plumbline.judging.text.verdicts import Evidence, Judgement
from plumbline.judging.text.words import detect_language, han_share
from plumbline.judging.tiers.calibration import CalibrationTable
from plumbline.judging.tiers.judgement import build_judgement
from plumbline.judging.tiers.lexical_features import DOUBTS, Finding, measure_lexical_features
from plumbline.judging.tiers.tier import JudgeOptions, TierName

MODEL = "wording-2"
# "GPT-4 是 OpenAI 的模型" is mostly Latin by its letters and still comparable with a Chinese context.
_HAN_SHARE_IN_MIXED_TEXT = 0.1


class LexicalTier:
    """Seed 4's method 3: overlap of words, sentence by sentence, through a fitted sigmoid."""

    name = TierName.LEXICAL

    def __init__(self, calibrations: CalibrationTable, executor: Executor) -> None:
        self._calibrations = calibrations
        self._executor = executor

    async def judge(self, sample: SegmentedSample, options: JudgeOptions, *, seconds: float) -> Judgement:
        """Return the judgement, computed off the event loop.

        Raises TierFailure `cross_lingual` if the answer and all contexts are in different scripts.
        """
        return await offload.run(lambda: self.judge_now(sample), self._executor, inline=False)

    def judge_now(self, sample: SegmentedSample) -> Judgement:
        calibration = self._calibrations.find(tier=self.name, model=MODEL, language=sample.language)
        findings = collect_lexical_findings(sample)
        # A copy needs no common script: "iPhone 14 Pro Max" from a Chinese context.
        if not is_in_one_script(sample) and not all(found.is_copy for found in findings.values()):
            raise TierFailure(
                FailureReason.CROSS_LINGUAL,
                CodedText(
                    "scripts_differ", one=sample.language, other=str(sorted(map(detect_language, _contexts(sample))))
                ),
            )
        return build_judgement(sample, findings, calibration)

    def readiness(self) -> Readiness:
        return Readiness(State.READY, MODEL)


def is_in_one_script(sample: SegmentedSample) -> bool:
    """Return True if the words of the answer can be compared with those of a context."""
    contexts = _contexts(sample)
    return (
        not contexts
        or any(detect_language(context) == sample.language for context in contexts)
        or (_has_han(sample.source.answer) and any(map(_has_han, contexts)))
    )


def collect_lexical_findings(sample: SegmentedSample) -> dict[int, Finding]:
    """Return the wording of each checkable sentence, by position, with the context sentence that has most of it."""
    findings = {}
    measured = zip(sample.assertions, measure_lexical_features(sample).items(), strict=True)
    for text, (position, features) in within_deadline(measured):
        wordings = (text, sample.sentences[position].text) if features.is_whole else ()
        passages = {row: sample.index.passage(row) for row in features.rows} if wordings else {}
        held = ((row, place) for row in passages for each in wordings if (place := passages[row].find(each)))
        copy, place = next(held, (None, (0, 0)))
        best = next(iter(features.rows), None) if copy is None else copy
        evidence = None
        if best is not None:
            context, place_found = sample.index.places[best]
            evidence = Evidence(context, place_found.text, place_found.start, place_found.end, verified=True)
        # "12 °C" is no copy of "-12 °C", though it stands in it.
        is_copy = copy is not None and not features.unknown_numbers
        open_reasons = features.open_reasons
        if copy is not None and is_cut(*passages[copy].around(place, REACH)):
            # All of its words are copied, so that their share would let it pass
            is_copy, open_reasons = False, (*open_reasons, "condition_left_out")
        found = replace(features, evidence=evidence, is_copy=is_copy, open_reasons=open_reasons)
        if position in sample.answered_refusals:
            # Whatever it names, it is about what the contexts lack, and a sentence of theirs seems to have it.
            measures = {**features.measures, **dict.fromkeys(DOUBTS, 0.0)}
            found = Finding(measures, evidence, open_reasons=("refusal_answered",), is_related=True)
        findings[position] = found
    return findings


def _contexts(sample: SegmentedSample) -> list[str]:
    return [context for context in sample.source.contexts if context.strip()]


def _has_han(text: str) -> bool:
    return han_share(text) >= _HAN_SHARE_IN_MIXED_TEXT
