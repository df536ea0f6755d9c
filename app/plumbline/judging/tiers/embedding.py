"""Tier 2: how well words of the contexts match each word of a sentence, in its place: cosines, and wording."""

import asyncio
import contextlib
import math
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from typing import Final

from plumbline.ground.errors import FailureReason, TierFailure
from plumbline.ground.phrases import load_data
from plumbline.ground.texts import CodedText
from plumbline.judging.ports.models import SentenceEncoder
from plumbline.judging.ports.observation import Readiness
from plumbline.judging.ports.token_vectors import TokenizedTexts, TokenVectors
from plumbline.judging.text.segmented_sample import SegmentedSample
from plumbline.judging.text.verdicts import Evidence, Judgement
from plumbline.judging.tiers.calibration import CalibrationTable
from plumbline.judging.tiers.judgement import build_judgement
from plumbline.judging.tiers.lexical import collect_lexical_findings, is_in_one_script
from plumbline.judging.tiers.lexical_features import Finding
from plumbline.judging.tiers.tier import JudgeOptions, TierName, check_language
from plumbline.judging.tiers.token_alignment import (
    ComparisonPlan,
    SentenceWindow,
    TokenAlignment,
    match_sentences,
    measure_unrelated,
    plan_comparison,
)

# Share of unknown tokens in the answer, or in the contexts, beyond which the model does not read the language.
# docs/decisions/0004: an English sentence made of foreign names has 5 %, Chinese ones have 20 to 58 %.
MAX_UNKNOWN_SHARE = 0.15
# Windows whose vectors are in memory together, 12 MB of them.
_WINDOWS_AT_ONCE = 256

_UNRELATED: Final[Mapping[str, Sequence[str]]] = load_data("judging/tiers/unrelated_sentences")


