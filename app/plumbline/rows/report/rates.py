"""The share of unfaithful answers among many, from their scores and labels of a few; and thresholds with a promise."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy import stats

from plumbline.ground.errors import InvalidInput
from plumbline.rows.report.tallies import wilson_share
from plumbline.schemas.report import Promise, RateEstimate

# Below it neither the gain by the scores nor a share near 0 is known well enough (coverage in benchmarks/rates.py).
FEWEST_LABELS = 30
# Scores of labelled rows that differ so much from the others were not drawn at random.
_DRAWN_BY_SCORE = 1e-4
# Labels that the spread of two variables takes.
_SPENT = 3
_EVEN = 0.5
# Bounds from which sentences pass; a finer choice would follow the noise of a few hundred labels.
_PASSING: Final = np.round(np.arange(_EVEN, 1.0, 0.05), 2)
BoolArray = npt.NDArray[np.bool_]


def estimate_rate(unfaithful: npt.ArrayLike, scores: npt.ArrayLike, others: npt.ArrayLike) -> RateEstimate:
    """Estimate the share of unfaithful answers by prediction-powered inference.

    Args:
        unfaithful: shape (n,), 1 or 0 of each labelled row.
        scores: shape (n,), faithfulness of those rows, in [0, 1].
        others: shape (m,), faithfulness of the rows without a label.

    PPI++ with tuned power (Angelopoulos, Duchi & Zrnic 2023, arXiv 2311.01453): the point is theirs. The interval is
    Wilson's (1927) with the number of labels that would give the same variance, since a normal one covers too rarely
    near 0 and 1: in 90 of 100 cases at a share of .05 and 50 labels.

    Raises InvalidInput: fewer than 30 labels, or labels that were drawn by score.
    """
    y = np.asarray(unfaithful, dtype=np.float64)
    f, rest = 1.0 - np.asarray(scores, dtype=np.float64), 1.0 - np.asarray(others, dtype=np.float64)
    n = len(y)
    _check_labels(f, rest)
    plain, spread = float(y.mean()), float(y.var())
    labels_only = wilson_share(plain, n)
    if not len(rest) or spread == 0.0:
        return RateEstimate(corrected=labels_only, labels_only=labels_only, power=0.0, worth=n)
    varied = float(np.var(np.concatenate([f, rest]), ddof=1)) * (1 + n / len(rest))
    power = float(np.clip(np.mean((y - plain) * (f - f.mean())) / varied, 0.0, 1.0)) if varied else 0.0
    share = plain + power * float(rest.mean() - f.mean())
    variance = float((y - power * f).var()) / n + power**2 * float(rest.var()) / len(rest)
    # The gain is found on the labels themselves, which flatters it.
    gain = min(1.0, variance / (spread / n) * (n - 1) / (n - _SPENT))
    corrected = wilson_share(min(1.0, max(0.0, share)), n / gain)
    return RateEstimate(corrected=corrected, labels_only=labels_only, power=power, worth=n / gain)


def _check_labels(labelled: npt.ArrayLike, others: npt.ArrayLike) -> None:
    """Raise InvalidInput for scores of too few labelled rows, or of rows that were not drawn at random."""
    if np.size(labelled) < FEWEST_LABELS:
        raise InvalidInput(f"{np.size(labelled)} labels of these rows; expected {FEWEST_LABELS} or more")
    if np.size(others) and stats.ks_2samp(labelled, others).pvalue < _DRAWN_BY_SCORE:
        raise InvalidInput(
            "the labelled rows have other scores than the rest: they were not drawn at random, and any rate would be "
            "wrong; label rows drawn at random"
        )


def labels_for_width(found: RateEstimate, labels: int, width: float) -> int:
    """Return about how many labels an interval of this width takes, in place of those that gave the estimate."""
    return math.ceil(labels * ((found.corrected.high - found.corrected.low) / width) ** 2)


def choose_threshold(
    unfaithful: npt.ArrayLike,
    scores: npt.ArrayLike,
    rows: npt.ArrayLike,
    *,
    risk: float,
    confidence: float,
) -> Promise:
    """Return the lowest threshold that keeps a promise: of the answers at or above it, at most `risk` are unfaithful.

    Args:
        unfaithful, scores: of the labelled rows, drawn at random from `rows`.
        rows: faithfulness of all rows, labelled ones included.
        risk, confidence: in (0, 1).

    Thresholds are tested from the strictest on, each by its exact binomial tail, up to the first that fails: a fixed
    sequence, which needs no correction for their number (Learn then Test, Angelopoulos et al. 2021, arXiv 2110.01052).
    They are the scores of the rows, and the first is the one that leaves just enough labels for a test to hold at all,
    so that labels do not choose them.
    """
    label, score = np.asarray(unfaithful, dtype=np.int64), np.asarray(scores, dtype=np.float64)
    found = np.asarray(rows, dtype=np.float64)
    level = 1.0 - confidence
    # Without a single unfaithful answer among them.
    fewest = math.ceil(math.log(level) / math.log(1.0 - risk))
    best: tuple[float, int, int] | None = None
    # A hundred at most, at even shares of the rows, the strictest first.
    tried = np.unique(np.quantile(found, np.linspace(0.0, 1.0, 101), method="higher"))
    for threshold in tried[::-1]:
        passed = label[score >= threshold]
        if len(passed) < fewest:
            continue
        if stats.binom.cdf(passed.sum(), len(passed), risk) > level:
            break
        best = (float(threshold), len(passed), int(passed.sum()))
    if best is None:
        # About how many labels a test of the better half of the rows takes.
        share = float(np.mean(found >= np.median(found)))
        lacking = max(0, math.ceil(2 * fewest / max(share, 0.5)) - len(label))
        return Promise(threshold=None, let_through=0.0, labels_passed=0, unfaithful_passed=0, more_labels=lacking)
    return Promise(
        threshold=best[0],
        let_through=float(np.mean(found >= best[0])),
        labels_passed=best[1],
        unfaithful_passed=best[2],
        more_labels=0,
    )


def choose_thresholds(
    unfaithful: npt.ArrayLike,
    scores: npt.ArrayLike,
    rows: npt.ArrayLike,
    *,
    risk: float,
    confidence: float,
) -> tuple[Promise, Promise, int]:
    """Return the promises of what passes and of what is blocked, and the number of rows between, for a judge.

    The second: of the answers at or below its threshold at most `risk` are faithful. Each has the confidence by itself.
    """
    label, score, found = 1 - np.asarray(unfaithful), -np.asarray(scores), np.asarray(rows, dtype=np.float64)
    passing = choose_threshold(unfaithful, scores, rows, risk=risk, confidence=confidence)
    blocked = choose_threshold(label, score, -found, risk=risk, confidence=confidence)
    if blocked.threshold is not None:
        blocked = blocked.model_copy(update={"threshold": -blocked.threshold})
    low = -math.inf if blocked.threshold is None else blocked.threshold
    high = math.inf if passing.threshold is None else passing.threshold
    return passing, blocked, int(((found > low) & (found < high)).sum())


@dataclass(frozen=True, slots=True)
class DecidedRows:
    """Rows on one side of the bounds of a decision model: their share, and of the labelled ones those judged wrong.

    `at_most`: the share of wrong ones is no larger, with the confidence that was asked for (Clopper & Pearson 1934).
    """

    share: float
    labels: int
    wrong: int
    at_most: float


@dataclass(frozen=True, slots=True)
class FoundBounds:
    """Bounds on the support that a decision model gives, and the `share` of the rows that they leave undecided."""

    fails: float
    passes: float
    share: float
    passed: DecidedRows
    failed: DecidedRows


def choose_bounds(
    unfaithful: npt.ArrayLike, labelled: npt.ArrayLike, rows: npt.ArrayLike, *, left: float, confidence: float
) -> FoundBounds:
    """Return the bounds with the fewest errors on the labels among those that leave at most a share of the rows.

    The share is counted on all rows, and no draw of labels moves it; where the check alone leaves more, it is more.

    Args:
        unfaithful: shape (n,), 1 or 0 of each labelled row.
        labelled: shape (n, 2): the least support of the row's sentences that the check did not refute, and the same
            or 0 where it refuted one: such a row never passes. 1 and 0 of one that the model failed to judge.
        rows: shape (m, 2), of all rows, labelled ones included.

    Raises InvalidInput: fewer than 30 labels, or labels that were drawn by score.
    """
    label, known, found = np.asarray(unfaithful), np.asarray(labelled), np.asarray(rows)
    _check_labels(known[:, 0], found[:, 0])
    best: tuple[float, float, float] | None = None
    # A sentence passes only if it is as likely as not, and fails only if it is no likelier.
    for passes in _PASSING:
        lowest = np.sort(found[found[:, 1] < passes, 0])
        most_failing = len(lowest) - int(left * len(found))
        fails = float(lowest[most_failing - 1]) if most_failing > 0 else 0.0
        if fails > _EVEN:
            continue
        wrong_passes, wrong_fails = known[label == 1, 1] >= passes, known[label == 0, 0] <= fails
        errors = sum(float(wrong.mean()) for wrong in (wrong_passes, wrong_fails) if len(wrong))
        if best is None or errors < best[0]:
            best = (errors, fails, float(passes))
    _, fails, passes = best or (0.0, _EVEN, _EVEN)
    passed = _decided(found[:, 1] >= passes, known[:, 1] >= passes, label == 1, confidence)
    failed = _decided(found[:, 0] <= fails, known[:, 0] <= fails, label == 0, confidence)
    share = round(1.0 - passed.share - failed.share, 4)
    return FoundBounds(fails, passes, share, passed, failed)


def _decided(rows: BoolArray, labelled: BoolArray, is_wrong: BoolArray, confidence: float) -> DecidedRows:
    count, wrong = int(labelled.sum()), int((labelled & is_wrong).sum())
    at_most = float(stats.beta.ppf(confidence, wrong + 1, count - wrong)) if wrong < count else 1.0
    return DecidedRows(float(rows.mean()), count, wrong, at_most)
