"""A calibration made to fit labelled answers, and how far its scores agree with them beside the one in force."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from sklearn.isotonic import IsotonicRegression

from plumbline.extras.calibration.figures import Agreement, measure_agreement
from plumbline.extras.calibration.fitting import (
    FloatArray,
    MeasuredAnswers,
    balanced_weights,
    cross_predict,
    fit_gate,
    fit_scale,
    fit_weights,
    folds_of,
    predict,
)
from plumbline.extras.calibration.labels import LabelledRow
from plumbline.extras.calibration.measuring import Measured, measure_rows, measuring_tier
from plumbline.extras.calibration.resampling import ScoredRows
from plumbline.judging.text.words import Language
from plumbline.judging.tiers.calibration import Calibration, CalibrationSource, CalibrationTable, measures_of
from plumbline.judging.tiers.tier import SentenceEncoder, TierName

# What is fitted: how steep and where the boundary is, two parameters; or the weight of each measure and the gate too.
Fit = Literal["scale", "weights"]

FEWEST_OF_A_LABEL = 10
_FOLDS = 5
_CURVE_POINTS = 10
_SURE, _UNSURE = 0.98, 0.02


@dataclass(frozen=True, slots=True)
class CalibrationReport:
    """The new calibration, and the agreement of both: `after` of scores of answers that were left out of the fit.

    Of `answers` that were measured people took `faithful` for that.
    """

    calibration: Calibration
    answers: int
    faithful: int
    before: Agreement
    after: Agreement


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be calibrated, on which data.

    `source` says what to tell of the data, rows and AUROC are filled in; `draws`: resamples for the intervals.
    """

    tiers: Sequence[TierName]
    fit: Fit
    source: CalibrationSource
    draws: int


async def calibrate_tiers(
    rows: Sequence[LabelledRow], request: Request, table: CalibrationTable, encoder: SentenceEncoder
) -> tuple[list[CalibrationReport], list[str]]:
    """A report for each tier and language that the rows are enough for, and a line for each that they are not.

    Raises:
        CalibrationError: as `calibrate`.
    """
    reports, passed_over = [], []
    for name in request.tiers:
        tier = measuring_tier(name, encoder)
        for language in get_args(Language):
            measured = await measure_rows(rows, tier, language=language)
            if measured is None:
                continue
            faithful = int(measured.answers.labels.sum())
            other = len(measured.answers) - faithful
            if min(faithful, other) < FEWEST_OF_A_LABEL:
                passed_over.append(
                    f"tier {name}, language {language}: left as it is; found {faithful} faithful and {other} other "
                    f"answers, at least {FEWEST_OF_A_LABEL} of each are needed"
                )
                continue
            in_force = table.find(tier=name, model=tier.model, language=language)
            reports.append(calibrate(measured, in_force, fit=request.fit, source=request.source, draws=request.draws))
    return reports, passed_over


def calibrate(
    measured: Measured, in_force: Calibration, *, fit: Fit, source: CalibrationSource, draws: int
) -> CalibrationReport:
    """A calibration for the tier, model and language of the one in force.

    Each dataset counts the same, and so does each label in it: 0.5 is the boundary where both labels are as common.

    Args:
        measured: at least `FEWEST_OF_A_LABEL` answers of each label.
        source: what to say of the data; rows and AUROC are filled in.
        draws: resamples for the intervals.

    Raises:
        CalibrationError: the scores do not rise with the labels.
    """
    answers = measured.answers
    fitted = _fitter(measured, in_force, fit)
    before = predict(answers, in_force)
    after = np.clip(cross_predict(answers, folds_of(answers, parts=_FOLDS), fitted), 0.0, 1.0)
    agreement = measure_agreement(_scored(answers, after), draws=draws)
    auroc = agreement.macro.auroc.value
    calibration = fitted(answers).model_copy(
        update={
            "reliability": _reliability(answers, after),
            "source": source.model_copy(
                update={"rows": len(answers), "auroc": None if auroc is None else round(auroc, 4)}
            ),
        }
    )
    return CalibrationReport(
        calibration=calibration,
        answers=len(answers),
        faithful=int(answers.labels.sum()),
        before=measure_agreement(_scored(answers, before), draws=draws),
        after=agreement,
    )


def _fitter(measured: Measured, in_force: Calibration, fit: Fit) -> Callable[[MeasuredAnswers], Calibration]:
    if fit == "weights":
        gate = fit_gate(measured.unrelated, measures_of(in_force.tier, in_force.language)[0])
        gated = in_force.model_copy(update={"gate": gate})

        def weighed(answers: MeasuredAnswers) -> Calibration:
            weights, intercept = fit_weights(answers, gate, row_weights=balanced_weights(answers))
            return _rounded(gated, weights, intercept)

        return weighed

    def scaled(answers: MeasuredAnswers) -> Calibration:
        weights, intercept = fit_scale(answers, in_force, row_weights=balanced_weights(answers))
        return _rounded(in_force, weights, intercept)

    return scaled


def _rounded(calibration: Calibration, weights: dict[str, float], intercept: float) -> Calibration:
    rounded = {name: round(weight, 4) for name, weight in weights.items()}
    return calibration.model_copy(update={"weights": rounded, "intercept": round(intercept, 4)})


def _scored(answers: MeasuredAnswers, scores: FloatArray) -> ScoredRows:
    datasets, clusters = ([str(name) for name in names] for names in (answers.datasets, answers.clusters))
    return ScoredRows(scores, answers.labels.astype(np.int64), datasets, clusters)


def _reliability(answers: MeasuredAnswers, scores: FloatArray) -> tuple[tuple[float, float], ...]:
    """Observed share of faithful answers around each of some scores, made monotone."""
    curve = IsotonicRegression(y_min=_UNSURE, y_max=_SURE, out_of_bounds="clip")
    curve.fit(scores, answers.labels, sample_weight=balanced_weights(answers))
    edges = np.unique(np.quantile(scores, np.linspace(0, 1, _CURVE_POINTS + 1)))
    centres = (edges[:-1] + edges[1:]) / 2 if len(edges) > 1 else edges
    points = {round(float(x), 4): round(float(y), 4) for x, y in zip(centres, curve.predict(centres), strict=True)}
    return tuple(sorted(points.items()))
