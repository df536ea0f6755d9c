"""Evaluate the run files of an experiment with `plumbline.retrieval`.

With seed 0 the means, intervals and uncorrected p are those of `plumbline evaluate` and `plumbline compare`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from plumbline.extras.lab.experiment import Experiment, Planned
from plumbline.extras.lab.folder import Outcome, ResultsFolder, load_run
from plumbline.extras.lab.measuring import is_same
from plumbline.extras.lab.results import RECALLS, CorpusFacts, ExperimentResults, System
from plumbline.ground.errors import InvalidInput
from plumbline.retrieval.compare import RunComparison, RunReport, compare_reports, report_runs, summarise_latency
from plumbline.retrieval.inputs import read_qrels
from plumbline.retrieval.measure import parse_measures

# As many as `plumbline evaluate` and `plumbline compare` take.
_RESAMPLES: Final = 1_000
_PERMUTATIONS: Final = 10_000
_ALPHA: Final = 0.05
_CURVE: Final = parse_measures([f"iprec(r={recall})" for recall in RECALLS])


def evaluate_experiment(
    experiment: Experiment,
    folder: ResultsFolder,
    *,
    done: Mapping[Planned, Outcome],
    corpora: Mapping[str, CorpusFacts],
    answers: Mapping[str, Mapping[str, float | None]],
    failures: Mapping[str, str],
    machine: Mapping[str, str],
) -> ExperimentResults:
    """Evaluate all systems that are done; InvalidInput where a file cannot be read."""
    systems: list[System] = []
    comparisons: list[RunComparison] = []
    for corpus in experiment.corpora:
        planned = [each for each in done if each.corpus == corpus]
        if not planned:
            continue
        qrels = read_qrels(folder.qrels(corpus))
        runs = [load_run(folder.run(each.name), name=each.name) for each in planned]
        conventions, resamples = experiment.conventions, experiment.table.resamples
        reports = report_runs(
            qrels,
            runs,
            measures=parse_measures(experiment.table.measures),
            conventions=conventions,
            resamples=_RESAMPLES if resamples is None else resamples,
            seed=experiment.table.seed,
        )
        # interpolated precision has no closed form over tied orders
        drawn = _CURVE if conventions.ties != "average" else ()
        curves = report_runs(qrels, runs, measures=drawn, conventions=conventions, resamples=0, seed=0)
        compared, trouble = _compared(experiment, corpus, planned, reports)
        comparisons += compared
        for each, report, curve in zip(planned, reports, curves, strict=True):
            outcome = done[each]
            warnings = (*outcome.warnings, *report.evaluation.warnings, *trouble)
            if not is_same(outcome.machine, machine):
                warnings = ("timed on another machine than the results name; use --fresh to measure again", *warnings)
            systems.append(
                System(
                    name=each.name,
                    corpus=each.corpus,
                    chunking=each.chunking,
                    retriever=each.retriever,
                    parts=each.parts,
                    run_file=folder.run(each.name).relative_to(folder.root).as_posix(),
                    measures=report.summary_by_measure,
                    latency=summarise_latency(folder.milliseconds(each.name).values()),
                    built=outcome.built,
                    tuned=outcome.tuned,
                    answers=answers.get(each.name),
                    warnings=warnings,
                    precision_at_recall=tuple(summary.mean or 0.0 for summary in curve.summary_by_measure.values()),
                )
            )
    return ExperimentResults(
        name=experiment.table.name,
        measures=tuple(str(each) for each in parse_measures(experiment.table.measures)),
        baseline=experiment.baseline,
        systems=tuple(systems),
        comparisons=tuple(comparisons),
        settings=experiment.settings(),
        machine=machine,
        corpora=corpora,
        failures=failures,
    )


def _compared(
    experiment: Experiment, corpus: str, planned: Sequence[Planned], reports: Sequence[RunReport]
) -> tuple[tuple[RunComparison, ...], tuple[str, ...]]:
    """Return the comparisons of a corpus, and a warning if there are none though there could be."""
    baseline = experiment.baseline_of(corpus)
    pairs = list(list_pairs(planned, baseline))
    lacking = () if baseline in {each.name for each in planned} else (f"the baseline {baseline} has no run",)
    if not pairs:
        return (), lacking
    try:
        compared = compare_reports(
            reports,
            baseline=None,
            pairs=pairs,
            test=experiment.table.test,
            correction=experiment.table.correction,
            alpha=_ALPHA,
            resamples=_PERMUTATIONS if experiment.table.resamples is None else experiment.table.resamples,
            seed=experiment.table.seed,
        )
    except InvalidInput as error:
        return (), (f"not compared: {error}",)
    return compared, lacking


def list_pairs(planned: Sequence[Planned], baseline: str) -> Iterator[tuple[str, str]]:
    """Yield the pairs to compare, none twice.

    Each system with the baseline and with the same retriever on the first chunking, each blend with its parts.
    """
    names = {each.name for each in planned}
    first_by_retriever: dict[str, str] = {}
    for each in planned:
        first = first_by_retriever.setdefault(each.retriever, each.name)
        # The baseline's parts are compared with it already
        others = dict.fromkeys((baseline, first, *each.part_names)) if each.name != baseline else ()
        yield from ((each.name, other) for other in others if other in names and other != each.name)
