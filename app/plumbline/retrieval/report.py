"""Evaluate several runs against the same judgments: means with intervals, comparisons and latencies."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from plumbline.ground.errors import InvalidInput
from plumbline.ground.uncertainty import bootstrap_interval
from plumbline.retrieval.compare import RunComparison, compare
from plumbline.retrieval.conventions import Conventions
from plumbline.retrieval.evaluate import Evaluation, evaluate
from plumbline.retrieval.fuse import Objective
from plumbline.retrieval.measure import TOTALS, Measure, parse_measure
from plumbline.retrieval.run import FloatArray, Qrels, Run

_LEVEL = 0.95
_SMALLEST_COMPARISON = 2


@dataclass(frozen=True, slots=True)
class Summary:
    """Mean of a measure over `n` queries with its 95 % bootstrap interval; None without a query."""

    mean: float | None
    ci95: tuple[float, float] | None
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
) -> tuple[RunReport, ...]:
    """Evaluate each run, in order, with bootstrap intervals from `resamples` (0: none); otherwise as `evaluate`.

    Raises:
        InvalidInput: two runs of one name, or what `evaluate` refuses; the detail ends with the run's name.
    """
    names: set[str] = set()
    for run in runs:
        if run.name in names:
            raise InvalidInput(f"two runs are named {run.name!r}; each needs a name of its own")
        names.add(run.name)
    reports = []
    for run in runs:
        try:
            evaluation = evaluate(qrels, run, measures, conventions=conventions, lengths=lengths)
        except InvalidInput as error:
            if not error.place:
                raise
            raise InvalidInput(f"{error.detail} (run {run.name[:80]!r})", place=error.place) from error
        summaries = {}
        for text, values in evaluation.values.items():
            has_interval = resamples > 0 and len(values) > 0 and text not in TOTALS
            interval = (
                bootstrap_interval(values, level=_LEVEL, resamples=resamples, seed=seed) if has_interval else None
            )
            summaries[text] = Summary(evaluation.means[text], interval, len(values))
        reports.append(RunReport(run.name, evaluation, summaries))
    return tuple(reports)


def compare_reports(
    reports: Sequence[RunReport],
    *,
    baseline: str | None,
    test: str,
    correction: str,
    alpha: float,
    resamples: int,
    seed: int,
    pairs: Sequence[tuple[str, str]] | None = None,
) -> tuple[RunComparison, ...]:
    """Compare the runs by every measure, as `compare` does by one.

    Raises:
        InvalidInput: fewer than two runs, runs that were evaluated on different queries, or what `compare` refuses.
    """
    if len(reports) < _SMALLEST_COMPARISON:
        raise InvalidInput("a comparison needs two runs or more")
    first = reports[0]
    for report in reports:
        if report.evaluation.query_ids != first.evaluation.query_ids:
            raise InvalidInput(
                f"run {report.name!r} was evaluated on other queries than {first.name!r}: use conventions with "
                "missing_queries 'zero', or give runs of the same queries"
            )
    return tuple(
        comparison
        for measure in first.evaluation.values
        for comparison in compare(
            {report.name: report.evaluation.values[measure] for report in reports},
            query_ids=first.evaluation.query_ids,
            measure=measure,
            baseline=baseline,
            pairs=pairs,
            test=test,
            correction=correction,
            alpha=alpha,
            resamples=resamples,
            seed=seed,
        )
    )


def tuning_objective(qrels: Qrels, measure: str, *, conventions: Conventions) -> Objective:
    """Return what `tune_weights` maximises: the measure of a fused run for each query."""
    text = str(parse_measure(measure))

    def objective(run: Run, query_ids: Sequence[str]) -> FloatArray:
        judged = {query: qrels[query] for query in query_ids}
        return evaluate(judged, run, [text], conventions=conventions).values[text]

    return objective


def summarise_latency(milliseconds: Collection[float]) -> LatencySummary | None:
    """Return mean and percentiles (seed 4 asks for the mean, which hides tails); None if nothing was timed.

    Raises:
        InvalidInput: a latency that is negative or not finite.
    """
    if not milliseconds:
        return None
    timed = np.fromiter(milliseconds, dtype=np.float64)
    if not np.isfinite(timed).all() or (timed < 0).any():
        raise InvalidInput("a latency is negative or not finite; expected milliseconds")
    p50, p95, p99 = (float(each) for each in np.percentile(timed, (50, 95, 99)))
    return LatencySummary(float(timed.mean()), p50, p95, p99, len(timed))
