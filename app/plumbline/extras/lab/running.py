"""Run an experiment, or resume it: a system with the same settings and documents as before is not measured again."""

import gc
import hashlib
import math
import os
import platform
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from plumbline.extras.lab.corpus import Chunk, Corpus, parse_chunking
from plumbline.extras.lab.experiment import Blend, Experiment, System
from plumbline.extras.lab.results import ExperimentResults, IndexFacts, SystemResult, format_table
from plumbline.extras.lab.retriever import Retriever
from plumbline.ground.errors import InvalidInput
from plumbline.ground.files import replace_file
from plumbline.retrieval.combination import rank_results
from plumbline.retrieval.comparison import compare_reports, report_runs, summarise_latency
from plumbline.retrieval.conventions import build_conventions
from plumbline.retrieval.fusion import fuse
from plumbline.retrieval.measure import parse_measures
from plumbline.retrieval.run import Run

Scores = dict[str, dict[str, float]]


@dataclass(frozen=True, slots=True)
class Measured:
    """Run of a system with its times, by query. `digest`: of what the system was made of."""

    scores: Scores
    milliseconds: dict[str, float]
    built: IndexFacts | None = None
    warnings: tuple[str, ...] = ()
    digest: str = ""


def run_experiment(
    experiment: Experiment, *, base: Path, out: Path, progress: Callable[[str], None]
) -> ExperimentResults:
    """Measure the systems that are not measured yet; return the results of all, and why others failed.

    `base`: folder that the paths of the file are relative to. Raises InvalidInput: the corpus cannot be read, or a
    file in `out` not written.
    """
    # A retriever of the user's own lies next to the experiment file.
    sys.path.append(str(base))
    corpus, depth = experiment.corpus.read(base), experiment.experiment.depth
    progress(f"{len(corpus.documents)} documents, {len(corpus.queries)} queries, {corpus.unjudged} without judgments")
    _write_json(out / "qrels.json", corpus.qrels)
    corpus_digest = _digest(corpus.documents, corpus.queries)
    measured: dict[str, Measured] = {}
    failures: dict[str, str] = {}
    for system in experiment.systems():
        name, record = system.name, out / "systems" / f"{system.name}.json"
        digest = _digest(corpus_digest, system.chunking, system.settings.model_dump(), depth)
        if (before := _read_record(record)) and before.digest == digest and not system.parts:
            measured[name] = before
            progress(f"{name}: was there")
            continue
        progress(f"{name}: measuring")
        try:
            # The table stays apart from what libraries print.
            with redirect_stdout(sys.stderr):
                found = _measure(system, corpus, depth, measured)
        except Exception as error:
            # A retriever may be the user's own, with any error.
            if not isinstance(error, InvalidInput):
                traceback.print_exc()
            failures[name] = str(error) or type(error).__name__
            continue
        measured[name] = replace(found, digest=digest)
        _write_json(out / "runs" / f"{name}.json", found.scores)
        _write_json(record, measured[name])
    results = _evaluate(experiment, corpus, measured, failures)
    _write_json(out / "results.json", results)
    for form in ("csv", "html"):
        replace_file(out / f"table.{form}", format_table(results, form).encode(), mode=0o666)
    return results


def _measure(system: System, corpus: Corpus, depth: int, measured: Mapping[str, Measured]) -> Measured:
    """Build and search a retriever under the clock, or blend what is measured."""
    if isinstance(system.settings, Blend):
        return _blend(system.settings, {name: measured.get(name) for name in system.parts}, depth)
    cut = parse_chunking(system.chunking).cut
    chunks = [chunk for document, fields in corpus.documents.items() for chunk in cut(document, fields)]
    retriever = system.settings.make()
    # Objects that exist already stay out of the garbage collections that are measured.
    gc.freeze()
    with TemporaryDirectory(prefix="plumbline-lab-", ignore_cleanup_errors=True) as folder:
        started = time.perf_counter()
        index_bytes = retriever.build(chunks, Path(folder))
        seconds = time.perf_counter() - started
        if index_bytes is None:
            index_bytes = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
        scores, milliseconds = _search(retriever, chunks, corpus.queries, depth)
    return Measured(scores, milliseconds, IndexFacts(len(chunks), index_bytes, seconds))


