"""Calibrations of tiers fitted on labelled answers, with their agreement before and after."""

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Literal, get_args

import numpy as np
from scipy.optimize import isotonic_regression

from plumbline.extras.calibration.figures import Agreement, ScoredRows, measure_agreement
from plumbline.extras.calibration.fitting import (
    FloatArray,
    MeasuredAnswers,
    balanced_weights,
    cross_predict,
    fit_bounds,
    fit_gate,
    fit_scale,
    fit_weights,
    predict,
    split_folds,
)
from plumbline.extras.calibration.labels import LabelledRow
from plumbline.ground.concurrency import map_concurrently
from plumbline.ground.errors import CalibrationError, TierFailure
from plumbline.judging.ports.models import Detector, SentenceEncoder
from plumbline.judging.text.segmented_sample import SegmentedSample, segment
from plumbline.judging.text.words import Language
from plumbline.judging.tiers.calibration import (
    Calibration,
    CalibrationSource,
    CalibrationTable,
    find_shape,
    list_measures,
    related_share,
)
from plumbline.judging.tiers.cascade import JudgeCascade
from plumbline.judging.tiers.decision_bounds import logit
from plumbline.judging.tiers.detector import DetectorTier
from plumbline.judging.tiers.embedding import EmbeddingTier
from plumbline.judging.tiers.judgement import distinct_findings
from plumbline.judging.tiers.lexical import MODEL as LEXICAL_MODEL
from plumbline.judging.tiers.lexical import collect_lexical_findings
from plumbline.judging.tiers.lexical_features import Finding
from plumbline.judging.tiers.tier import JudgeOptions, TierName

# Calls to a judge under way.
_JUDGED_AT_ONCE = 16
# Answers paired with contexts of other subjects.
_UNRELATED_PAIRS = 300
# Measures the sentences of a sample, by position; raises TierFailure if the tier does not measure this sample.
Measure = Callable[[SegmentedSample], Awaitable[Mapping[int, Finding]]]


@dataclass(frozen=True, slots=True)
class MeasuredRows:
    """The answers measured by a tier in one language, and the number it refused."""

    answers: MeasuredAnswers
    unrelated: MeasuredAnswers
    refused: int


@dataclass(frozen=True, slots=True)
class MeasuringTier:
    name: TierName
    model: str
    measure: Measure


def measuring_tier(name: TierName, encoder: SentenceEncoder, detector: Detector | None = None) -> MeasuringTier:
    """Build tier lexical, detector, or embedding without its limit on windows."""
    if name is TierName.LEXICAL:

        async def measure_wording(case: SegmentedSample) -> Mapping[int, Finding]:
            return collect_lexical_findings(case)

        return MeasuringTier(name, LEXICAL_MODEL, measure_wording)
    uncalibrated, executor = CalibrationTable(()), ThreadPoolExecutor(1)
    tier: DetectorTier | EmbeddingTier
    if name is not TierName.DETECTOR:
        tier = EmbeddingTier(encoder, uncalibrated, executor, max_windows=sys.maxsize)
    elif detector is None:
        raise CalibrationError("tier detector: none is configured; set PLUMBLINE_DETECTOR")
    else:
        tier = DetectorTier(detector, uncalibrated, executor)
    model = detector.model if name is TierName.DETECTOR and detector else encoder.model
    return MeasuringTier(name, model, partial(tier.compare, options=JudgeOptions(can_wait=True), seconds=float("inf")))


def measuring_judge(cascade: JudgeCascade, name: str, model: str, *, deadline_seconds: float) -> MeasuringTier:
    """Build tier llm with one decision model, which measures the sentence with the least support.

    `cascade`: without calibrations, so that its supports are the model's probabilities.
    """

    async def measure(case: SegmentedSample) -> Mapping[int, Finding]:
        options = JudgeOptions(judges=(name,), can_wait=True)
        found = await cascade.judge(case, options, tiers=(TierName.LLM,), deadline_seconds=deadline_seconds)
        claims = found.judgement.claims if found.judgement else ()
        supports = {each.sentence: each.support or 0.0 for each in claims if each.is_checkable}
        least = sorted(supports, key=lambda position: supports[position])[:1]
        return {each: Finding({"logit": logit(supports[each])}, None, is_copy=False) for each in least}

    return MeasuringTier(TierName.LLM, model, measure)


