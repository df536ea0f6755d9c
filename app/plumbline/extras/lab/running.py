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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import msgspec

from plumbline.extras.lab.corpus import Chunk, Corpus, parse_chunking
from plumbline.extras.lab.experiment import AnyRetriever, Experiment, PlannedSystem
from plumbline.extras.lab.results import RESULTS, ExperimentResults, System, format_table, read_json, write_json
from plumbline.extras.lab.retriever import IndexFacts, Retriever
from plumbline.ground.errors import InvalidInput, PlumblineError
from plumbline.ground.files import locked, replace_file
from plumbline.retrieval.comparison import RunComparison, RunReport, compare_reports, report_runs, summarise_latency
from plumbline.retrieval.conventions import build_conventions
from plumbline.retrieval.fusion import fuse
from plumbline.retrieval.inputs import read_run
from plumbline.retrieval.measure import parse_measures
from plumbline.retrieval.run import Run
from plumbline.retrieval.trec import format_run

# The defaults of `plumbline retrieval evaluate` and `plumbline retrieval compare`.
_RESAMPLES: Final = 1_000
_PERMUTATIONS: Final = 10_000
_ALPHA: Final = 0.05


@dataclass(frozen=True, slots=True)
class Measured:
    """Record of a measured system, in a file next to its run. `digest`: of its settings and documents."""

    digest: str
    milliseconds: Mapping[str, float]
    built: IndexFacts | None
    warnings: tuple[str, ...]


def run_experiment(
    experiment: Experiment, *, base: Path, out: Path, progress: Callable[[str], None]
) -> ExperimentResults:
    """Measure the systems that are not measured yet; return the results of all, and why others failed.

    Args:
        base: folder that the paths of the file are relative to.
        out: the results folder; one process at a time.
        progress: takes a line of what is done.

    Raises InvalidInput: the corpus cannot be read or a file not written.
    """
    # A retriever of the user's own lies next to the experiment file.
    if str(base) not in sys.path:
        sys.path.append(str(base))
    place = out.name or str(out)
    try:
        out.mkdir(parents=True, exist_ok=True)
        with locked(out / "lock", place=place, busy="another process works on this experiment"):
            if not (out / "systems").exists() and any(each.name != "lock" for each in out.iterdir()):
                raise InvalidInput("holds other files than a lab's results; name another folder", place=place)
            for folder in ("systems", "runs", "work"):
                (out / folder).mkdir(exist_ok=True)
            results = _ExperimentRun(experiment, experiment.corpus.read(base), out, progress).results(place)
            write_json(out / RESULTS, results)
            for form in ("csv", "html"):
                replace_file(out / f"table.{form}", format_table(results, form).encode(), mode=0o666)
            return results
    except OSError as error:
        raise InvalidInput(f"cannot be written ({error.strerror})", place=place) from error