def _search(
    retriever: Retriever, chunks: Sequence[Chunk], queries: Mapping[str, str], depth: int
) -> tuple[Scores, dict[str, float]]:
    """Return scores of documents, each its best chunk's, and milliseconds, by query; a warm-up query goes first."""
    document_of = {chunk.id: chunk.document_id for chunk in chunks}
    # So many chunks hold at least `depth` documents.
    k = min(len(chunks), depth * max(Counter(document_of.values()).values()))
    retriever.search(next(iter(queries.values())), k)
    scores, milliseconds = {}, {}
    for query, text in queries.items():
        started = time.perf_counter()
        hits = retriever.search(text, k)
        milliseconds[query] = 1_000 * (time.perf_counter() - started)
        best: dict[str, float] = {}
        for chunk_id, score in hits:
            document = document_of.get(chunk_id)
            if document is None or not math.isfinite(score):
                raise InvalidInput(f"the retriever gave {chunk_id[:40]!r} the score {score}; expected a chunk, finite")
            best[document] = max(float(score), best.get(document, -math.inf))
        ranked = rank_results(best).doc_ids[:depth]
        scores[query] = {document: best[document] for document in ranked}
    return scores, milliseconds


def _blend(blend: Blend, measured: Mapping[str, Measured | None], depth: int) -> Measured:
    """Fuse the runs of the parts; a query takes its parts' times and its share of the fusion's."""
    parts = {name: part for name, part in measured.items() if part is not None}
    if lacking := [name for name in measured if name not in parts]:
        raise InvalidInput(f"there is no {' and no '.join(lacking)} to blend")
    started = time.perf_counter()
    fusion = fuse([Run(name, part.scores) for name, part in parts.items()], depth=depth, **blend.recipe())
    scores = {query: dict(found) for query, found in fusion.run.results.items() if isinstance(found, Mapping)}
    taken = 1_000 * (time.perf_counter() - started) / len(scores)
    milliseconds = {query: taken + sum(part.milliseconds[query] for part in parts.values()) for query in scores}
    return Measured(scores, milliseconds, warnings=fusion.warnings)


def _evaluate(
    experiment: Experiment, corpus: Corpus, measured: Mapping[str, Measured], failures: Mapping[str, str]
) -> ExperimentResults:
    """Evaluate and compare the runs with the defaults of `plumbline retrieval evaluate` and `compare`."""
    reports = report_runs(
        corpus.qrels,
        [Run(name, each.scores) for name, each in measured.items()],
        measures=parse_measures(experiment.experiment.measures),
        conventions=build_conventions("trec_eval"),
        resamples=1_000,
        seed=0,
    )
    systems = []
    for report, each in zip(reports, measured.values(), strict=True):
        latency, warnings = summarise_latency(each.milliseconds.values()), (*each.warnings, *report.evaluation.warnings)
        systems.append(SystemResult(report.name, report.summary_by_measure, latency, each.built, warnings))
    pairs = [pair for pair in experiment.pairs() if measured.keys() >= set(pair)]
    return ExperimentResults(
        systems=tuple(systems),
        comparisons=compare_reports(reports, pairs=pairs) if pairs else (),
        failures=failures,
        machine=f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}",
    )


def _digest(*values: object) -> str:
    return hashlib.sha256(msgspec.json.encode(values, order="sorted")).hexdigest()


def _read_record(path: Path) -> Measured | None:
    with suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode(path.read_bytes(), type=Measured)
    return None


def _write_json(path: Path, value: object) -> None:
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
    # The hook is called for texts of ours: msgspec knows no subclasses of `str`.
    replace_file(path, msgspec.json.format(msgspec.json.encode(value, enc_hook=str)) + b"\n", mode=0o666)