async def measure_rows(rows: Sequence[LabelledRow], tier: MeasuringTier, *, language: Language) -> MeasuredRows | None:
    """Measure the rows in a language; None if no row has a checkable claim and contexts.

    Rows whose `lang` differs from the detected language of the answer are left out.
    """
    ordered = sorted(rows, key=lambda row: (row.cluster, row.sample.contexts))
    cases = [(row, segment(row.sample)) for row in ordered if row.lang in ("", language)]
    judged = [(row, case) for row, case in cases if case.language == language and case.checkable and case.has_context]
    names = list_measures(tier.name, language)
    answers, refused = await _measure(judged, tier, names)
    if not len(answers):
        return None
    # Only gates need them, which decision models do without: their calls cost money.
    unrelated, _ = await _measure([] if tier.name is TierName.LLM else _pair_unrelated(judged), tier, names)
    return MeasuredRows(answers, unrelated, refused)


async def _measure(
    rows: Sequence[tuple[LabelledRow, SegmentedSample]], tier: MeasuringTier, names: tuple[str, ...]
) -> tuple[MeasuredAnswers, int]:
    measured: list[tuple[LabelledRow, list[tuple[float, Finding]]]] = []
    shapes: list[str] = []

    async def find(row: tuple[LabelledRow, SegmentedSample]) -> Mapping[int, Finding]:
        try:
            return await tier.measure(row[1])
        except TierFailure:
            return {}

    limit = _JUDGED_AT_ONCE if tier.name is TierName.LLM else 1
    async with aclosing(map_concurrently(find, rows, limit=limit, in_order=True)) as measuring:
        found_by_row = [found async for found in measuring]
    for (row, case), findings in zip(rows, found_by_row, strict=True):
        # A copy in a language that the model does not read has no measures.
        if findings and all(found.measures for found in findings.values()):
            measured.append((row, distinct_findings(case, findings)))
            shapes.append(find_shape(case).value)
    sentences = [sentence for _, found in measured for sentence in found]
    answers = MeasuredAnswers(
        names=names,
        measures=np.array([[found.measures[name] for name in names] for _, found in sentences], dtype=np.float64),
        owners=np.repeat(np.arange(len(measured)), [len(found) for _, found in measured]),
        lengths=np.array([length for length, _ in sentences], dtype=np.float64),
        is_copy=np.array([found.is_copy for _, found in sentences], dtype=bool),
        copied=np.array([found.copied for _, found in sentences], dtype=np.float64),
        related=np.array(
            [
                related_share(length, finding, is_alone=len(found) == 1)
                for _, found in measured
                for length, finding in found
            ],
            dtype=np.float64,
        ),
        is_open=np.array([bool(found.open_reasons) for _, found in sentences], dtype=bool),
        labels=np.array([row.label for row, _ in measured], dtype=np.float64),
        shapes=np.array(shapes, dtype=np.str_),
        datasets=np.array([row.dataset for row, _ in measured], dtype=np.str_),
        clusters=np.array([row.cluster for row, _ in measured], dtype=np.str_),
    )
    return answers, len(rows) - len(measured)


