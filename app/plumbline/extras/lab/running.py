"""Run an experiment, or resume it: a system with the same settings and documents as before is not measured again."""

import gc
import hashlib
import math
import os
import platform
import shutil
import sys
import time
import traceback
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import msgspec

from plumbline.extras.lab.chunkings import Chunk
from plumbline.extras.lab.corpus import Corpus, Query
from plumbline.extras.lab.experiment import Blend, Experiment, Planned
from plumbline.extras.lab.results import RESULTS, Built, CorpusFacts, ExperimentResults, System, read_json, write_json
from plumbline.extras.lab.retriever import Hits, Retriever
from plumbline.ground.errors import InvalidInput, PlumblineError
from plumbline.ground.files import locked, replace_file
from plumbline.retrieval.comparison import RunComparison, RunReport, compare_reports, report_runs, summarise_latency
from plumbline.retrieval.conventions import build_conventions
from plumbline.retrieval.fusion import fuse
from plumbline.retrieval.inputs import read_run
from plumbline.retrieval.measure import parse_measures
from plumbline.retrieval.run import Qrels, Run
from plumbline.retrieval.trec import format_run

# The defaults of `plumbline retrieval evaluate` and `plumbline retrieval compare`.
_RESAMPLES: Final = 1_000
_PERMUTATIONS: Final = 10_000
_ALPHA: Final = 0.05
_FOLDERS: Final = ("runs", "qrels", "systems", "logs", "work")
_PROCESSORS: Final = Path("/proc/cpuinfo")


