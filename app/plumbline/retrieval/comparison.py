"""Runs evaluated against the same judgments: means with intervals, paired significance tests, latencies."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from types import MappingProxyType
from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from plumbline.ground.errors import InvalidInput
from plumbline.ground.texts import CodedText
from plumbline.ground.uncertainty import (
    benjamini_hochberg,
    bootstrap_intervals,
    holm,
    paired_differences,
    paired_t_test,
    sign_flip_test,
    win_tie_loss,
)
from plumbline.retrieval.conventions import Conventions, require_choice
from plumbline.retrieval.evaluation import Evaluation, evaluate, refuse_disjoint
from plumbline.retrieval.measure import TOTALS, Measure
from plumbline.retrieval.run import FloatArray, Qrels, Run

TESTS = ("randomization", "t")
CORRECTIONS: Mapping[str, Callable[[Sequence[float]], tuple[float, ...]]] = MappingProxyType(
    {"holm": holm, "bh": benjamini_hochberg, "none": tuple}
)
_LEVEL = 0.95
# Two numbers: generators of clients do not take the `items: false` of a tuple of two.
Interval = Annotated[tuple[float, ...], Meta(min_length=2, max_length=2)]


@dataclass(frozen=True, slots=True)
class RunComparison:
    """Comparison of run `a` with run `b` by one measure.

    Args:
        diff: `mean_a - mean_b`; above 0, a is better.
        ci95: bootstrap interval of diff; None below two queries. It is of this pair alone, not corrected.
        t: Student's t; None with the randomization test, and where it is 0/0 or infinite.
        p: two-sided, of this pair alone.
        p_adjusted: for the family: all pairs that were compared by this measure.
        significant: p_adjusted <= alpha.
        win, tie, loss: queries where a is better, equal and worse.
        n: queries.
    """

    a: str
    b: str
    measure: str
    mean_a: float
    mean_b: float
    diff: float
    ci95: Interval | None
    t: float | None
    p: float
    p_adjusted: float
    significant: bool
    win: int
    tie: int
    loss: int
    n: int


def compare(
    values_by_run: Mapping[str, FloatArray],
    *,
    measure: str,
    baseline: str | None = None,
    pairs: Sequence[tuple[str, str]] | None = None,
    test: str = "randomization",
    correction: str = "holm",
    alpha: float = 0.05,
    resamples: int = 10_000,
    seed: int = 0,
) -> tuple[RunComparison, ...]:
    """Compare every pair of runs, or every other run with the baseline, in the order of the mapping.

    Args:
        values_by_run: at least two runs, each of shape (n,): the measure's value of each query, the same for all runs.
        baseline: name of the run that the others are compared with (it is `b`); all pairs when None.
        pairs: those that were planned, as (a, b), in place of all or of those with a baseline; at least one.
        test: `randomization` (sign flips, exact up to 20 queries that differ) or `t` (Student, paired).
        correction: `holm` (default) or `bh` (Benjamini-Hochberg), over the pairs; or `none`.
        resamples: of the interval, and of the randomization test where it is not exact.
        seed: the same for each pair, so that one more run changes no p of the others.

    A difference below 1e-12 is rounding and counts as a tie; runs with equal values have p = 1.

    Raises InvalidInput: an argument is out of its range.
    """
    fewest = 2
    if len(values_by_run) < fewest:
        raise InvalidInput(CodedText("two_runs_needed", found=len(values_by_run)))
    if not all(map(len, values_by_run.values())):
        raise InvalidInput(CodedText("query_needed"))
    if baseline is not None and baseline not in values_by_run:
        raise InvalidInput(CodedText("baseline_unknown", name=baseline[:80]))
    require_choice(test, TESTS, "test")
    require_choice(correction, tuple(CORRECTIONS), "correction")
    if not 0.0 < alpha < 1.0:
        raise InvalidInput(CodedText("alpha_wrong", found=alpha))
    if pairs is None and baseline is not None:
        pairs = [(name, baseline) for name in values_by_run if name != baseline]
    elif pairs is None:
        pairs = list(combinations(values_by_run, 2))
    if wrong := next(((a, b) for a, b in pairs if not {a, b} <= values_by_run.keys() or a == b), None):
        raise InvalidInput(CodedText("no_pair_of_runs", one=wrong[0][:80], other=wrong[1][:80]))
    if not pairs or len(set(pairs)) < len(pairs):
        raise InvalidInput(CodedText("pairs_expected"))
    differences = [paired_differences(values_by_run[a], values_by_run[b]) for a, b in pairs]
    tested = [
        paired_t_test(each) if test == "t" else (None, sign_flip_test(each, resamples=resamples, seed=seed))
        for each in differences
    ]
    intervals = bootstrap_intervals(differences, level=_LEVEL, resamples=resamples, seed=seed)
    adjusted = CORRECTIONS[correction]([p for _, p in tested])
    return tuple(
        RunComparison(
            a=a,
            b=b,
            measure=measure,
            mean_a=float(np.mean(values_by_run[a])),
            mean_b=float(np.mean(values_by_run[b])),
            diff=float(each.mean()),
            ci95=interval,
            t=t,
            p=p,
            p_adjusted=p_adjusted,
            significant=p_adjusted <= alpha,
            **win_tie_loss(each)._asdict(),
            n=len(each),
        )
        for (a, b), each, interval, (t, p), p_adjusted in zip(
            pairs, differences, intervals, tested, adjusted, strict=True
        )
    )


@dataclass(frozen=True, slots=True)
class Summary:
    """Mean of a measure over `n` queries with its 95 % bootstrap interval; None without a query."""

    mean: float | None
    ci95: Interval | None
    n: int


@dataclass(frozen=True, slots=True)
class LatencySummary:
    """Latencies in milliseconds; percentiles by linear interpolation."""

    mean: float
    p50: float
    p95: float
    p99: float
    n: int


@dataclass(frozen=True, slots=True)
class RunReport:
    """Evaluation of one run with a summary of each measure."""

    name: str
    evaluation: Evaluation
    summary_by_measure: Mapping[str, Summary]


def report_runs(
    qrels: Qrels,
    runs: Sequence[Run],
    *,
    measures: Sequence[Measure],
    conventions: Conventions,
    resamples: int,
    seed: int,
    lengths: Mapping[str, float] | None = None,
    allow_disjoint: bool = True,
) -> tuple[RunReport, ...]:
    """Evaluate each run, in order, with bootstrap intervals from `resamples` (0: none); otherwise as `evaluate`.

    Raises InvalidInput: two runs of one name, nothing in common, or what `evaluate` refuses, with the run's name.
    """
    if repeated := [name for name, times in Counter(run.name for run in runs).items() if times > 1]:
        raise InvalidInput(CodedText("runs_of_one_name", name=repeated[0]))
    reports = []
    for run in runs:
        try:
            evaluation = evaluate(qrels, run, measures, conventions=conventions, lengths=lengths)
        except InvalidInput as error:
            if not error.place:
                raise
            detail = CodedText("flaw_of_run", flaw=error.detail, name=run.name[:80])
            raise InvalidInput(detail, place=error.place) from error
        if not allow_disjoint:
            refuse_disjoint(evaluation)
        found = evaluation.values
        drawn = [text for text in found if resamples and text not in TOTALS]
        samples = [found[text] for text in drawn]
        intervals = bootstrap_intervals(samples, level=_LEVEL, resamples=resamples or 1, seed=seed)
        interval_by_text = dict(zip(drawn, intervals, strict=True))
        summaries = {
            text: Summary(evaluation.means[text], interval_by_text.get(text), len(values))
            for text, values in found.items()
        }
        reports.append(RunReport(run.name, evaluation, summaries))
    return tuple(reports)


def compare_reports(reports: Sequence[RunReport], **options: Any) -> tuple[RunComparison, ...]:
    """Compare the runs by every measure, with the options of `compare`; raise InvalidInput for different queries."""
    if not reports:
        raise InvalidInput(CodedText("no_runs_to_compare"))
    first = reports[0].evaluation
    for report in reports:
        if report.evaluation.query_ids != first.query_ids:
            raise InvalidInput(CodedText("runs_of_other_queries", one=report.name, other=reports[0].name))
    return tuple(
        comparison
        for measure in first.values
        for comparison in compare(
            {report.name: report.evaluation.values[measure] for report in reports},
            measure=measure,
            **options,
        )
    )


def summarise_latency(milliseconds: Collection[float]) -> LatencySummary:
    """Return mean and percentiles, which the mean hides, of at least one; InvalidInput for a bad one."""
    timed = np.fromiter(milliseconds, dtype=np.float64)
    if not np.isfinite(timed).all() or (timed < 0).any():
        raise InvalidInput(CodedText("latency_wrong"))
    p50, p95, p99 = np.percentile(timed, (50, 95, 99)).tolist()
    return LatencySummary(float(timed.mean()), p50, p95, p99, len(timed))
