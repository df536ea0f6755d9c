"""Calibration: from a tier's measures to support in [0, 1] and to claims, with parameters fitted on human labels."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, BaseModel, Field, FiniteFloat, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from plumbline.ground.errors import CalibrationError
from plumbline.judging.text.segmented_sample import SegmentedSample
from plumbline.judging.text.verdicts import PassRule, TierDecision
from plumbline.judging.text.words import Language
from plumbline.judging.tiers.lexical_features import CHARACTER_MEASURES, WORD_MEASURES, Finding, is_doubted
from plumbline.judging.tiers.tier import TierName
from plumbline.judging.tiers.token_alignment import ALIGNMENT_MEASURES

# Share of the contexts' characters that makes them JSON or tables.
_MOST: Final = 0.5
# An answer of one sentence with at most so many content words is short.
_SHORT_WORDS: Final = 6
# An answer to a question that has so many sentences is judged by its score, too.
_LONG_ANSWER: Final = 3
# A shorter sentence among others ("Here is how it works.") may have no word of the contexts.
_FEWEST_CHARACTERS: Final = 30


class Shape(StrEnum):
    """Shapes of samples: an answer to JSON or to tables, a short answer, a long answer to a question, and any other."""

    PROSE = "prose"
    ANSWER = "answer"
    JSON = "json"
    TABLE = "table"
    SHORT = "short"


class ShapeBounds(BaseModel, extra="forbid", frozen=True):
    """Bounds of one shape, each with the share of such decisions that were right, on data left out if it suffices.

    An answer fails with a hard reason, and one is a sentence on another subject: the contexts have less than
    `unrelated_below` of its wording. It passes if nothing counts against it, and that share of each sentence is
    `copied` (`copied_from`, see `Finding`), or its faithfulness is that (`covered_from`). None: no bound was
    right often enough, and no such decision is made; `fails_right` None: no answer fails.
    """

    copied_from: float | None = Field(default=None, ge=0, le=1)
    copied_right: float | None = Field(default=None, ge=0, le=1)
    covered_from: float | None = Field(default=None, ge=0, le=1)
    covered_right: float | None = Field(default=None, ge=0, le=1)
    unrelated_below: float = Field(default=0.0, ge=0, le=1)
    fails_right: float | None = Field(default=None, ge=0, le=1)

    def has_hard_reason(self, length: float, finding: Finding, *, is_alone: bool) -> bool:
        """Return True if a sentence has a hard reason against it; `is_alone`: it is the whole answer."""
        return finding.is_doubted or related_share(length, finding, is_alone=is_alone) < self.unrelated_below

    def decide(self, faithfulness: float, *, copied: float, is_faulty: bool, is_open: bool) -> TierDecision:
        """Return the decision on an answer.

        Args:
            copied: the least share of copied runs of a sentence, in [0, 1].
            is_faulty: it has a hard reason.
            is_open: something forbids to pass it.
        """
        if is_faulty:
            if self.fails_right is not None:
                return TierDecision(False, PassRule.HARD_REASON, right=self.fails_right)
        elif not is_open:
            if self.copied_from is not None and copied >= self.copied_from:
                return TierDecision(True, PassRule.COPIED, right=self.copied_right)
            if self.covered_from is not None and faithfulness >= self.covered_from:
                return TierDecision(True, PassRule.COVERED, right=self.covered_right)
        return TierDecision(None, PassRule.UNSURE)


def related_share(length: float, finding: Finding, *, is_alone: bool) -> float:
    """Return the share of a sentence's wording that the contexts have; 1 where it says nothing of the subject."""
    if finding.is_copy or finding.is_related or (length < _FEWEST_CHARACTERS and not is_alone):
        return 1.0
    return next((finding.measures[name] for name in _COVERAGES if name in finding.measures), 1.0)


_NO_BOUNDS: Final = ShapeBounds()
# What of a sentence's wording the contexts have, by language.
_COVERAGES: Final = (WORD_MEASURES[0], CHARACTER_MEASURES[0])