class ProgressReporter(Protocol):
    """Receiver of an experiment's progress. `name`: a system or a corpus."""

    def begin(self, systems: int) -> None: ...

    def stage(self, name: str, stage: str) -> None: ...

    def done(self, name: str, *, was_there: bool) -> None: ...

    def failed(self, name: str, detail: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Measured:
    """Record of a measured system, beside its run file. `digest`: of its settings and documents."""

    digest: str
    milliseconds: Mapping[str, float]
    built: Built | None
    warnings: tuple[str, ...]
    machine: Mapping[str, str]


def run_experiment(
    experiment: Experiment,
    *,
    name: str,
    base: Path,
    out: Path,
    progress: ProgressReporter,
    only: Collection[str] = (),
    fresh: bool = False,
) -> ExperimentResults:
    """Measure all systems that are not measured yet, and return the results of all that are.

    Args:
        name: of the experiment in the results.
        base: folder that the paths of the file are relative to.
        out: the results folder; one process at a time.
        only: systems, or parts of their names, with the parts of their blends; all when empty.
        fresh: measure again.

    Raises:
        InvalidInput: a corpus cannot be read or a file not written. A system that fails raises nothing: `failures` of
            the results names it.
    """
    systems = list(experiment.systems())
    for word in only:
        if not any(each.goes_by(word) for each in systems):
            known = ", ".join((*experiment.retrievers, *experiment.blends))
            raise InvalidInput(f"there is no system {word[:80]!r}; known are {known}", place="--only")
    meant = [each for each in systems if not only or any(map(each.goes_by, only))]
    parts = {part for each in meant for part in each.part_names}
    chosen = [each for each in systems if each in meant or each.name in parts]
    place = out.name or str(out)
    try:
        out.mkdir(parents=True, exist_ok=True)
        with locked(out / "lock", place=place, busy="another process works on this experiment"):
            if not (out / "systems").exists() and any(each.name != "lock" for each in out.iterdir()):
                raise InvalidInput("holds other files than a lab's results; name another folder", place=place)
            for folder in _FOLDERS:
                (out / folder).mkdir(exist_ok=True)
            return _Run(experiment, base, out, progress).results(
                systems, {each.name for each in chosen}, name=name, fresh=fresh
            )
    except OSError as error:
        raise InvalidInput(f"cannot be written ({error.strerror})", place=place) from error


class _Run:
    def __init__(self, experiment: Experiment, base: Path, out: Path, progress: ProgressReporter) -> None:
        self._experiment, self._base, self._out, self._progress = experiment, base, out, progress
        self._machine = this_machine()
        self._measured: dict[str, Measured] = {}
        self._runs: dict[str, Run] = {}
        self._failures: dict[str, str] = {}

    def results(
        self, systems: Sequence[Planned], chosen: Collection[str], *, name: str, fresh: bool
    ) -> ExperimentResults:
        # A retriever of the user's own lies next to the experiment file
        if str(self._base) not in sys.path:
            sys.path.append(str(self._base))
        self._progress.begin(len(chosen))
        facts: dict[str, CorpusFacts] = {}
        rows: list[System] = []
        comparisons: list[RunComparison] = []
        for corpus_name, settings in self._experiment.corpora.items():
            self._progress.stage(corpus_name, "reading")
            try:
                corpus = settings.read(self._base)
            except InvalidInput as error:
                raise InvalidInput(str(error), place=f"corpora.{corpus_name}") from error
            qrels_file = f"qrels/{corpus_name}.qrels"
            _write_qrels(self._out / qrels_file, corpus.qrels)
            facts[corpus_name] = CorpusFacts(
                len(corpus.documents), len(corpus.queries), corpus.unjudged, corpus.judged_elsewhere, qrels_file
            )
            digest = _digest(corpus.documents, corpus.queries, corpus.qrels)
            of_corpus = [each for each in systems if each.corpus == corpus_name]
            for planned in of_corpus:
                self._take(planned, corpus, digest, is_chosen=planned.name in chosen, fresh=fresh)
            self._progress.stage(corpus_name, "evaluating")
            done = [each for each in of_corpus if each.name in self._runs]
            more_rows, more_comparisons = self._evaluate(done, corpus.qrels)
            rows += more_rows
            comparisons += more_comparisons
        results = ExperimentResults(
            name=name,
            measures=tuple(map(str, parse_measures(self._experiment.experiment.measures))),
            baseline=self._experiment.baseline,
            systems=tuple(rows),
            comparisons=tuple(comparisons),
            settings=self._experiment.model_dump(mode="json"),
            machine=self._machine,
            corpora=facts,
            failures=self._failures,
        )
        write_json(self._out / RESULTS, results)
        return results

    def _take(self, planned: Planned, corpus: Corpus, corpus_digest: str, *, is_chosen: bool, fresh: bool) -> None:
        """Load the system, or measure it if it is chosen; note its failure."""
        name, table = planned.name, self._experiment.experiment
        chunking, settings = self._experiment.chunkings[planned.chunking], None
        if not planned.parts:
            settings = self._experiment.retrievers[planned.retriever]
            digest = _digest(corpus_digest, chunking.model_dump(), settings.model_dump(), table.depth)
            record, run_file = self._out / "systems" / f"{name}.json", self._out / "runs" / f"{name}.run"
            found = read_json(record, Measured) if record.exists() and run_file.exists() else None
            if found is not None and found.digest == digest and not (fresh and is_chosen):
                self._measured[name], self._runs[name] = found, _load_run(run_file, name)
                if is_chosen:
                    self._progress.done(name, was_there=True)
                return
        if not is_chosen:
            return
        try:
            if settings is None:
                blend = self._experiment.blends[planned.retriever]
                run, measured = self._blend(planned, blend, table.depth)
            else:
                self._progress.stage(name, "cutting")
                chunks = [chunk for document in corpus.documents for chunk in chunking.cut(document)]
                record.unlink(missing_ok=True)
                # What libraries print is no part of the table
                with redirect_stdout(sys.stderr):
                    run, measured = self._measure(planned, settings, chunks, corpus.queries, digest)
        except Exception as error:
            # A retriever may be the user's own, with any error
            detail = str(error)
            if not isinstance(error, PlumblineError):
                (self._out / "logs" / f"{name}.log").write_text(traceback.format_exc(), encoding="utf-8")
                detail = f"{type(error).__name__}: {' '.join(detail.split())[:300]} (see logs/{name}.log)"
            self._failures[name] = detail
            self._progress.failed(name, detail)
            return
        self._measured[name], self._runs[name] = measured, run
        replace_file(self._out / "runs" / f"{name}.run", "".join(format_run(run)).encode(), mode=0o666)
        write_json(self._out / "systems" / f"{name}.json", measured)
        self._progress.done(name, was_there=False)

    def _measure(
        self, planned: Planned, settings: "_Settings", chunks: Sequence[Chunk], queries: Sequence[Query], digest: str
    ) -> tuple[Run, Measured]:
        """Build and search a retriever under the clock, one query at a time; a warm-up query goes first."""
        index = self._out / "work" / planned.name
        # A killed process leaves its index behind
        shutil.rmtree(index, ignore_errors=True)
        index.mkdir()
        self._progress.stage(planned.name, "building")
        started = time.perf_counter()
        retriever = settings.make()
        loaded = time.perf_counter()
        # Objects that exist already stay out of the garbage collections that are measured
        gc.collect()
        gc.freeze()
        try:
            begun = time.perf_counter()
            facts = retriever.build(chunks, index)
            built = Built(facts, loaded - started, time.perf_counter() - begun)
            self._progress.stage(planned.name, "searching")
            depth = self._experiment.experiment.depth
            run, milliseconds, short = _search(retriever, chunks, queries, planned.name, depth)
        finally:
            retriever.close()
            gc.unfreeze()
            shutil.rmtree(index, ignore_errors=True)
        warnings = list(facts.warnings)
        if short:
            warnings.append(
                f"{short} of {len(queries)} queries have fewer documents than asked for: others' chunks came first"
            )
        if not any(run.results.values()):
            warnings.append("nothing was found for any query; it scores 0 wherever it counts")
        return run, Measured(digest, milliseconds, built, tuple(warnings), self._machine)

    def _blend(self, planned: Planned, blend: Blend, depth: int) -> tuple[Run, Measured]:
        """Fuse each query by itself under the clock; the parts are asked one after the other."""
        if lacking := [part for part in planned.part_names if part not in self._runs]:
            raise InvalidInput(f"there is no {' and no '.join(lacking)} to blend")
        self._progress.stage(planned.name, "blending")
        runs = [self._runs[part] for part in planned.part_names]
        fusion = fuse(runs, depth=depth, name=planned.name, **blend.recipe())
        parts = [self._measured[part] for part in planned.part_names]
        queries = list(parts[0].milliseconds)
        milliseconds = {}
        for query in (*queries[:1], *queries):
            alone = [Run(run.name, {query: run.results.get(query, {})}) for run in runs]
            started = time.perf_counter()
            fuse(alone, depth=depth, **blend.recipe())
            taken = 1_000 * (time.perf_counter() - started)
            milliseconds[query] = taken + sum(part.milliseconds[query] for part in parts)
        return fusion.run, Measured("", milliseconds, None, tuple(fusion.warnings), self._machine)

    def _evaluate(self, done: Sequence[Planned], qrels: Qrels) -> tuple[list[System], Sequence[RunComparison]]:
        table, conventions = self._experiment.experiment, self._experiment.conventions
        reports = report_runs(
            qrels,
            [self._runs[each.name] for each in done],
            measures=parse_measures(table.measures),
            conventions=build_conventions(table.preset, **conventions),
            resamples=_RESAMPLES if table.resamples is None else table.resamples,
            seed=table.seed,
        )
        comparisons, trouble = self._compare(done, reports)
        rows = []
        for planned, report in zip(done, reports, strict=True):
            measured = self._measured[planned.name]
            warnings = (*measured.warnings, *report.evaluation.warnings, *trouble)
            if measured.machine != self._machine:
                warnings = ("timed on another machine than the results name; use --fresh to measure again", *warnings)
            rows.append(
                System(
                    name=planned.name,
                    corpus=planned.corpus,
                    chunking=planned.chunking,
                    retriever=planned.retriever,
                    parts=planned.parts,
                    run_file=f"runs/{planned.name}.run",
                    measures=report.summary_by_measure,
                    latency=summarise_latency(measured.milliseconds.values()),
                    built=measured.built,
                    warnings=warnings,
                )
            )
        return rows, comparisons

    def _compare(
        self, done: Sequence[Planned], reports: Sequence[RunReport]
    ) -> tuple[Sequence[RunComparison], tuple[str, ...]]:
        """Return the comparisons of a corpus, and a warning if there are none though there could be."""
        table = self._experiment.experiment
        if not done:
            return (), ()
        baseline = f"{done[0].corpus}.{next(iter(self._experiment.chunkings))}.{self._experiment.baseline}"
        lacking = () if baseline in self._runs else (f"the baseline {baseline} has no run",)
        if not (pairs := list(list_pairs(done, baseline))):
            return (), lacking
        try:
            compared = compare_reports(
                reports,
                pairs=pairs,
                test=table.test,
                correction=table.correction,
                alpha=_ALPHA,
                resamples=_PERMUTATIONS if table.resamples is None else table.resamples,
                seed=table.seed,
            )
        except InvalidInput as error:
            return (), (f"not compared: {error}",)
        return compared, lacking


class _Settings(Protocol):
    def make(self) -> Retriever: ...


def _search(
    retriever: Retriever, chunks: Sequence[Chunk], queries: Sequence[Query], name: str, depth: int
) -> tuple[Run, dict[str, float], int]:
    """Return the run of documents, milliseconds by query, and the number of queries cut off below `depth`.

    Each query asks for as many chunks as `depth` documents have on average.
    """
    document_of = {chunk.id: chunk.document_id for chunk in chunks}
    documents = len(set(document_of.values()))
    k = min(len(chunks), math.ceil(depth * len(chunks) / documents))
    retriever.search(queries[0].text, k)
    results, milliseconds, short = {}, {}, 0
    for query in queries:
        started = time.perf_counter()
        hits = retriever.search(query.text, k)
        milliseconds[query.id] = 1_000 * (time.perf_counter() - started)
        best = _best_scores(hits, document_of)
        short += len(hits) >= k and len(best) < min(depth, documents)
        # Of equal scores the later id comes first, as in trec_eval
        ranked = sorted(best.items(), key=lambda each: (each[1], each[0].encode()), reverse=True)
        results[query.id] = dict(ranked[:depth])
    return Run(name, results), milliseconds, short


def _best_scores(hits: Hits, document_of: Mapping[str, str]) -> dict[str, float]:
    best: dict[str, float] = {}
    for chunk_id, score in hits:
        document, value = document_of.get(chunk_id), float(score)
        if document is None or not math.isfinite(value):
            wrong = "a chunk that was not indexed" if document is None else f"the score {value}"
            raise InvalidInput(f"the retriever gave {wrong}, {chunk_id[:40]!r}")
        best[document] = max(value, best.get(document, -math.inf))
    return best


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


def this_machine() -> dict[str, str]:
    """Return processor, usable cores, system and Python."""
    try:
        lines = _PROCESSORS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return {
        "processor": named or platform.processor() or "unknown",
        "cores": str(cores),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def _digest(*values: object) -> str:
    return hashlib.sha256(msgspec.json.encode(values, order="sorted")).hexdigest()


def _load_run(path: Path, name: str) -> Run:
    # A query without documents leaves no line, and an empty file is a run that found nothing
    return Run(name, read_run(path, name=path.name).run.results if path.stat().st_size else {})


def _write_qrels(path: Path, qrels: Qrels) -> None:
    lines = (f"{query} 0 {document} {grade}\n" for query, judged in qrels.items() for document, grade in judged.items())
    replace_file(path, "".join(lines).encode(), mode=0o666)