def _pair_unrelated(rows: Sequence[tuple[LabelledRow, SegmentedSample]]) -> list[tuple[LabelledRow, SegmentedSample]]:
    """Pair answers with the contexts of another dataset, or document if there is one dataset. Deterministic."""
    subject = attrgetter("dataset" if len({row.dataset for row, _ in rows}) > 1 else "cluster")
    found = []
    for at in range(0, len(rows), max(1, len(rows) // _UNRELATED_PAIRS)):
        row = rows[at][0]
        others = (rows[(at + len(rows) // 2 + step) % len(rows)][0] for step in range(len(rows)))
        other = next((other for other in others if subject(other) != subject(row)), None)
        if other:
            case = segment(replace(other.sample, answer=row.sample.answer, question=""))
            if case.checkable:
                found.append((row, case))
    return found


# `scale` fits slope and boundary, two parameters; `weights` also the weight of each measure and the gate.
Fit = Literal["scale", "weights"]

_FEWEST_OF_A_LABEL = 10
_FOLDS = 5
_CURVE_POINTS = 10
# Of Chinese the characters in copied runs count: another name, number or party leaves most of a sentence as it is.
_COPIED_FROM: Mapping[Language, float] = {"en": 0.5, "zh": 0.97}
_SURE, _UNSURE = 0.98, 0.02
_BOUNDARY = 0.5
# Around the boundary: shares below it stay below one half.
_JUST_BELOW = 0.499
# Balanced accuracy that a fit may lose on held-out answers: less is noise.
_ACCURACY_LOST = 0.01


@dataclass(frozen=True, slots=True)
class CalibrationReport:
    """The new calibration and the agreement before and after it; `after` is on held-out answers.

    `answers` were measured; `faithful` of them have that label.
    """

    calibration: Calibration
    answers: int
    faithful: int
    before: Agreement
    after: Agreement

    @property
    def is_worse(self) -> bool:
        """Return True if the held-out answers are judged worse than before, by Brier score or balanced accuracy."""
        briers = [each.pooled.brier.value for each in (self.before, self.after)]
        accuracies = [each.macro.balanced_accuracy.value for each in (self.before, self.after)]
        return _is_less(briers[::-1], by=0.0) or _is_less(accuracies, by=_ACCURACY_LOST)


def _is_less(before_and_after: Sequence[float | None], *, by: float) -> bool:
    before, after = before_and_after
    return before is not None and after is not None and after < before - by


async def calibrate_tiers(
    rows: Sequence[LabelledRow],
    tiers: Sequence[TierName],
    *,
    fit: Fit,
    source: CalibrationSource,
    draws: int,
    table: CalibrationTable,
    encoder: SentenceEncoder,
    detector: Detector | None = None,
    judges: Sequence[MeasuringTier] = (),
) -> tuple[list[CalibrationReport], list[str]]:
    """Calibrate each tier and language with enough rows; return a line on each of the others.

    `judges`: the decision models of tier llm, each with a calibration of its own; their scale alone is fitted.

    Raises CalibrationError: as `calibrate`.
    """
    reports, passed_over = [], []
    others = [measuring_tier(name, encoder, detector) for name in tiers if name is not TierName.LLM]
    for tier in (*(judges if TierName.LLM in tiers else ()), *others):
        for language in get_args(Language):
            measured = await measure_rows(rows, tier, language=language)
            if measured is None:
                continue
            faithful = int(measured.answers.labels.sum())
            other = len(measured.answers) - faithful
            if min(faithful, other) < _FEWEST_OF_A_LABEL:
                passed_over.append(
                    f"tier {tier.name}, language {language}: left as it is; found {faithful} faithful and {other} "
                    f"other answers, at least {_FEWEST_OF_A_LABEL} of each are needed"
                )
                continue
            in_force = table.find(tier=tier.name, model=tier.model, language=language)
            fitted: Fit = "scale" if tier.name is TierName.LLM else fit
            reports.append(calibrate(measured, in_force, fit=fitted, source=source, draws=draws))
    return reports, passed_over


def calibrate(
    measured: MeasuredRows, in_force: Calibration, *, fit: Fit, source: CalibrationSource, draws: int
) -> CalibrationReport:
    """Fit a calibration for the tier, model and language of the one in force.

    Each dataset counts the same, and so does each label in it: 0.5 is the boundary where both labels are as common.

    Args:
        measured: at least 10 answers of each label.
        source: the description of the data; rows and AUROC are filled in.
        draws: resamples for the intervals.

    Raises CalibrationError: the scores do not rise with the labels.
    """
    answers = measured.answers
    gate = in_force.gate
    if fit == "weights":
        # By single characters unrelated Chinese texts are so alike that a gate lowers answers on the subject, too.
        is_gated = in_force.language != "zh"
        gate = fit_gate(measured.unrelated, list_measures(in_force.tier, in_force.language)[0]) if is_gated else None

    def fit_calibration(answers: MeasuredAnswers) -> Calibration:
        row_weights = balanced_weights(answers)
        if fit == "weights":
            parameters = fit_weights(answers, gate, row_weights=row_weights)
        else:
            parameters = fit_scale(answers, in_force, row_weights=row_weights)
        return in_force.model_copy(update={"gate": gate, **parameters._asdict()})

    before = predict(answers, in_force)
    after = cross_predict(answers, split_folds(answers, parts=_FOLDS), fit_calibration)
    agreement = measure_agreement(_build_rows(answers, after), draws=draws)
    auroc = agreement.macro.auroc.value
    measured_on = {"rows": len(answers), "auroc": None if auroc is None else round(auroc, 4)}
    bounds = dict(in_force.bounds)
    if in_force.tier in (TierName.EMBEDDING, TierName.LEXICAL):
        bounds |= fit_bounds(answers, after, copied_from=_COPIED_FROM[in_force.language])
    return CalibrationReport(
        calibration=fit_calibration(answers).model_copy(
            update={
                "reliability": _pin_to_boundary(_reliability(answers, after)),
                "bounds": bounds,
                "source": source.model_copy(update=measured_on),
            }
        ),
        answers=len(answers),
        faithful=int(answers.labels.sum()),
        before=measure_agreement(_build_rows(answers, before), draws=draws),
        after=agreement,
    )


def _build_rows(answers: MeasuredAnswers, scores: FloatArray) -> ScoredRows:
    datasets, clusters = ([str(name) for name in names] for names in (answers.datasets, answers.clusters))
    return ScoredRows(scores, answers.labels.astype(np.int64), datasets, clusters)


def _reliability(answers: MeasuredAnswers, scores: FloatArray) -> tuple[tuple[float, float], ...]:
    """Return the observed share of faithful answers around some scores, made monotone."""
    curve = isotonic_curve(scores, answers.labels, balanced_weights(answers))
    edges = np.unique(np.quantile(scores, np.linspace(0, 1, _CURVE_POINTS + 1)))
    centres = (edges[:-1] + edges[1:]) / 2 if len(edges) > 1 else edges
    points = {round(float(x), 4): round(float(y), 4) for x, y in zip(centres, curve(centres), strict=True)}
    return tuple(sorted(points.items()))


def isotonic_curve(scores: FloatArray, labels: FloatArray, weights: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """Return the rising curve that is closest to the labels by weighted squares: linear between scores, then constant.

    Isotonic regression (Barlow et al. 1972); equal scores are pooled first, and every weight is above 0.
    """
    distinct, place = np.unique(scores, return_inverse=True)
    mass = np.bincount(place, weights)
    means = np.bincount(place, weights * labels) / mass
    heights = np.clip(isotonic_regression(means, weights=mass).x, _UNSURE, _SURE)
    return lambda points: np.interp(points, distinct, heights)


def _pin_to_boundary(curve: tuple[tuple[float, float], ...]) -> tuple[tuple[float, float], ...]:
    """Return the curve led through the boundary, so that no confidence in a decision is below one half."""
    points = {score: min(share, _JUST_BELOW) if score < _BOUNDARY else max(share, _BOUNDARY) for score, share in curve}
    return tuple(sorted({**points, _BOUNDARY: _BOUNDARY}.items()))
