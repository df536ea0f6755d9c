"""A detector in this process: its questions go through the encoder's queue and cache, its probe comes first."""

import time
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from plumbline.ground.errors import ConfigurationError, FailureReason, TierFailure
from plumbline.ground.texts import CodedText
from plumbline.judging.ports.exchange import DetectorFinding, DetectorReading, Passage
from plumbline.judging.ports.observation import Readiness
from plumbline.judging.ports.token_vectors import TokenizedTexts
from plumbline.models.detectors.description import Description, Labels, check_probe
from plumbline.models.detectors.network import DetectorNetwork, PairReader, Question
from plumbline.models.encoder.encoder import ModelChoice, SharedEncoder
from plumbline.models.encoder.packing import TokenModel, forward_in_rows

_PROBE_TOKENS = 512
# A denial that weighs less decides nothing.
_DENIED_FROM = 0.5


class LocalDetector:
    """A detector behind a `SharedEncoder`, which loads it, shares it fairly and keeps what it said.

    Raises TierFailure `not_installed`, `detector_probe_failed` or `timeout`.
    """

    def __init__(
        self,
        description: Description,
        *,
        threads: int | None = None,
        cache_bytes: int = 2**26,
    ) -> None:
        self._description = description
        self._labels: Labels | None = None
        self._reader: PairReader | None = None
        self._encoder = SharedEncoder(
            ModelChoice(description.model, "torch"),
            threads=threads,
            cache_bytes=cache_bytes,
            languages=description.languages,
            load_model=self._load,
        )
        self.model = self._encoder.model
        self.languages: frozenset[str] | None = frozenset(description.languages) or None
        self.unit: Literal["sentence", "answer"] = description.unit
        self.marks_words = description.marks_words

    def readiness(self) -> Readiness:
        return self._encoder.readiness()

    def close(self) -> None:
        self._encoder.close()

    async def aclose(self) -> None:
        self.close()

    async def warm_up(self) -> None:
        await self._encoder.warm_up()

    async def read(
        self,
        passages: Sequence[Passage],
        question: str,
        claims: Sequence[str],
        *,
        seconds: float,
        scope: str = "",
    ) -> DetectorReading:
        """Return the support of each claim by the passages that support it most; long premises are read in parts."""
        until = time.monotonic() + seconds
        asked, cut = await self._encoder.with_model(lambda _: self._ask(passages, question, claims))
        tokens = [each.tokens for questions in asked for each in questions]
        reading = TokenizedTexts(tokens, list(map(len, tokens)), [0] * len(tokens), [False] * len(tokens))
        vectors = await self._encoder.encode(reading, seconds=until - time.monotonic(), scope=scope)
        findings, at = [], 0
        for questions in asked:
            parts = [vectors.part(at + number, at + number + 1).vectors for number in range(len(questions))]
            at += len(questions)
            findings.append(self._finding(questions, parts))
        return DetectorReading(findings, cut)

    def _finding(self, questions: Sequence[Question], parts: Sequence[NDArray[np.float32]]) -> DetectorFinding:
        labels = self._labels
        if labels is None or not all(np.isfinite(part).all() for part in parts):
            raise TierFailure(FailureReason.INVALID_REPLY, CodedText("detector_numbers_invalid", model=self.model))
        if not self.marks_words:
            read = [_support(part[:1], labels) for part in parts]
            support = max(float(each[0][0]) for each in read)
            # One part denies the claim, unless another supports it more.
            denied = max(float(each[1][0]) for each in read)
            return DetectorFinding(support, is_denied=denied > max(_DENIED_FROM, support))
        # Each word is as well supported as by the part that supports it most.
        by_part = [
            _support(part[[place for place, _, _ in question.places]], labels)[0]
            for question, part in zip(questions, parts, strict=True)
            if question.places
        ]
        if not by_part:
            return DetectorFinding(1.0)
        words = np.max(by_part, axis=0)
        places = [(start, end) for _, start, end in questions[0].places]
        supports = map(float, words)
        return DetectorFinding(
            float(words.min()), words=[(*place, support) for place, support in zip(places, supports, strict=True)]
        )

    def _ask(
        self, passages: Sequence[Passage], question: str, claims: Sequence[str]
    ) -> tuple[list[list[Question]], float]:
        reader = self._reader
        if reader is None:
            raise TierFailure(FailureReason.NOT_INSTALLED, CodedText("detector_not_loaded", model=self.model))
        asked, kept = [], 0
        for whole in claims:
            claim = reader.fit_claim(whole)
            kept += len(claim)
            asked.append([reader.ask(window, question, claim) for window in reader.windows(passages, question, claim)])
        return asked, 1.0 - kept / max(1, sum(map(len, claims)))

    def _load(self, choice: ModelChoice, threads: int) -> TokenModel:
        try:
            model = DetectorNetwork(self._description)
        except ConfigurationError as error:
            raise TierFailure(FailureReason.NOT_INSTALLED, str(error)) from error
        self._labels, self._reader = model.labels, model.reader
        self._prove(model)
        return model

    def _prove(self, model: TokenModel) -> None:
        """Refuse a model that does not answer its probe as described: another prompt, polarity or weight gives numbers,
        too."""
        for number, probe in enumerate(self._description.probe, start=1):
            passage = Passage(0, probe.premise, ((0, len(probe.premise)),))
            ((questions,), _) = self._ask([passage], probe.question, [probe.claim])
            logits = forward_in_rows(
                [each.tokens for each in questions], model.forward, budget=_PROBE_TOKENS, shares=False
            )
            parts = [
                part[: len(each.tokens)] if self.marks_words else part[:1]
                for each, part in zip(questions, logits, strict=True)
            ]
            found = self._finding(questions, parts).support
            check_probe(self._description, number, found)


def _support(halves: NDArray[np.float32], labels: Labels) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return support and denial in [0, 1] from the halves of logits, shape (n, 2 * labels); each has shape (n,)."""
    width = halves.shape[1] // 2
    logits = halves[:, :width].astype(np.float64) + halves[:, width:]
    if width == 1:
        shares = 1.0 / (1.0 + np.exp(-np.clip(logits, -60.0, 60.0)))
    else:
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        shares = powers / powers.sum(axis=1, keepdims=True)
    found = shares[:, labels.positive if width > 1 else 0]
    denied = shares[:, labels.contradicted] if labels.contradicted is not None else np.zeros(len(shares))
    return 1.0 - found if labels.inverted else found, denied
