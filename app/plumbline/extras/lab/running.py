"""Run an experiment, or resume it: corpora, retrievers, blends, answers, results.

Steps are idempotent: a finished step has its outcome on the disk and is skipped, an interrupted one starts over.
Digests of a step's inputs are stored with it: results of other settings are refused, never mixed.
"""

import hashlib
import shutil
import sys
import time
import traceback
from collections.abc import Collection, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

import msgspec

from plumbline.extras.lab.answers import answer_figures
from plumbline.extras.lab.corpus import Corpus
from plumbline.extras.lab.evaluating import evaluate_experiment
from plumbline.extras.lab.experiment import Blend, Experiment, Planned, ProgressReporter
from plumbline.extras.lab.folder import (
    RESULTS,
    Outcome,
    ResultsFolder,
    json_digest,
    load_run,
    write_json,
    write_qrels,
    write_run,
)
from plumbline.extras.lab.measuring import measure, this_machine
from plumbline.extras.lab.results import CorpusFacts, ExperimentResults, Tuned
from plumbline.ground.errors import InvalidInput, PlumblineError
from plumbline.ground.files import replace_file, sha256_of
from plumbline.retrieval.compare import tune_by_measure
from plumbline.retrieval.conventions import Conventions
from plumbline.retrieval.fuse import fuse
from plumbline.retrieval.inputs import read_qrels
from plumbline.retrieval.measure import parse_measures
from plumbline.retrieval.run import Qrels, Run


@dataclass(frozen=True, slots=True)
class Choice:
    """Selection of systems to run. `only`: systems, or parts of their names; all when empty. `fresh`: measure again."""

    only: tuple[str, ...] = ()
    fresh: bool = False


def run_experiment(
    experiment: Experiment, *, source: bytes, out: Path, choice: Choice, progress: ProgressReporter
) -> ExperimentResults:
    """Run all systems that are not done yet, and return the results of all that are.

    Args:
        source: the experiment file, copied to the results.
        out: the results' folder; one process at a time.

    Raises:
        InvalidInput: a corpus cannot be read, the folder holds results of other settings, the disk is full. A system
            that fails raises nothing: `failures` of the results names it.
    """
    # A user's own retriever lies next to the experiment file
    if (base := str(experiment.base)) not in sys.path:
        sys.path.append(base)
    systems = list(experiment.systems())
    for name in choice.only:
        if not any(each.goes_by(name) for each in systems):
            known = ", ".join((*experiment.retrievers, *experiment.blends))
            raise InvalidInput(f"there is no system {name[:80]!r}; known are {known}", place="--only")
    meant = [each for each in systems if not choice.only or any(map(each.goes_by, choice.only))]
    parts = {part for each in meant for part in each.part_names}
    chosen = [each for each in systems if each in meant or each.name in parts]
    folder = ResultsFolder(out)
    with folder.held(fresh=choice.fresh and not choice.only):
        if choice.fresh:
            for planned in chosen:
                folder.forget(planned.name)
        return _Run(experiment, folder, progress).results(source, chosen)