@dataclass
class _ExperimentRun:
    experiment: Experiment
    corpus: Corpus
    out: Path
    progress: Callable[[str], None]
    measured: dict[str, tuple[Run, Measured]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def results(self, name: str) -> ExperimentResults:
        corpus, table = self.corpus, self.experiment.experiment
        judged = ((query, each, grade) for query, of in corpus.qrels.items() for each, grade in of.items())
        lines = "".join(f"{query} 0 {document} {grade}\n" for query, document, grade in judged)
        replace_file(self.out / "qrels.txt", lines.encode(), mode=0o666)
        digest = _digest(corpus.documents, corpus.queries, corpus.qrels)
        for planned in self.experiment.systems():
            self._take(planned, digest)
        done = [each for each in self.experiment.systems() if each.name in self.measured]
        measures = parse_measures(table.measures)
        reports = report_runs(
            corpus.qrels,
            [self.measured[each.name][0] for each in done],
            measures=measures,
            conventions=build_conventions(table.preset, **self.experiment.conventions),
            resamples=_RESAMPLES if table.resamples is None else table.resamples,
            seed=table.seed,
        )
        counts = {"documents": len(corpus.documents), "queries": len(corpus.queries)}
        return ExperimentResults(
            name=name,
            measures=tuple(map(str, measures)),
            systems=tuple(map(self._row, done, reports)),
            comparisons=self._compare(done, reports),
            settings=self.experiment.model_dump(mode="json"),
            machine={"system": platform.platform(), "cores": str(os.cpu_count()), "python": platform.python_version()},
            counts={**counts, "unjudged": corpus.unjudged, "judged_elsewhere": corpus.judged_elsewhere},
            failures=self.failures,
        )

    def _take(self, planned: PlannedSystem, corpus_digest: str) -> None:
        """Load the system, or measure it; note its failure."""
        name, settings = planned.name, self.experiment.retrievers.get(planned.retriever)
        record, run_file = self.out / "systems" / f"{name}.json", self.out / "runs" / f"{name}.run"
        depth = self.experiment.experiment.depth
        digest = "" if settings is None else _digest(corpus_digest, planned.chunking, settings.model_dump(), depth)
        found = read_json(record, Measured) if settings and run_file.exists() else None
        if found is not None and found.digest == digest:
            # A query without documents leaves no line, and an empty file is a run that found nothing.
            results = read_run(run_file, name=name).run.results if run_file.stat().st_size else {}
            self.measured[name] = Run(name, results), found
            self.progress(f"{name}: was there")
            return
        try:
            # The table stays apart from what libraries print.
            with redirect_stdout(sys.stderr):
                run, measured = self._measure(planned, settings, digest) if settings else self._blend(planned)
        except Exception as error:
            # A retriever may be the user's own, with any error.
            detail = str(error)
            if not isinstance(error, PlumblineError):
                (self.out / "systems" / f"{name}.log").write_text(traceback.format_exc(), encoding="utf-8")
                detail = f"{type(error).__name__}: {' '.join(detail.split())[:300]} (see systems/{name}.log)"
            self.failures[name] = detail
            return
        self.measured[name] = run, measured
        replace_file(run_file, "".join(format_run(run)).encode(), mode=0o666)
        write_json(record, measured)
        self.progress(f"{name}: done")

    def _measure(self, planned: PlannedSystem, settings: AnyRetriever, digest: str) -> tuple[Run, Measured]:
        """Build and search a retriever under the clock, one query at a time; a warm-up query goes first."""
        name, index = planned.name, self.out / "work" / planned.name
        cut = parse_chunking(planned.chunking).cut
        chunks = [chunk for document, fields in self.corpus.documents.items() for chunk in cut(document, fields)]
        # A killed process leaves its index behind.
        shutil.rmtree(index, ignore_errors=True)
        index.mkdir()
        self.progress(f"{name}: building")
        started = time.perf_counter()
        retriever = settings.make()
        loaded = time.perf_counter() - started
        # Objects that exist already stay out of the garbage collections that are measured.
        gc.freeze()
        try:
            started = time.perf_counter()
            facts = retriever.build(chunks, index)
            built = replace(facts, load_seconds=loaded, build_seconds=time.perf_counter() - started)
            self.progress(f"{name}: searching")
            run, milliseconds, short = self._search(retriever, chunks, name)
        finally:
            gc.unfreeze()
            shutil.rmtree(index, ignore_errors=True)
        warnings = []
        if short:
            of = f"{short} of {len(self.corpus.queries)} queries have fewer documents than asked for"
            warnings.append(f"{of}: others' chunks came first")
        if not any(run.results.values()):
            warnings.append("nothing was found for any query; it scores 0 wherever it counts")
        return run, Measured(digest, milliseconds, built, tuple(warnings))

    def _search(self, retriever: Retriever, chunks: Sequence[Chunk], name: str) -> tuple[Run, dict[str, float], int]:
        """Return the run of documents, milliseconds by query, and the number of queries cut off below the depth.

        Each query asks for as many chunks as so many documents have on average; a document has its best chunk's score.
        """
        queries, depth = self.corpus.queries, self.experiment.experiment.depth
        document_of = {chunk.id: chunk.document_id for chunk in chunks}
        documents = len(set(document_of.values()))
        k = min(len(chunks), math.ceil(depth * len(chunks) / documents))
        retriever.search(next(iter(queries.values())), k)
        results, milliseconds, short = {}, {}, 0
        for query, text in queries.items():
            started = time.perf_counter()
            hits = retriever.search(text, k)
            milliseconds[query] = 1_000 * (time.perf_counter() - started)
            best: dict[str, float] = {}
            for chunk_id, score in hits:
                document, value = document_of.get(chunk_id), float(score)
                if document is None or not math.isfinite(value):
                    wrong = "a chunk that was not indexed" if document is None else f"the score {value}"
                    raise InvalidInput(f"the retriever gave {wrong}, {chunk_id[:40]!r}")
                best[document] = max(value, best.get(document, -math.inf))
            short += len(hits) >= k and len(best) < min(depth, documents)
            # Of equal scores the later id comes first, as in trec_eval.
            ranked = sorted(best.items(), key=lambda each: (each[1], each[0].encode()), reverse=True)
            results[query] = dict(ranked[:depth])
        return Run(name, results), milliseconds, short

    def _blend(self, planned: PlannedSystem) -> tuple[Run, Measured]:
        """Fuse the runs of the parts; a query takes its parts' times and its share of the fusion's."""
        if lacking := [part for part in planned.parts if part not in self.measured]:
            raise InvalidInput(f"there is no {' and no '.join(lacking)} to blend")
        recipe = self.experiment.blends[planned.retriever].recipe()
        runs, parts = zip(*(self.measured[part] for part in planned.parts), strict=True)
        started = time.perf_counter()
        fusion = fuse(runs, depth=self.experiment.experiment.depth, name=planned.name, **recipe)
        taken = 1_000 * (time.perf_counter() - started) / len(self.corpus.queries)
        milliseconds = {query: taken + sum(part.milliseconds[query] for part in parts) for query in self.corpus.queries}
        return fusion.run, Measured("", milliseconds, None, tuple(fusion.warnings))

    def _row(self, planned: PlannedSystem, report: RunReport) -> System:
        measured = self.measured[planned.name][1]
        latency, warnings = summarise_latency(measured.milliseconds.values()), report.evaluation.warnings
        return System(
            *(planned.name, planned.chunking, planned.retriever, planned.parts, report.summary_by_measure),
            *(latency, measured.built, (*measured.warnings, *warnings)),
        )

    def _compare(self, done: Sequence[PlannedSystem], reports: Sequence[RunReport]) -> tuple[RunComparison, ...]:
        table = self.experiment.experiment
        baseline = next(each.name for each in self.experiment.systems() if each.retriever == self.experiment.baseline)
        if not (pairs := list(list_pairs(done, baseline))):
            return ()
        return compare_reports(
            reports,
            pairs=pairs,
            test="randomization",
            correction="holm",
            alpha=_ALPHA,
            resamples=_PERMUTATIONS if table.resamples is None else table.resamples,
            seed=table.seed,
        )


def list_pairs(planned: Sequence[PlannedSystem], baseline: str) -> Iterator[tuple[str, str]]:
    """Yield each system with the baseline and with its retriever on the first chunking, each blend with its parts."""
    names = {each.name for each in planned}
    first_by_retriever: dict[str, str] = {}
    for each in planned:
        first = first_by_retriever.setdefault(each.retriever, each.name)
        # The baseline's parts are compared with it already.
        others = dict.fromkeys((baseline, first, *each.parts)) if each.name != baseline else ()
        yield from ((each.name, other) for other in others if other in names and other != each.name)


def _digest(*values: object) -> str:
    return hashlib.sha256(msgspec.json.encode(values, order="sorted")).hexdigest()
