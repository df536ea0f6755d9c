"""Calibration: from a tier's measures to support in [0, 1] and to claims, with parameters fitted on human labels."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, FiniteFloat, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from plumbline.ground.concurrency import within_deadline
from plumbline.ground.errors import CalibrationError
from plumbline.ground.texts import CodedText, join_texts
from plumbline.judging.text.segmented_sample import SegmentedSample
from plumbline.judging.text.verdicts import Evidence, JudgeAccount, Judgement, Verdict, whole_sentence_claim
from plumbline.judging.text.words import Language
from plumbline.judging.tiers.lexical_features import CHARACTER_MEASURES, WORD_MEASURES
from plumbline.judging.tiers.tier import TierName
from plumbline.judging.tiers.token_alignment import ALIGNMENT_MEASURES

# Support of a sentence that stands in a context word for word, and the most that a sentence can have. Not 1: of 421
# labelled answers made of copies people took 89 % for faithful; the others miss the question, or sentences around the
# copy that change it. `confidence` says that, the score says that every word has its source.
VERBATIM_SUPPORT = 0.97
# The sigmoid of the logit of a model's probability is that probability again.
PROBABILITY_MEASURES = ("logit",)
# Default without a fit: the middle of the first measure's range, and a slope that reaches .02 and .98 at its ends.
# A convention, not a measurement; results made with it carry the flag `uncalibrated`.
_DEFAULT_SLOPE = 8.0
# Alignment counts in units of a model's own range, with the fitted wording (docs/decisions/0009).
_ALIGNMENT_SLOPE, _ALIGNMENT_MIDDLE, _ALIGNMENT_OPEN = 2.0, 0.7, 0.5
FILE_VERSION = 2
# Support from which a sentence is supported: calibration puts its decision boundary here.
_SUPPORTED_FROM = 0.5
# Measures that forbid `supported`, however much of the wording the contexts have: support is then below one half.
# On dev 90 % of the answers with a missing quantity and 82 % of those with a missing name are unfaithful, and .2 % of
# the faithful ones have a negation.
DOUBTS = ("unknown_names", "unknown_numbers", "negation")
DOUBTED = 0.49
# Share of faithful answers around a score from which an answer passes.
_EVEN_SHARE = 0.5
# Boundaries are printed with four decimals.
_BOUNDARY_STEPS = 10_000
# Flag of an answer most of whose runs of words stand in the contexts.
MOSTLY_COPIED = "mostly_copied"
# Names and numbers listed in a reason.
_MAX_LISTED = 5


def highest_score(tier: TierName) -> float:
    """Return the highest score of a tier, whatever its model and language."""
    return 1.0 if tier is TierName.LLM else VERBATIM_SUPPORT


@dataclass(frozen=True, slots=True)
class Finding:
    """Measures of one sentence, and the most similar place in the contexts.

    `is_copy`: the place holds the sentence word for word; `unknown_names`, `unknown_numbers`: what no context has;
    `copied`: share in [0, 1] of its runs of words that stand in a context; `hard_reasons`: identifiers that no context
    has, and keys that structured contexts deny; `open_reasons`: codes of what forbids to pass the sentence as a copy, a
    clause that nothing covers, a condition left out, a name of the question. Of a detector: `is_denied`, the contexts
    say the opposite; `unsupported_words` that it marked, with their characters.
    """

    measures: Mapping[str, float]
    evidence: Evidence | None
    is_copy: bool
    unknown_names: tuple[str, ...] = ()
    unknown_numbers: tuple[str, ...] = ()
    copied: float = 0.0
    is_denied: bool = False
    unsupported_words: tuple[str, ...] = ()
    hard_reasons: tuple[str, ...] = ()
    open_reasons: tuple[str, ...] = ()

    @property
    def is_doubted(self) -> bool:
        return not self.is_copy and is_doubted(self.measures)


def is_doubted(measures: Mapping[str, float]) -> bool:
    """Return True if a measure forbids the verdict `supported`."""
    return any(measures.get(name, 0.0) for name in DOUBTS)


class CalibrationSource(BaseModel):
    """Provenance of the parameters."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    data: str
    rows: int = Field(ge=1)
    date: str
    command: str
    auroc: float | None = Field(default=None, ge=0, le=1)


