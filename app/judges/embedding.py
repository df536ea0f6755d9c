"""Tier 2: each sentence of the answer against the best window of context sentences, by cosine similarity."""

import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from app.errors import FailureReason, TierFailure
from app.generation.sample import SegmentedSample
from app.generation.segmentation import Sentence
from app.generation.verdicts import Claim, Evidence, JudgeAccount, Judgement, Verdict, whole_sentence_claim
from app.generation.words import contains_verbatim
from app.judges.calibration import VERBATIM_SUPPORT, Calibration, CalibrationTable
from app.judges.lexical import verdict_of
from app.judges.tier import SentenceEncoder, TierName
from app.judges.windows import Window, context_windows, pieces
from app.readiness import Readiness

# Share of unknown tokens in the answer, or in the contexts, beyond which the model does not read the language.
# On the labelled data English stays under 0.03 for 99.9 % of the texts, Chinese is over 0.2 for 93 %.
MAX_UNKNOWN_SHARE = 0.15
# Models trained on English alone, by name; their vocabularies spell other scripts letter by letter, so that few of
# their tokens are unknown and none is understood.
_ENGLISH_ONLY = frozenset({"all-MiniLM-L6-v2", "all-MiniLM-L12-v2", "all-mpnet-base-v2", "all-distilroberta-v1"})


class EmbeddingTier:
    """Seed 4's method 2 with the best window in place of the whole context, through a fitted sigmoid."""

    name = TierName.EMBEDDING

    def __init__(self, encoder: SentenceEncoder, calibrations: CalibrationTable, *, max_windows: int) -> None:
        self._encoder = encoder
        self._calibrations = calibrations
        self._max_windows = max_windows

    async def judge(self, case: SegmentedSample, *, seconds: float) -> Judgement:
        """The judgement; the model runs in the encoder's own thread.

        Raises:
            TierFailure: `unsupported_language`, `too_long`, or what the encoder declares.
        """
        matches = await self.best_windows(case, seconds=seconds)
        calibration = self._calibrations.find(tier=self.name, model=self._encoder.model, language=case.language)
        claims = tuple(
            _claim(position, sentence, matches.get(position), calibration)
            for position, sentence in enumerate(case.sentences)
        )
        return Judgement(
            claims=claims,
            account=JudgeAccount(model=self._encoder.model),
            has_verdict_kinds=False,
            reliability=calibration.reliability,
            flags=() if calibration.is_fitted else ("uncalibrated",),
        )

    async def best_windows(self, case: SegmentedSample, *, seconds: float) -> dict[int, tuple[float, Window]]:
        """For each checkable sentence its cosine in [-1, 1] with the best window of the contexts, and that window.

        Raises:
            TierFailure: as `judge`.
        """
        until = time.monotonic() + seconds
        self._refuse_other_languages(case)
        windows = context_windows(case.sample.contexts, case.context_sentences)
        parts = [_parts(case, position) for position in case.checkable]
        texts = sorted({window.text for window in windows} | {text for part in parts for text in part})
        self._refuse_too_long(len(texts))
        await self._refuse_unread(case, until - time.monotonic())
        vectors = await self._encoder.encode(texts, seconds=until - time.monotonic())
        row_by_text = {text: row for row, text in enumerate(texts)}
        context_rows = vectors[[row_by_text[window.text] for window in windows]]
        matches = (_best_window(vectors[[row_by_text[text] for text in part]], context_rows, windows) for part in parts)
        return dict(zip(case.checkable, matches, strict=True))

    def readiness(self) -> Readiness:
        return self._encoder.readiness()

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

    async def _refuse_unread(self, case: SegmentedSample, seconds: float) -> None:
        until = time.monotonic() + seconds
        for where, texts in (("answer", [case.sample.answer]), ("contexts", case.sample.contexts)):
            share = await self._encoder.unknown_share(texts, seconds=until - time.monotonic())
            if share > MAX_UNKNOWN_SHARE:
                raise TierFailure(
                    FailureReason.UNSUPPORTED_LANGUAGE,
                    f"{share:.0%} of the tokens of the {where} are unknown to {self._encoder.model} "
                    f"(more than {MAX_UNKNOWN_SHARE:.0%})",
                )


def _parts(case: SegmentedSample, position: int) -> list[str]:
    sentence = case.sentences[position]
    return [case.sample.answer[start:end] for start, end in pieces(case.sample.answer, sentence.start, sentence.end)]


def _best_window(
    parts: NDArray[np.float32], contexts: NDArray[np.float32], windows: Sequence[Window]
) -> tuple[float, Window]:
    """Mean over the parts of their best cosine, in [-1, 1], and the best window of the first part.

    Args:
        parts: shape (p, d), unit vectors of the sentence's parts, one for most sentences.
        contexts: shape (w, d), unit vectors of the windows, w >= 1.
        windows: the w windows.
    """
    cosines = np.clip(parts @ contexts.T, -1.0, 1.0)
    window = windows[int(np.argmax(cosines[0]))]
    return float(cosines.max(axis=1).mean()), window


def _claim(position: int, sentence: Sentence, match: tuple[float, Window] | None, calibration: Calibration) -> Claim:
    if match is None:
        return whole_sentence_claim(position, sentence, verdict=Verdict.NOT_A_CLAIM)
    cosine, window = match
    is_verbatim = contains_verbatim(window.text, sentence.text)
    support = VERBATIM_SUPPORT if is_verbatim else calibration.support(cosine)
    return whole_sentence_claim(
        position,
        sentence,
        verdict=verdict_of(support),
        support=support,
        evidence=(Evidence(window.context, window.text, window.start, window.end, verified=True),),
        flags=("verbatim",) if is_verbatim else (),
    )