def find_shape(sample: SegmentedSample) -> Shape:
    """Return the shape of a sample."""
    lengths = {Shape.JSON: 0, Shape.TABLE: 0, Shape.PROSE: 0}
    for context, sentence in sample.index.places:
        is_table = sentence.kind == "table_row"
        shape = Shape.TABLE if is_table else Shape.JSON if sample.index.readings.get(context) else Shape.PROSE
        lengths[shape] += len(sentence.text)
    total = sum(lengths.values())
    for shape in (Shape.JSON, Shape.TABLE):
        if total and lengths[shape] >= _MOST * total:
            return shape
    assertions = sample.assertions
    if len(assertions) >= _LONG_ANSWER and sample.source.question.strip():
        return Shape.ANSWER
    is_short = len(assertions) == 1 and len(sample.index.split_words(assertions[0]).content) <= _SHORT_WORDS
    return Shape.SHORT if is_short else Shape.PROSE


# Support of a sentence that stands in a context word for word, and the most that a sentence can have. Not 1: of 421
# labelled answers made of copies people took 89 % for faithful; the others miss the question, or sentences around the
# copy that change it. `confidence` says that, the score says that every word has its source.
VERBATIM_SUPPORT = 0.97
# The most that something can have which leaves out a condition, or has a clause that no context covers: it must not
# read as a good answer. On dev it moves macro AUROC by less than .001, and the calibration error not at all.
OPEN_SUPPORT = 0.7
# The sigmoid of the logit of a model's probability is that probability again.
PROBABILITY_MEASURES = ("logit",)
# Default without a fit: the middle of the first measure's range, and a slope that reaches .02 and .98 at its ends.
# A convention, not a measurement; results made with it carry the flag `uncalibrated`.
_DEFAULT_SLOPE = 8.0
# Alignment counts in units of a model's own range, with the fitted wording (docs/decisions/0009).
_ALIGNMENT_SLOPE, _ALIGNMENT_MIDDLE, _ALIGNMENT_OPEN = 2.0, 0.7, 0.5
FILE_VERSION = 3
# Support from which a sentence is supported: calibration puts its decision boundary here.
SUPPORTED_FROM = 0.5
# Support of a sentence with a doubt is below one half.
DOUBTED = 0.49
# Share of faithful answers around a score from which an answer passes.
_EVEN_SHARE = 0.5
# Boundaries are printed with four decimals.
_BOUNDARY_STEPS = 10_000


def highest_score(tier: TierName) -> float:
    """Return the highest score of a tier, whatever its model and language."""
    return 1.0 if tier is TierName.LLM else VERBATIM_SUPPORT


class CalibrationSource(BaseModel, extra="forbid", frozen=True):
    """Provenance of the parameters."""

    data: str
    rows: int = Field(ge=1)
    date: str
    command: str
    auroc: float | None = Field(default=None, ge=0, le=1)


class CalibrationGate(BaseModel, extra="forbid", frozen=True):
    """A gate against unrelated text, which a sigmoid fitted on labelled answers alone, all on topic, overrates.

    Support is scaled by a factor that rises from 0 at `closed` to 1 at `open` of one measure: the 5th percentile of
    what sentences reach in contexts of other subjects, and a quarter above the 99th.
    """

    measure: str
    closed: float = Field(allow_inf_nan=False)
    open: float = Field(allow_inf_nan=False)

    @model_validator(mode="after")
    def _opens_above(self) -> Self:
        if self.open <= self.closed:
            raise PydanticCustomError("not_ascending", "`open` must be above `closed`")
        return self

    def factor(self, value: float) -> float:
        return min(1.0, max(0.0, (value - self.closed) / (self.open - self.closed)))


def _check_curve(points: tuple[tuple[float, float], ...]) -> tuple[tuple[float, float], ...]:
    if not all(0 <= share <= 1 for _, share in points):
        raise PydanticCustomError("not_shares", "the second number of each pair must be in [0, 1]")
    if not all(x0 < x1 for (x0, _), (x1, _) in pairwise(points)):
        raise PydanticCustomError("not_ascending", "the first numbers of the pairs must ascend")
    return points


# Scores, each with the observed share of faithful answers around it; scores ascend.
ReliabilityCurve = Annotated[tuple[tuple[float, float], ...], AfterValidator(_check_curve)]


