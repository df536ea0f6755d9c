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
from plumbline.retrieval.tables import TABLE_WRITERS, Cell, Marked, Table, as_html, label

T = TypeVar("T")
RESULTS: Final = "results.json"
FORMATS: Final = {**TABLE_WRITERS, "html": as_html}
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
class System:
    """One row of the table.

    `latency`: milliseconds for each query; for a blend its parts' added up, and the fusion. `built` is None for a
    blend, `parts` is empty for a retriever.
    """

    name: str
    chunking: str
    retriever: str
    parts: tuple[str, ...]
    measures: Mapping[str, Summary]
    latency: LatencySummary | None
    built: Built | None
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ExperimentResults:
    """All results.

    `comparisons`: every system with the baseline and with the same retriever on the first chunking, and every blend
    with each of its parts, by every measure; p-values corrected within a measure. `settings`: the experiment file,
    defaults filled in. `counts`: documents, queries, unjudged queries, and judged documents that the corpus lacks.
    `failures`: systems that have no row, with one line that says why.
    """

    name: str
    measures: tuple[str, ...]
    systems: tuple[System, ...]
    comparisons: tuple[RunComparison, ...]
    settings: Mapping[str, object]
    machine: Mapping[str, str]
    counts: Mapping[str, int]
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


def format_table(results: ExperimentResults, form: str) -> str:
    """Format the table in one of `FORMATS`; cells that were not measured are None.

    The columns: label and name, a mean for each measure (marked with the labels of the systems that it is significantly
    better than, after correction), latency in milliseconds, seconds of `build`, chunks and bytes of the index.
    """
    label_by_name = {system.name: label(place) for place, system in enumerate(results.systems)}
    beaten: dict[tuple[str, str], list[str]] = {}
    for each in results.comparisons:
        if each.significant:
            better, worse = (each.a, each.b) if each.diff > 0 else (each.b, each.a)
            beaten.setdefault((better, each.measure), []).append(label_by_name[worse])
    rows = []
    for system in results.systems:
        latency, built = system.latency, system.built
        row: list[Cell] = [label_by_name[system.name], system.name]
        for measure in results.measures:
            mean, marks = system.measures[measure].mean, beaten.get((system.name, measure), [])
            row.append(Marked(mean, tuple(sorted(marks))) if mean is not None and results.comparisons else mean)
        row += [latency.mean, latency.p50, latency.p95, latency.p99] if latency else [None] * 4
        row += [built.build_seconds, built.facts.chunks, built.facts.index_bytes] if built else [None] * 3
        rows.append(tuple(row))
    return FORMATS[form](Table(("label", "system", *results.measures, *_COSTS), tuple(rows)))
