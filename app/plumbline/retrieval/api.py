"""Retrieval measures as plain functions: `plumbline.retrieval.evaluate`, `compare` and `fuse`.

Judgments and runs are mappings, lists, frames of pandas or polars, or paths of files; every convention is a keyword.
"""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from plumbline.ground.errors import InvalidInput
from plumbline.ground.texts import CodedText
from plumbline.retrieval.comparison import RunComparison, compare_reports, report_runs
from plumbline.retrieval.conventions import build_conventions
from plumbline.retrieval.evaluation import evaluate as evaluate_run
from plumbline.retrieval.evaluation import refuse_disjoint
from plumbline.retrieval.fusion import fuse as fuse_runs
from plumbline.retrieval.fusion import tune_weights
from plumbline.retrieval.input_rows import name_of
from plumbline.retrieval.inputs import read_qrels, read_run
from plumbline.retrieval.measure import parse_measures

Values = dict[str, float | None] | dict[str, dict[str, float]]


def evaluate(
    qrels: Any,
    run: Any,
    measures: str | Sequence[str] = "ndcg@10",
    *,
    preset: str = "trec_eval",
    per_query: bool = False,
    candidates: Mapping[str, Sequence[str]] | None = None,
    append_missing: bool = False,
    lengths: Mapping[str, float] | None = None,
    alternatives: bool = False,
    allow_disjoint: bool = False,
    **conventions: Any,
) -> float | Values | None:
    """Return the mean of one measure, or of several by name; with `per_query` the values by measure and query.

    Args:
        qrels: `{"q1": {"d1": 2}}`, `{"q1": ["d1"]}`, rows with columns, a frame, or the path of a file.
        run: `{"q1": {"d1": 0.9}}`, `{"q1": ["d1"]}` best first, `{"q1": "1. d1"}` by an LLM, answers of
            Elasticsearch by query, rows with columns, a frame, or the path of a file.
        preset: `trec_eval`, `pytrec_eval`, `beir`, `ragas_id`, `seed-0` to `seed-4`.
        candidates: the ids that an LLM could choose from, by query.
        append_missing: candidates that an LLM leaves out follow its ranking, as in RankLLM.
        lengths: tokens by document, for `recall_budget`.
        alternatives: a list among relevant ids names documents of which one is enough.
        allow_disjoint: measure a run that has no query or no document in common with the judgments.
        conventions: what differs from the preset: `rel_level`, `judged_only`, `ties`, `id_rule`, ... (`Conventions`).

    Warns with what the caller may not have meant, such as scores that rise as distances do.

    Raises:
        InvalidInput: a measure, convention, grade, score, id or line that cannot be read, or nothing in common.
    """
    asked = parse_measures([measures] if isinstance(measures, str) else measures)
    resolved = build_conventions(preset, **conventions)
    judged = read_qrels(qrels, alternatives=alternatives)
    read = read_run(run, name=name_of(run) or "run", candidates=candidates, append_missing=append_missing)
    found = evaluate_run(judged.qrels, judged.apply(read.run), asked, conventions=resolved, lengths=lengths)
    if not allow_disjoint:
        refuse_disjoint(found)
    _warn((*judged.warnings, *read.warnings, *found.warnings))
    if per_query:
        values = {name: dict(zip(found.query_ids, each.tolist(), strict=True)) for name, each in found.values.items()}
        return values[str(asked[0])] if isinstance(measures, str) and len(asked) == 1 else values
    return found.means[str(asked[0])] if isinstance(measures, str) and len(asked) == 1 else dict(found.means)