class _Run:
    def __init__(self, experiment: Experiment, folder: ResultsFolder, progress: ProgressReporter) -> None:
        self._experiment = experiment
        self._folder = folder
        self._progress = progress
        self._machine = this_machine()
        self._facts: dict[str, CorpusFacts] = {}
        self._done: dict[Planned, Outcome] = {}
        self._failures: dict[str, str] = {}
        self._settings = experiment.settings()
        # Systems come by corpus, and corpora may be large: one is held at a time
        self._read = lru_cache(maxsize=1)(self._read_corpus)

    def results(self, source: bytes, chosen: Collection[Planned]) -> ExperimentResults:
        replace_file(self._folder.experiment, source, mode=0o666)
        for corpus in self._experiment.corpora:
            self._facts[corpus] = self._corpus_facts(corpus)
        self._find_done()
        self._progress.steps(len(chosen))
        for planned in chosen:
            was_there = planned in self._done
            detail = None
            if not was_there:
                detail = self._blended(planned) if planned.parts else self._measured(planned)
            if detail is None:
                self._progress.done(planned.name, was_there=was_there)
            else:
                self._failures[planned.name] = detail
                self._progress.failed(planned.name, detail)
        answers, unanswered = answer_figures(
            self._experiment, self._folder, list(self._done), read=self._read, progress=self._progress
        )
        self._progress.stage("all", "evaluating")
        results = evaluate_experiment(
            self._experiment,
            self._folder,
            done={each: self._done[each] for each in self._experiment.systems() if each in self._done},
            corpora=self._facts,
            answers=answers,
            failures={**self._failures, **unanswered},
            machine=self._machine,
        )
        write_json(self._folder.root / RESULTS, results)
        return results

    def _read_corpus(self, name: str) -> Corpus:
        self._progress.stage(name, "reading")
        return self._experiment.corpora[name].read(name, self._experiment.base)

    def _corpus_facts(self, name: str) -> CorpusFacts:
        corpus = self._read(name)
        if corpus.unjudged == len(corpus.queries):
            raise InvalidInput("no query has a judgment", place=f"corpora.{name}")
        digest, encode = hashlib.sha256(), msgspec.json.Encoder().encode
        for document in corpus.documents:
            digest.update(encode([document.id, list(document.fields.items())]))
        for query in corpus.queries:
            digest.update(encode([query.id, query.text]))
        digest.update(encode(corpus.qrels))
        # The judgments stay in the work folder until `_find_done` accepts them
        write_qrels(self._folder.work / f"{name}.qrels", corpus.qrels)
        return CorpusFacts(
            documents=len(corpus.documents),
            queries=len(corpus.queries),
            unjudged=corpus.unjudged,
            judged_elsewhere=corpus.judged_elsewhere,
            qrels_file=self._folder.qrels(name).relative_to(self._folder.root).as_posix(),
            digest=digest.hexdigest(),
        )

    def _find_done(self) -> None:
        """Collect the outcomes of earlier runs; InvalidInput where settings or documents were others."""
        names: set[str] = set()
        for planned in self._experiment.systems():
            outcome = self._folder.outcome(planned.name)
            if outcome is None or any(part not in names for part in planned.part_names):
                continue
            made_of = self._made_of(planned)
            if planned.parts and outcome.made_of != made_of:
                # Made of runs in seconds, so it is made again
                continue
            changed = [key for key, digest in made_of.items() if outcome.made_of.get(key) != digest]
            if changed:
                place = self._folder.root.name
                detail = f"holds results of {planned.name} with another {' and another '.join(changed)}"
                raise InvalidInput(f"{detail}; name another folder, or --fresh measures again", place=place)
            self._done[planned] = outcome
            names.add(planned.name)
        for corpus in self._experiment.corpora:
            qrels = self._folder.qrels(corpus)
            (self._folder.work / qrels.name).replace(qrels)

    def _made_of(self, planned: Planned) -> dict[str, str]:
        table, settings = self._experiment.table, self._settings
        corpus = {f"corpora.{planned.corpus}": self._facts[planned.corpus].digest}
        depth = {"experiment.depth": str(table.depth)}
        if not planned.parts:
            named = {"chunkings": planned.chunking, "retrievers": planned.retriever}
            digests = {f"{title}.{name}": json_digest(settings[title][name]) for title, name in named.items()}
            return {**corpus, **digests, **depth}
        blend = {f"blends.{planned.retriever}": json_digest(settings["blends"][planned.retriever])}
        parts = {part: sha256_of(self._folder.run(part)) for part in planned.part_names}
        judged = {"conventions": json_digest(settings["conventions"]), "seed": str(table.seed)}
        return {**corpus, **blend, **parts, **depth, **judged}

    def _measured(self, planned: Planned) -> str | None:
        """Return the reason of a failure; None if the system is done."""
        name, tell = planned.name, partial(self._progress.stage, planned.name)
        self._folder.forget(name)
        tell("cutting")
        corpus = self._read(planned.corpus)
        index = self._folder.work / name
        index.mkdir()
        try:
            cut = self._experiment.chunkings[planned.chunking].prepare()
            chunks = [chunk for document in corpus.documents for chunk in cut(document)]
            # What libraries print is no part of the table
            with redirect_stdout(sys.stderr):
                found = measure(
                    self._experiment.retrievers[planned.retriever].make,
                    chunks=chunks,
                    queries=corpus.queries,
                    depth=self._experiment.table.depth,
                    name=name,
                    index=index,
                    tell=tell,
                )
        except PlumblineError as error:
            return str(error)
        except Exception as error:
            # A retriever may be the user's own, with whatever errors it has
            self._folder.log(name).write_text(traceback.format_exc(), encoding="utf-8")
            return f"{type(error).__name__}: {' '.join(str(error).split())[:300]} (see logs/{name}.log)"
        finally:
            shutil.rmtree(index, ignore_errors=True)
        write_run(self._folder.run(name), found.run)
        if found.chunk_run is not None:
            write_run(self._folder.chunk_run(name), found.chunk_run)
        write_json(self._folder.latency(name), found.milliseconds)
        self._keep(planned, Outcome(self._made_of(planned), "", built=found.built, warnings=found.warnings))
        return None

    def _blended(self, planned: Planned) -> str | None:
        """Return the reason of a failure; None if the blend is done."""
        lacking = [part for part in planned.part_names if part not in {each.name for each in self._done}]
        if lacking:
            return f"there is no {' and no '.join(lacking)} to blend"
        self._folder.forget(planned.name)
        self._progress.stage(planned.name, "blending")
        table = self._experiment.table
        qrels = read_qrels(self._folder.qrels(planned.corpus))
        try:
            found = blend_runs(
                self._experiment.blends[planned.retriever],
                [load_run(self._folder.run(part), name=part) for part in planned.part_names],
                name=planned.name,
                depth=table.depth,
                judged=Judged(qrels, self._experiment.conventions, table.seed),
            )
        except InvalidInput as error:
            return str(error)
        write_run(self._folder.run(planned.name), found.run)
        # The parts are asked one after the other
        parts = [self._folder.milliseconds(part) for part in planned.part_names]
        milliseconds = {q: sum(part[q] for part in parts) + found.milliseconds.get(q, 0.0) for q in parts[0]}
        write_json(self._folder.latency(planned.name), milliseconds)
        empty = () if any(found.run.results.values()) else ("nothing was found for any query",)
        self._keep(planned, Outcome(self._made_of(planned), "", tuned=found.tuned, warnings=(*found.warnings, *empty)))
        return None

    def _keep(self, planned: Planned, outcome: Outcome) -> None:
        kept = replace(outcome, run_digest=sha256_of(self._folder.run(planned.name)), machine=self._machine)
        write_json(self._folder.step(planned.name), kept)
        self._done[planned] = kept


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
    grid = {"folds": blend.folds, "step": blend.step, "seed": judged.seed}
    tuning = tune_by_measure(
        runs, judged.qrels, measure, conventions=conventions, depth=depth, **grid, **blend.recipe()
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