class Calibration(BaseModel, extra="forbid", frozen=True):
    """Parameters of one tier, model and language.

    The support of a sentence is gate * 1 / (1 + exp(-logit)), logit = intercept + sum of weight * measure: seed 4's
    sigmoid over several measures, fitted on human labels (Platt 1999). The faithfulness of an answer is the same of the
    mean of its sentences' logits, by length, less `doubted` where a sentence has a name or an amount that no context
    has, or is denied: one made-up number makes an answer unfaithful however long it is. A logit above 0 counts `above`
    times: words that the contexts lack say more against an answer than words that they have say for it.
    """

    tier: TierName
    model: str
    language: Language
    weights: dict[str, FiniteFloat] = Field(min_length=1)
    intercept: float = Field(allow_inf_nan=False)
    gate: CalibrationGate | None = None
    doubted: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    above: float = Field(default=1.0, gt=0, le=1)
    reliability: ReliabilityCurve = ()
    bounds: dict[Shape, ShapeBounds] = {}
    source: CalibrationSource | None = None

    @model_validator(mode="after")
    def _measures_are_known(self) -> Self:
        known = list_measures(self.tier, self.language)
        named = {*self.weights, *((self.gate.measure,) if self.gate else ())}
        if unknown := sorted(named.difference(known)):
            seen = {"tier": self.tier.value, "unknown": ", ".join(unknown), "known": ", ".join(known)}
            text = "tier {tier} measures no {unknown} for language {language}; it measures {known}"
            raise PydanticCustomError("unknown_measure", text, {**seen, "language": self.language})
        return self

    @property
    def is_fitted(self) -> bool:
        return self.source is not None

    @property
    def boundary(self) -> float:
        """Return the score from which at least half of the answers were faithful; 0.5 without a reliability curve."""
        return crossing(self.reliability, _EVEN_SHARE) if self.reliability else SUPPORTED_FROM

    def find_bounds(self, shape: Shape) -> ShapeBounds:
        """Return the bounds of a shape; a long answer without bounds of its own has those of prose."""
        default = self.bounds.get(Shape.PROSE, _NO_BOUNDS) if shape is Shape.ANSWER else _NO_BOUNDS
        return self.bounds.get(shape, default)

    def support(self, measures: Mapping[str, float]) -> float:
        gate = self.gate.factor(measures[self.gate.measure]) if self.gate else 1.0
        return gate * self._share(self._logit(measures)) * (DOUBTED if is_doubted(measures) else 1.0)

    def score_answer(self, sentences: Sequence[tuple[float, Finding]]) -> float:
        """Return the faithfulness of an answer of sentences with their lengths."""
        if all(found.is_copy for _, found in sentences):
            return VERBATIM_SUPPORT
        total = sum(length for length, _ in sentences)
        logit = sum(length * self._logit(found.measures) for length, found in sentences) / total
        logit -= self.doubted * any(found.is_doubted for _, found in sentences)
        gate = 1.0
        if self.gate:
            values = (length * self.gate.factor(found.measures[self.gate.measure]) for length, found in sentences)
            gate = sum(values) / total
        highest = OPEN_SUPPORT if any(found.open_reasons for _, found in sentences) else VERBATIM_SUPPORT
        return min(highest, gate * self._share(logit))

    def _share(self, logit: float) -> float:
        return sigmoid(logit * self.above if logit > 0 else logit)

    def _logit(self, measures: Mapping[str, float]) -> float:
        return self.intercept + sum(weight * measures[name] for name, weight in self.weights.items())


def list_measures(tier: TierName, language: Language) -> tuple[str, ...]:
    """Return the measures that a tier takes of a sentence in a language, the strongest first; llm: decision models."""
    words = CHARACTER_MEASURES if language == "zh" else WORD_MEASURES
    return {
        TierName.LLM: PROBABILITY_MEASURES,
        TierName.DETECTOR: PROBABILITY_MEASURES,
        TierName.LEXICAL: words,
        TierName.EMBEDDING: (*ALIGNMENT_MEASURES, *words),
    }[tier]