class CalibrationGate(BaseModel):
    """A gate against unrelated text, which a sigmoid fitted on labelled answers alone, all on topic, overrates.

    Support is scaled by a factor that rises from 0 at `closed` to 1 at `open` of one measure: the 5th percentile of
    what sentences reach in contexts of other subjects, and a quarter above the 99th.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
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


class CalibrationAggregation(BaseModel):
    """Factors between the supports and the score of the answer, none by default.

    `doubted`, of the score: where a sentence cannot be supported (`DOUBTS`), since one made-up number makes an answer
    unfaithful however long it is. `length`, off the score for each natural logarithm of the number of sentences that
    are no copies: the more of them, the likelier is a fault in one. `copied`, of the support of sentences that are no
    copies: where `copied_share` of the answer's runs of words, weighted by length, stand in the contexts, since such
    answers score high whether people find fault or not.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    doubted: float = Field(default=1.0, gt=0, le=1)
    length: float = Field(default=0.0, ge=0, le=0.1)
    copied: float = Field(default=1.0, gt=0, le=1)
    copied_share: float | None = Field(default=None, gt=0, le=1)

    def factor(self, *, is_doubted: bool, sentences: int) -> float:
        shortened = max(0.0, 1.0 - self.length * math.log(max(1, sentences)))
        return shortened * (self.doubted if is_doubted else 1.0)

    def is_copied(self, share: float) -> bool:
        return self.copied_share is not None and share >= self.copied_share


def _check_curve(points: tuple[tuple[float, float], ...]) -> tuple[tuple[float, float], ...]:
    if not all(0 <= share <= 1 for _, share in points):
        raise PydanticCustomError("not_shares", "the second number of each pair must be in [0, 1]")
    if not all(x0 < x1 for (x0, _), (x1, _) in pairwise(points)):
        raise PydanticCustomError("not_ascending", "the first numbers of the pairs must ascend")
    return points


# Scores, each with the observed share of faithful answers around it; scores ascend.
ReliabilityCurve = Annotated[tuple[tuple[float, float], ...], AfterValidator(_check_curve)]


