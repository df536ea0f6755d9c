"""Results of an experiment, as stored, and their table: a row for each system, quality next to cost."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from plumbline.extras.lab.retriever import IndexFacts
from plumbline.ground.errors import InvalidInput
from plumbline.ground.files import read_file, replace_file
from plumbline.retrieval.comparison import LatencySummary, RunComparison, Summary
from plumbline.retrieval.tables import TABLE_WRITERS, Cell, Marked, Table, label

T = TypeVar("T")
RESULTS: Final = "results.json"
_COSTS: Final = (
    "latency_ms_mean", "latency_ms_p50", "latency_ms_p95", "latency_ms_p99", "build_seconds", "chunks", "index_bytes",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Built:
    """Facts of one index, with the wall time of its making (imports, weights) and of `build`."""

    facts: IndexFacts
    load_seconds: float
    build_seconds: float


@dataclass(frozen=True, slots=True)
class CorpusFacts:
    """Counts of a corpus; `qrels_file` is relative to the results folder."""

    documents: int
    queries: int
    unjudged: int
    judged_elsewhere: int
    qrels_file: str


@dataclass(frozen=True, slots=True)
class System:
    """One row of the table.

    `name`: `corpus.chunking.retriever`. `run_file`: relative to the results folder, TREC format, documents (the best
    chunk speaks for its document). `latency`: milliseconds for each query; for a blend its parts' added up, and the
    fusion. `built` is None for a blend, `parts` is empty for a retriever.
    """

    name: str
    corpus: str
    chunking: str
    retriever: str
    parts: tuple[str, ...]
    run_file: str
    measures: Mapping[str, Summary]
    latency: LatencySummary | None
    built: Built | None
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ExperimentResults:
    """All results.

    `comparisons`: every system with its corpus's baseline and with the same retriever on the first chunking, and every
    blend with each of its parts, by every measure; p-values corrected within a corpus and a measure. `settings`: the
    experiment file, defaults filled in. `failures`: systems that have no row, with one line that says why.
    """

    name: str
    measures: tuple[str, ...]
    baseline: str
    systems: tuple[System, ...]
    comparisons: tuple[RunComparison, ...]
    settings: Mapping[str, object]
    machine: Mapping[str, str]
    corpora: Mapping[str, CorpusFacts]
    failures: Mapping[str, str]


def load_results(folder: Path) -> ExperimentResults:
    """Load the results of an experiment; InvalidInput where there are none, or they are of another version."""
    path = folder / RESULTS
    if not path.exists():
        detail = f"has no {RESULTS}; `plumbline lab run EXPERIMENT.toml` writes it when all is measured"
        raise InvalidInput(detail, place=folder.name or str(folder))
    if (results := read_json(path, ExperimentResults)) is None:
        raise InvalidInput("is not what this version of the lab writes; `lab run` makes it again", place=RESULTS)
    return results


def read_json(path: Path, form: type[T]) -> T | None:
    """Read a file of `write_json`; None where it holds something else."""
    try:
        return msgspec.json.decode(read_file(path), type=form)
    except msgspec.MsgspecError:
        return None


def write_json(path: Path, value: object) -> None:
    """Write a JSON file atomically; InvalidInput where it cannot be written."""
    replace_file(path, msgspec.json.format(msgspec.json.encode(value)) + b"\n", mode=0o666)


def format_tables(results: ExperimentResults, form: str) -> str:
    """Format a table for each corpus, in one of `TABLE_WRITERS`."""
    corpora = dict.fromkeys(system.corpus for system in results.systems)
    return "\n".join(TABLE_WRITERS[form](_systems_table(results, corpus)) for corpus in corpora)


def _systems_table(results: ExperimentResults, corpus: str) -> Table:
    """Build the table of one corpus; cells that were not measured are None.

    The columns: label and name, a mean for each measure (marked with the labels of the systems that it is significantly
    better than, after correction), latency in milliseconds, seconds of `build`, chunks and bytes of the index.
    """
    systems = [system for system in results.systems if system.corpus == corpus]
    label_by_name = {system.name: label(place) for place, system in enumerate(systems)}
    beaten: dict[tuple[str, str], list[str]] = {}
    for each in results.comparisons:
        if each.significant and each.a in label_by_name:
            better, worse = (each.a, each.b) if each.diff > 0 else (each.b, each.a)
            beaten.setdefault((better, each.measure), []).append(label_by_name[worse])
    rows = []
    for system in systems:
        latency, built = system.latency, system.built
        row: list[Cell] = [label_by_name[system.name], system.name]
        for measure in results.measures:
            mean, marks = system.measures[measure].mean, beaten.get((system.name, measure), [])
            row.append(Marked(mean, tuple(sorted(marks))) if mean is not None and results.comparisons else mean)
        row += [latency.mean, latency.p50, latency.p95, latency.p99] if latency else [None] * 4
        row += [built.build_seconds, built.facts.chunks, built.facts.index_bytes] if built else [None] * 3
        rows.append(tuple(row))
    return Table(("label", "system", *results.measures, *_COSTS), tuple(rows))