class CalibrationFile(BaseModel, extra="forbid", frozen=True):
    """The file: a version and its entries."""

    version: int
    entries: tuple[Calibration, ...]

    @model_validator(mode="before")
    @classmethod
    def _is_of_this_version(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("version") != FILE_VERSION:
            raise PydanticCustomError(
                "other_version",
                "`version` must be {expected}, is {found}; `plumbline calibrate` writes a new file",
                {"expected": FILE_VERSION, "found": repr(data.get("version"))},
            )
        return data


@dataclass(frozen=True, slots=True)
class CalibrationTable:
    """All calibrations of the process."""

    entries: Sequence[Calibration]

    def find(self, *, tier: TierName, model: str, language: Language) -> Calibration:
        """Return the fitted entry, or documented defaults with `is_fitted` False.

        A reduced precision ("name@precision") without an entry of its own takes that of "name": a score moves by 1e-4.
        """
        for name in dict.fromkeys((model, model.partition("@")[0])):
            for entry in self.entries:
                if (entry.tier, entry.model, entry.language) == (tier, name, language):
                    return entry if name == model else entry.model_copy(update={"model": model})
        is_probability = tier in (TierName.LLM, TierName.DETECTOR)
        slope = 1.0 if is_probability else _DEFAULT_SLOPE
        # What is copied or made up is read off the wording, whatever the model.
        wording = self._find_wording(language) if tier is TierName.EMBEDDING else None
        return Calibration(
            tier=tier,
            model=model,
            language=language,
            weights={list_measures(tier, language)[0]: slope},
            intercept=0.0 if is_probability else -slope / 2,
            bounds=wording.bounds if wording else {},
        )

    def _find_wording(self, language: Language) -> Calibration | None:
        entries = (each for each in self.entries if (each.tier, each.language) == (TierName.LEXICAL, language))
        return next(entries, None)

    def find_for_range(self, calibration: Calibration, *, baseline: float, reads_words: bool) -> Calibration:
        """Return the defaults of an uncalibrated embedding model for the range of its cosines.

        The cosine of unrelated texts is 0 in one model and .8 in another: alignment counts as its share of the way
        from there to 1 (BERTScore's rescaling). The wording counts as in tier lexical, whose fit needs no model.

        Args:
            calibration: what `find` gave.
            baseline: mean alignment of sentences with unrelated texts, below 1.
            reads_words: answer and contexts are in one script.
        """
        share = 1.0 / (1.0 - baseline)
        wording = self._find_wording(calibration.language)
        if wording is None or not reads_words:
            weights = {name: weight * share for name, weight in calibration.weights.items()}
            return calibration.model_copy(
                update={"weights": weights, "intercept": calibration.intercept - _DEFAULT_SLOPE * share * baseline}
            )
        (alignment,) = ALIGNMENT_MEASURES
        middle = baseline + (1.0 - baseline) * _ALIGNMENT_MIDDLE
        gate = {"closed": baseline, "open": baseline + (1.0 - baseline) * _ALIGNMENT_OPEN}
        return calibration.model_copy(
            update={
                "weights": {alignment: _ALIGNMENT_SLOPE * share, **wording.weights},
                "intercept": wording.intercept - _ALIGNMENT_SLOPE * share * middle,
                "gate": CalibrationGate(measure=alignment, **gate),
                "doubted": wording.doubted,
                "above": wording.above,
            }
        )


def load_calibrations(path: Path | None) -> CalibrationTable:
    """Load the table from a file, or the built-in one; raise CalibrationError that names the file and the field."""
    name = str(path) if path else "built-in calibration"
    try:
        raw = path.read_bytes() if path else files("plumbline.judging.tiers").joinpath("calibration.json").read_bytes()
        return CalibrationTable(CalibrationFile.model_validate_json(raw).entries)
    except OSError as error:
        raise CalibrationError(f"{name}: cannot be read ({error.strerror})") from error
    except ValidationError as error:
        first: Any = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise CalibrationError(f"{name}: {place}{': ' if place else ''}{first['msg']}") from error


def crossing(curve: Sequence[tuple[float, float]], share: float) -> float:
    """Return the least score at which a rising curve, read by linear interpolation, reaches a share.

    0 if it lies above from the start, 1 if it never gets there. Rounded up to 4 decimals, to be printed as it is used.
    """
    if curve[0][1] >= share:
        return 0.0
    for (x0, y0), (x1, y1) in pairwise(curve):
        if y1 >= share:
            x = x0 + (x1 - x0) * (share - y0) / (y1 - y0)
            return min(1.0, math.ceil(round(x * _BOUNDARY_STEPS, 6)) / _BOUNDARY_STEPS)
    return 1.0


def sigmoid(x: float) -> float:
    """Return the logistic function of x, without overflow for large |x|."""
    if x >= 0:
        return 1.0 / (1.0 + math.exp(-x))
    power = math.exp(x)
    return power / (1.0 + power)