class Calibration(BaseModel):
    """Parameters of one tier, model and language.

    support = gate * 1 / (1 + exp(-(intercept + sum of weight * measure))): seed 4's sigmoid over several measures, its
    parameters fitted on human labels (Platt 1999).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    tier: TierName
    model: str
    language: Language
    weights: dict[str, FiniteFloat] = Field(min_length=1)
    intercept: float = Field(allow_inf_nan=False)
    gate: CalibrationGate | None = None
    aggregation: CalibrationAggregation = CalibrationAggregation()
    reliability: ReliabilityCurve = ()
    copied_reliability: ReliabilityCurve = ()
    source: CalibrationSource | None = None

    @model_validator(mode="after")
    def _measures_are_known(self) -> Self:
        known = list_measures(self.tier, self.language)
        named = {*self.weights, *((self.gate.measure,) if self.gate else ())}
        if unknown := sorted(named.difference(known)):
            raise PydanticCustomError(
                "unknown_measure",
                "tier {tier} measures no {unknown} for language {language}; it measures {known}",
                {
                    "tier": self.tier.value,
                    "unknown": ", ".join(unknown),
                    "language": self.language,
                    "known": ", ".join(known),
                },
            )
        return self

    @property
    def is_fitted(self) -> bool:
        return self.source is not None

    @property
    def boundary(self) -> float:
        """Return the score from which at least half of the answers were faithful; 0.5 without a reliability curve."""
        return self.curve_and_boundary(is_copied=False)[1]

    def curve_and_boundary(self, *, is_copied: bool) -> tuple[ReliabilityCurve, float]:
        """Return the reliability curve of answers of mostly copied text, or of the others, and its boundary."""
        curve = self.copied_reliability if is_copied and self.copied_reliability else self.reliability
        return curve, crossing(curve, _EVEN_SHARE) if curve else _SUPPORTED_FROM

    def support(self, measures: Mapping[str, float]) -> float:
        logit = self.intercept + sum(weight * measures[name] for name, weight in self.weights.items())
        gate = self.gate.factor(measures[self.gate.measure]) if self.gate else 1.0
        return gate * sigmoid(logit) * (DOUBTED if is_doubted(measures) else 1.0)


def build_judgement(
    sample: SegmentedSample,
    finding_by_position: Mapping[int, Finding],
    calibration: Calibration,
    *,
    warnings: tuple[CodedText, ...] = (),
) -> Judgement:
    """Build a judgement with one claim for each sentence of the answer; one without a finding is not a claim.

    An answer of mostly copied text has the flag `mostly_copied` and the boundary of such answers.
    """
    aggregation, findings = calibration.aggregation, finding_by_position.values()
    lengths = [len(sample.sentences[position].text) for position in finding_by_position]
    copied = sum(length * finding.copied for length, finding in zip(lengths, findings, strict=True))
    is_copied = aggregation.is_copied(copied / max(1, sum(lengths)))
    claims = []
    for position, sentence in enumerate(within_deadline(sample.sentences)):
        finding = finding_by_position.get(position)
        if finding is None:
            claims.append(whole_sentence_claim(position, sentence, verdict=Verdict.NOT_A_CLAIM))
            continue
        # No similarity counts for more than a copy.
        support = VERBATIM_SUPPORT
        if not finding.is_copy:
            measured = calibration.support(finding.measures) * (aggregation.copied if is_copied else 1.0)
            support = min(VERBATIM_SUPPORT, measured)
        verdict = _verdict(finding, support)
        claims.append(
            whole_sentence_claim(
                position,
                sentence,
                verdict=verdict,
                support=support,
                reason=None if verdict is Verdict.SUPPORTED else _reason(finding, calibration.tier),
                evidence=(finding.evidence,) if finding.evidence else (),
                flags=("verbatim",) if finding.is_copy else (),
                weight=float(len(sentence.text)),
            )
        )
    reliability, boundary = calibration.curve_and_boundary(is_copied=is_copied)
    is_any_doubted = any(finding.is_doubted for finding in findings)
    return Judgement(
        claims=tuple(claims),
        account=JudgeAccount(model=calibration.model),
        has_verdict_kinds=False,
        reliability=reliability,
        boundary=boundary,
        needs_review=is_any_doubted,
        highest=highest_score(calibration.tier),
        factor=aggregation.factor(
            is_doubted=is_any_doubted,
            sentences=sum(not finding.is_copy for finding in findings),
        ),
        flags=(*(() if calibration.is_fitted else ("uncalibrated",)), *((MOSTLY_COPIED,) if is_copied else ())),
        warnings=warnings,
    )


def _verdict(finding: Finding, support: float) -> Verdict:
    """Return the verdict. Likeness does not distinguish a denial from an omission; some detectors do."""
    if support >= _SUPPORTED_FROM:
        return Verdict.SUPPORTED
    return Verdict.CONTRADICTED if finding.is_denied else Verdict.NOT_MENTIONED


def _reason(finding: Finding, tier: TierName) -> str:
    """Return why a sentence is not supported: what is wrong with it, or that too little speaks for it."""
    unknown = (*finding.unknown_names, *finding.unknown_numbers)
    listed, more = unknown[:_MAX_LISTED], len(unknown) - _MAX_LISTED
    texts: list[str] = []
    if unknown:
        texts.append(
            CodedText("in_no_context", names=listed)
            if more <= 0
            else CodedText("in_no_context_and_more", names=listed, count=more)
        )
    if finding.measures.get("negation"):
        texts.append(CodedText("negated_otherwise"))
    if finding.unsupported_words:
        texts.append(CodedText("marked_by_detector", words=tuple(finding.unsupported_words)))
    if texts:
        return join_texts(texts)
    if tier is TierName.DETECTOR:
        return CodedText("detector_finds_denial") if finding.is_denied else CodedText("detector_finds_little")
    return CodedText("little_like_it") if finding.evidence else CodedText("nothing_like_it")


def list_measures(tier: TierName, language: Language) -> tuple[str, ...]:
    """Return the measures that a tier takes of a sentence in a language, the strongest first; llm: decision models."""
    words = CHARACTER_MEASURES if language == "zh" else WORD_MEASURES
    return {
        TierName.LLM: PROBABILITY_MEASURES,
        TierName.DETECTOR: PROBABILITY_MEASURES,
        TierName.LEXICAL: words,
        TierName.EMBEDDING: (*ALIGNMENT_MEASURES, *words),
    }[tier]


class CalibrationFile(BaseModel):
    """The file: a version and its entries."""

    model_config = ConfigDict(extra="forbid", frozen=True)
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
        return Calibration(
            tier=tier,
            model=model,
            language=language,
            weights={list_measures(tier, language)[0]: slope},
            intercept=0.0 if is_probability else -slope / 2,
        )

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
        wording = next(
            (each for each in self.entries if (each.tier, each.language) == (TierName.LEXICAL, calibration.language)),
            None,
        )
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