class EmbeddingTier:
    """Seed 4's method 2, token by token in place of one vector for the whole context, through a fitted sigmoid.

    The model runs in the encoder's own thread, what is computed around it in `executor`. What the model does not read
    is judged by `fallback`.
    """

    name = TierName.EMBEDDING

    def __init__(
        self,
        encoder: SentenceEncoder,
        calibrations: CalibrationTable,
        executor: Executor,
        *,
        max_windows: int,
        fallback: "EmbeddingTier | None" = None,
    ) -> None:
        self._encoder = encoder
        self._calibrations = calibrations
        self._executor = executor
        self._max_windows = max_windows
        self._fallback = fallback
        self._baselines: dict[bool, float] = {}

    async def judge(self, sample: SegmentedSample, options: JudgeOptions, *, seconds: float) -> Judgement:
        """Return the judgement within `seconds`.

        Raises TierFailure: `unsupported_language`, `too_long`, `timeout`, or what the encoder declares.
        """
        until = time.monotonic() + seconds
        try:
            findings, overlong = await self._compare(sample, options, until)
        except TierFailure as failure:
            if self._fallback is None or failure.reason is not FailureReason.UNSUPPORTED_LANGUAGE:
                raise
            return await self._fallback.judge(sample, options, seconds=until - time.monotonic())
        calibration = self._calibrations.find(tier=self.name, model=self._encoder.model, language=sample.language)
        if not calibration.is_fitted and self._calibrations.entries:
            baseline = await self._find_baseline(options, until, is_chinese=sample.language == "zh")
            reads_words = is_in_one_script(sample)
            calibration = self._calibrations.find_for_range(calibration, baseline=baseline, reads_words=reads_words)
        warnings = (CodedText("texts_cut", count=overlong),) if overlong else ()
        build = partial(build_judgement, sample, findings, calibration, warnings=warnings)
        return await asyncio.get_running_loop().run_in_executor(self._executor, build)

    async def compare(self, sample: SegmentedSample, options: JudgeOptions, *, seconds: float) -> dict[int, Finding]:
        """Compare each checkable sentence, by its position, with the contexts; raise as `judge`."""
        return (await self._compare(sample, options, time.monotonic() + seconds))[0]

    async def prepare(self) -> None:
        """Return when the model is loaded; a failure is reported by the next judgement."""
        with contextlib.suppress(TierFailure):
            await self._encoder.read(["warm"], seconds=math.inf)

    async def _compare(
        self, sample: SegmentedSample, options: JudgeOptions, until: float
    ) -> tuple[dict[int, Finding], int]:
        """Return the findings by position, and how many texts are longer than the model reads."""
        check_language(sample, model=self._encoder.model, languages=self._encoder.languages)
        run = asyncio.get_running_loop().run_in_executor
        plan = await run(self._executor, plan_comparison, sample)
        if len(plan.texts) > self._max_windows:
            raise TierFailure(
                FailureReason.TOO_LONG,
                CodedText("too_many_texts", count=len(plan.texts), limit=self._max_windows),
            )
        reading = await self._encoder.read(plan.texts, seconds=until - time.monotonic())
        if unread := self._find_unread(plan, reading):
            raise TierFailure(FailureReason.UNSUPPORTED_LANGUAGE, unread)
        alignment, last = await self._align(plan, reading, options, until)

        def finish() -> dict[int, Finding]:
            alignment.add(last, until=until)
            matches = match_sentences(plan, alignment)
            if not all(math.isfinite(share) for share, _ in matches.values()):
                raise self._no_numbers()
            words = collect_lexical_findings(sample)
            return {position: _join_findings(words[position], *match) for position, match in matches.items()}

        return await run(self._executor, finish), sum(reading.is_overlong)

    def readiness(self) -> Readiness:
        own, other = self._encoder.readiness(), self._fallback and self._fallback.readiness()
        return replace(own, detail=f"{own.detail}; other languages: {other.detail}") if other else own

    async def _find_baseline(self, options: JudgeOptions, until: float, *, is_chinese: bool) -> float:
        """Return the mean alignment of sentences with others on other subjects; the model is asked once."""
        if is_chinese not in self._baselines:
            texts = _UNRELATED["zh" if is_chinese else "en"]
            reading = await self._encoder.read(texts, seconds=until - time.monotonic())
            vectors = await self._encode(reading, replace(options, tenant=""), until)
            baseline = measure_unrelated(vectors)
            if not math.isfinite(baseline):
                raise self._no_numbers()
            self._baselines[is_chinese] = baseline
        return self._baselines[is_chinese]

    def _no_numbers(self) -> TierFailure:
        return TierFailure(FailureReason.INVALID_REPLY, CodedText("vectors_not_numbers", model=self._encoder.model))

    def _find_unread(self, plan: ComparisonPlan, reading: TokenizedTexts) -> str | None:
        parts, windows = range(len(plan.parts)), range(len(plan.parts), len(reading.tokens))
        for where, rows in (("answer", parts), ("contexts", windows)):
            share = reading.unknown_share(rows)
            if share > MAX_UNKNOWN_SHARE:
                return CodedText(
                    "tokens_unknown", share=share, where=where, model=self._encoder.model, limit=MAX_UNKNOWN_SHARE
                )
        return None

    async def _align(
        self, plan: ComparisonPlan, reading: TokenizedTexts, options: JudgeOptions, until: float
    ) -> tuple[TokenAlignment, TokenVectors]:
        """Align the sentences with all windows but the last ones, and return the vectors of those."""
        run = asyncio.get_running_loop().run_in_executor
        count, rows = len(plan.parts), range(len(plan.parts) + len(plan.windows))
        # The parts go with the first windows: together they fill the model's rows better.
        vectors = await self._encode(reading.pick(rows[: count + _WINDOWS_AT_ONCE]), options, until)
        alignment, vectors = TokenAlignment(vectors.part(0, count)), vectors.part(count, len(vectors.bounds) - 1)
        for start in range(count + _WINDOWS_AT_ONCE, len(rows), _WINDOWS_AT_ONCE):
            await run(self._executor, partial(alignment.add, vectors, until=until))
            vectors = await self._encode(reading.pick(rows[start : start + _WINDOWS_AT_ONCE]), options, until)
        return alignment, vectors

    async def _encode(self, reading: TokenizedTexts, options: JudgeOptions, until: float) -> TokenVectors:
        return await self._encoder.encode(
            reading,
            seconds=until - time.monotonic(),
            scope=options.tenant,
            ledger=options.ledger,
        )


def _join_findings(words: Finding, alignment: float, window: SentenceWindow) -> Finding:
    nearest = Evidence(window.context, window.text, window.start, window.end, verified=True)
    return replace(
        words,
        measures={"alignment": alignment, **words.measures},
        evidence=words.evidence if words.is_copy else nearest,
    )
