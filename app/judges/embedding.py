"""Tier 2: each sentence of the answer against the best window of context sentences, by cosine similarity."""

import asyncio
import time
from concurrent.futures import Executor
from dataclasses import dataclass

from app.errors import FailureReason, TierFailure
from app.generation.sample import SegmentedSample
from app.generation.segmentation import Sentence
from app.generation.verdicts import Claim, Evidence, JudgeAccount, Judgement, Verdict, whole_sentence_claim
from app.judges.calibration import VERBATIM_SUPPORT, Calibration, CalibrationTable
from app.judges.lexical import verdict_of
from app.judges.tier import Ask, SentenceEncoder, TierName
from app.judges.window_match import WindowMatch, match_sentences, plan_comparison
from app.readiness import Readiness

# Share of unknown tokens in the answer, or in the contexts, beyond which the model does not read the language.
# docs/decisions/0002: an English sentence made of foreign names has 5 %, Chinese ones have 20 to 58 %.
MAX_UNKNOWN_SHARE = 0.15
# Models trained on English alone, by name; their vocabularies spell other scripts letter by letter, so that few of
# their tokens are unknown and none is understood.
_ENGLISH_ONLY = frozenset({"all-MiniLM-L6-v2", "all-MiniLM-L12-v2", "all-mpnet-base-v2", "all-distilroberta-v1"})


@dataclass(frozen=True, slots=True)
class Comparison:
    """The matches of the checkable sentences by position, and how many texts the model could not read to their end."""

    match_by_position: dict[int, WindowMatch]
    overlong: int


class EmbeddingTier:
    """Seed 4's method 2 with the best window in place of the whole context, through a fitted sigmoid.

    The model runs in the encoder's own thread, what is computed around it in `executor`.
    """

    name = TierName.EMBEDDING

    def __init__(
        self, encoder: SentenceEncoder, calibrations: CalibrationTable, executor: Executor, *, max_windows: int
    ) -> None:
        self._encoder = encoder
        self._calibrations = calibrations
        self._executor = executor
        self._max_windows = max_windows

    async def judge(self, case: SegmentedSample, ask: Ask, *, seconds: float) -> Judgement:
        """The judgement.

        Raises:
            TierFailure: `unsupported_language`, `too_long`, `timeout`, or what the encoder declares.
        """
        comparison = await self.compare(case, seconds=seconds)
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._judgement, case, comparison)

    async def compare(self, case: SegmentedSample, *, seconds: float) -> Comparison:
        """How each checkable sentence matches the contexts.

        Raises:
            TierFailure: as `judge`.
        """
        until = time.monotonic() + seconds
        run = asyncio.get_running_loop().run_in_executor
        self._refuse_other_languages(case)
        plan = await run(self._executor, plan_comparison, case)
        self._refuse_too_long(len(plan.texts))
        await self._refuse_unread(case, until)
        overlong = await self._encoder.overlong(plan.texts, seconds=until - time.monotonic())
        vectors = await self._encoder.encode(plan.texts, seconds=until - time.monotonic())
        matches = await run(self._executor, lambda: match_sentences(plan, vectors, until=until))
        return Comparison(matches, overlong)

    def readiness(self) -> Readiness:
        return self._encoder.readiness()

    def _judgement(self, case: SegmentedSample, comparison: Comparison) -> Judgement:
        calibration = self._calibrations.find(tier=self.name, model=self._encoder.model, language=case.language)
        claims = tuple(
            _claim(position, sentence, comparison.match_by_position.get(position), calibration)
            for position, sentence in enumerate(case.sentences)
        )
        return Judgement(
            claims=claims,
            account=JudgeAccount(model=self._encoder.model),
            has_verdict_kinds=False,
            reliability=calibration.reliability,
            flags=() if calibration.is_fitted else ("uncalibrated",),
            warnings=_overlong_warning(comparison.overlong),
        )

    def _refuse_other_languages(self, case: SegmentedSample) -> None:
        if self._encoder.model in _ENGLISH_ONLY and case.language != "en":
            raise TierFailure(
                FailureReason.UNSUPPORTED_LANGUAGE,
                f"{self._encoder.model} reads English; the answer is in {case.language!r}",
            )

    def _refuse_too_long(self, texts: int) -> None:
        if texts > self._max_windows:
            raise TierFailure(
                FailureReason.TOO_LONG,
                f"{texts} windows and sentences to encode; PLUMBLINE_EMBEDDING_MAX_WINDOWS is {self._max_windows}",
            )

    async def _refuse_unread(self, case: SegmentedSample, until: float) -> None:
        for where, texts in (("answer", [case.sample.answer]), ("contexts", case.sample.contexts)):
            share = await self._encoder.unknown_share(texts, seconds=until - time.monotonic())
            if share > MAX_UNKNOWN_SHARE:
                raise TierFailure(
                    FailureReason.UNSUPPORTED_LANGUAGE,
                    f"{share:.0%} of the tokens of the {where} are unknown to {self._encoder.model} "
                    f"(more than {MAX_UNKNOWN_SHARE:.0%})",
                )


def _overlong_warning(overlong: int) -> tuple[str, ...]:
    if not overlong:
        return ()
    return (f"{overlong} sentences or windows are longer than the model reads; their ends did not count",)


def _claim(position: int, sentence: Sentence, match: WindowMatch | None, calibration: Calibration) -> Claim:
    if match is None:
        return whole_sentence_claim(position, sentence, verdict=Verdict.NOT_A_CLAIM)
    # No likeness counts for more than a copy.
    support = VERBATIM_SUPPORT if match.is_verbatim else min(VERBATIM_SUPPORT, calibration.support(match.cosine))
    window = match.window
    return whole_sentence_claim(
        position,
        sentence,
        verdict=verdict_of(support),
        support=support,
        evidence=(Evidence(window.context, window.text, window.start, window.end, verified=True),),
        flags=("verbatim",) if match.is_verbatim else (),
    )
