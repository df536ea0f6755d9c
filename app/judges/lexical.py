"""Tier 3: the share of the answer's content words that stand in the contexts. No model, no network."""

import asyncio
from concurrent.futures import Executor

from app.errors import FailureReason, TierFailure
from app.generation.overlap import ContextIndex, Match
from app.generation.sample import SegmentedSample
from app.generation.segmentation import Sentence
from app.generation.verdicts import Claim, Evidence, JudgeAccount, Judgement, Verdict, whole_sentence_claim
from app.generation.words import content_words, han_share, language_of
from app.judges.calibration import VERBATIM_SUPPORT, Calibration, CalibrationTable
from app.judges.tier import Ask, TierName
from app.readiness import Readiness, State

MODEL = "content-word-overlap-1"

# Of support, for the verdict of a sentence: calibration puts its decision boundary here.
SUPPORTED_FROM = 0.5
# "GPT-4 是 OpenAI 的模型" is mostly Latin by its letters and still comparable with a Chinese context.
_HAN_SHARE_IN_MIXED_TEXT = 0.1


class LexicalTier:
    """Seed 4's method 3: stopword-filtered overlap, sentence by sentence, through a fitted sigmoid."""

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
        checkable = frozenset(case.checkable)
        claims = tuple(
            _judge_sentence(position, sentence, case.index, calibration)
            if position in checkable
            else whole_sentence_claim(position, sentence, verdict=Verdict.NOT_A_CLAIM)
            for position, sentence in enumerate(case.sentences)
        )
        return Judgement(
            claims=claims,
            account=JudgeAccount(model=MODEL),
            has_verdict_kinds=False,
            reliability=calibration.reliability,
            flags=() if calibration.is_fitted else ("uncalibrated",),
        )

    def readiness(self) -> Readiness:
        return Readiness(State.READY, MODEL)


def sentence_overlap(text: str, index: ContextIndex) -> tuple[float, Match | None]:
    """The raw overlap of a sentence with the contexts in [0, 1], and the context sentence that covers it best.

    The mean of two shares of its distinct content words: those found anywhere in the contexts (seed 4), and those
    found together in one context sentence. On the human labels either alone agrees less (macro AUROC .716 and .732,
    their mean .742).
    """
    words = frozenset(content_words(text))
    match = index.best_match(text, words)
    return 0.5 * (index.coverage(words) + (match.share if match else 0.0)), match


def _judge_sentence(position: int, sentence: Sentence, index: ContextIndex, calibration: Calibration) -> Claim:
    overlap, match = sentence_overlap(sentence.text, index)
    # No overlap counts for more than a copy.
    is_copy = match is not None and match.is_verbatim
    support = VERBATIM_SUPPORT if is_copy else min(VERBATIM_SUPPORT, calibration.support(overlap))
    return whole_sentence_claim(
        position,
        sentence,
        verdict=verdict_of(support),
        support=support,
        evidence=(_evidence(match),) if match else (),
        flags=("verbatim",) if is_copy else (),
    )


def verdict_of(support: float) -> Verdict:
    """What a measured support says: these tiers cannot tell a contradiction from an omission."""
    return Verdict.SUPPORTED if support >= SUPPORTED_FROM else Verdict.NOT_MENTIONED


def _evidence(match: Match) -> Evidence:
    sentence = match.sentence
    return Evidence(match.context, sentence.text, sentence.start, sentence.end, verified=True)


def _refuse_cross_lingual(case: SegmentedSample) -> None:
    contexts = [context for context in case.sample.contexts if context.strip()]
    languages = {language_of(context) for context in contexts}
    if not languages or case.language in languages:
        return
    if _has_han(case.sample.answer) and any(_has_han(context) for context in contexts):
        return
    raise TierFailure(
        FailureReason.CROSS_LINGUAL,
        f"answer in {case.language!r}, contexts in {sorted(languages)}: words cannot be compared across scripts",
    )


def _has_han(text: str) -> bool:
    return han_share(text) >= _HAN_SHARE_IN_MIXED_TEXT
