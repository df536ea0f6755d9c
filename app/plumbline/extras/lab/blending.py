"""Fuse the runs of several retrievers, timed, with weights tuned on held-out folds where asked."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from plumbline.extras.lab.experiment import Blend
from plumbline.extras.lab.results import Tuned
from plumbline.retrieval.conventions import Conventions
from plumbline.retrieval.fuse import fuse, tune_weights
from plumbline.retrieval.measure import parse_measures
from plumbline.retrieval.report import tuning_objective
from plumbline.retrieval.run import Qrels, Run


@dataclass(frozen=True, slots=True)
class Judged:
    """Judgments and settings by which weights are tuned."""

    qrels: Qrels
    conventions: Conventions
    seed: int


@dataclass(frozen=True, slots=True)
class Blended:
    """Run of a blend; `milliseconds` by query are the fusion's alone."""

    run: Run
    milliseconds: Mapping[str, float]
    tuned: Tuned | None
    warnings: tuple[str, ...]


def blend_runs(blend: Blend, runs: Sequence[Run], *, name: str, depth: int, judged: Judged) -> Blended:
    """Fuse the parts' runs, in the order of `blend.parts`.

    With `tune`, each query is fused with the weights that were chosen without its fold: the run's score is the
    held-out one. Queries without judgments take the weights chosen on all.

    Raises:
        InvalidInput: what `fuse` and `tune_weights` refuse.
    """
    if blend.tune is None:
        fusion = fuse(runs, depth=depth, name=name, **blend.recipe())
        run, milliseconds = _by_query(blend, runs, name=name, depth=depth, weights={})
        return Blended(run, milliseconds, None, fusion.warnings)
    measure = str(parse_measures([blend.tune])[0])
    # A query that the parts find nothing for counts, whatever it does in the table
    conventions = replace(judged.conventions, missing_queries="zero", no_relevant="zero")
    tuning = tune_weights(
        runs,
        tuning_objective(judged.qrels, measure, conventions=conventions),
        query_ids=list(judged.qrels),
        **{name: value for name, value in blend.recipe().items() if name != "weights"},
        depth=depth,
        folds=blend.folds,
        step=blend.step,
        seed=judged.seed,
    )
    held_out = {
        query: tuning.fold_weights[place % len(tuning.fold_weights)] for place, query in enumerate(tuning.query_ids)
    }
    warnings = fuse(runs, depth=depth, **{**blend.recipe(), "weights": tuning.weights}).warnings
    weights = {query: held_out.get(query, tuning.weights) for run in runs for query in run.results}
    run, milliseconds = _by_query(blend, runs, name=name, depth=depth, weights=weights)
    tuned = Tuned(
        measure=measure,
        folds=len(tuning.fold_weights),
        weights=dict(zip(blend.parts, tuning.weights, strict=True)),
        fold_weights=tuple(dict(zip(blend.parts, each, strict=True)) for each in tuning.fold_weights),
        in_sample_score=tuning.in_sample_score,
        held_out_score=tuning.held_out_score,
        equal_score=tuning.equal_score,
    )
    return Blended(run, milliseconds, tuned, warnings)


def _by_query(
    blend: Blend, runs: Sequence[Run], *, name: str, depth: int, weights: Mapping[str, Sequence[float]]
) -> tuple[Run, dict[str, float]]:
    """Fuse each query by itself under the clock, as a service would; a warm-up query goes first."""
    results, milliseconds = {}, {}
    queries = list(dict.fromkeys(query for run in runs for query in run.results))
    for query in (*queries[:1], *queries):
        alone = [Run(run.name, {query: run.results[query]} if query in run.results else {}) for run in runs]
        recipe = blend.recipe() if query not in weights else {**blend.recipe(), "weights": weights[query]}
        started = time.perf_counter()
        fused = fuse(alone, depth=depth, **recipe).run.results
        milliseconds[query] = 1_000 * (time.perf_counter() - started)
        results[query] = fused[query]
    return Run(name, results), milliseconds