def compare(
    qrels: Any,
    runs: Mapping[str, Any] | Sequence[str | Path],
    measures: str | Sequence[str] = "ndcg@10",
    *,
    preset: str = "trec_eval",
    baseline: str | None = None,
    test: str = "randomization",
    correction: str = "holm",
    alpha: float = 0.05,
    resamples: int = 10_000,
    seed: int = 0,
    alternatives: bool = False,
    allow_disjoint: bool = False,
    **conventions: Any,
) -> tuple[RunComparison, ...]:
    """Return the comparison of every pair of runs, or of each with the baseline, by every measure.

    `runs`: by name, each as in `evaluate`; or paths. The rest is as in `evaluate` and `RunComparison`.

    Raises:
        InvalidInput: as `evaluate`; fewer than two runs.
    """
    named = runs if isinstance(runs, Mapping) else name_files(runs)
    judged, read = (
        read_qrels(qrels, alternatives=alternatives),
        [read_run(run, name=name) for name, run in named.items()],
    )
    reports = report_runs(
        judged.qrels,
        [judged.apply(each.run) for each in read],
        measures=parse_measures([measures] if isinstance(measures, str) else measures),
        conventions=build_conventions(preset, **conventions),
        resamples=0,
        seed=seed,
        allow_disjoint=allow_disjoint,
    )
    _warn(judged.warnings)
    _warn([f"{each.run.name}: {line}" for each in read for line in each.warnings])
    _warn([f"{each.name}: {line}" for each in reports for line in each.evaluation.warnings])
    return compare_reports(
        reports, baseline=baseline, test=test, correction=correction, alpha=alpha, resamples=resamples, seed=seed
    )


def fuse(
    runs: Mapping[str, Any] | Sequence[Any],
    method: str = "rrf",
    *,
    norm: str | None = None,
    weights: Sequence[float] | None = None,
    missing: str = "zero",
    ties: str = "docno_desc",
    depth: int | None = None,
    tune_on: Any = None,
    measure: str = "ndcg@10",
    preset: str = "trec_eval",
    conventions: Mapping[str, Any] | None = None,
    folds: int = 5,
    step: float = 0.1,
    seed: int = 0,
    **params: float,
) -> dict[str, dict[str, float]]:
    """Return the scores of several runs fused into one, best first.

    Args:
        norm: `min-max` unless the method reads ranks alone.
        tune_on: judgments on which `weights` are tuned by `measure`, k-fold over queries.
        conventions: what differs from the preset, as in `evaluate`.
        params: of the method, such as `k` of rrf (60).

    Raises:
        InvalidInput: an argument is out of its range.
    """
    named = runs if isinstance(runs, Mapping) else {f"run {place}": run for place, run in enumerate(runs, start=1)}
    read = [read_run(run, name=name).run for name, run in named.items()]
    recipe: dict[str, Any] = {"method": method, "norm": norm, "params": params, "missing": missing}
    recipe |= {"ties": ties, "depth": depth, "weights": weights}
    if tune_on is not None:
        resolved = build_conventions(preset, **(conventions or {}))
        judged = read_qrels(tune_on).qrels
        recipe["weights"] = tune_weights(
            read, judged, measure, conventions=resolved, folds=folds, step=step, seed=seed, **recipe
        ).weights
    fusion = fuse_runs(read, **recipe)
    _warn(fusion.warnings)
    return {query: dict(scores) for query, scores in fusion.run.results.items() if isinstance(scores, Mapping)}


def name_files(paths: Sequence[str | Path], *, is_repeatable: bool = False) -> dict[str, Path]:
    """Return paths by their file name; those of one name with as many folders as tell them apart.

    Raises:
        InvalidInput: a file is given twice, unless `is_repeatable`.
    """
    parts = [Path(path).parts for path in paths]
    named: dict[str, Path] = {}
    for path, own in zip(paths, parts, strict=True):
        others = [each for each in parts if each != own]
        depth = next(
            (size for size in range(1, len(own) + 1) if all(each[-size:] != own[-size:] for each in others)), len(own)
        )
        name = "/".join(own[-depth:])
        if name in named and not is_repeatable:
            raise InvalidInput(CodedText("runs_of_one_name", name=name))
        named[name if name not in named else f"{name} {len(named) + 1}"] = Path(path)
    return named


def _warn(lines: Sequence[str]) -> None:
    for line in lines:
        warnings.warn(line, UserWarning, stacklevel=3)
