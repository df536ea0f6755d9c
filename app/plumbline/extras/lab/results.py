"""Results of an experiment, as stored, and their table: a row for each system, quality next to cost."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from plumbline.extras.lab.retriever import IndexFacts
from plumbline.ground.files import read_file, replace_file
from plumbline.retrieval.comparison import LatencySummary, RunComparison, Summary
from plumbline.retrieval.tables import TABLE_WRITERS, Cell, Marked, Table, as_html, find_beaten, label

T = TypeVar("T")
RESULTS: Final = "results.json"
FORMATS: Final = {**TABLE_WRITERS, "html": as_html}
_COSTS: Final = (
    "latency_ms_mean", "latency_ms_p50", "latency_ms_p95", "latency_ms_p99", "build_seconds", "chunks", "index_bytes",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class System:
    """One row of the table; `latency` in milliseconds. A blend has `parts`, and nothing `built`."""

    name: str
    chunking: str
    retriever: str
    parts: tuple[str, ...]
    measures: Mapping[str, Summary]
    latency: LatencySummary | None
    built: IndexFacts | None
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ExperimentResults:
    """All results. `settings`: the experiment file, defaults filled in. `failures`: a reason by system."""

    name: str
    measures: tuple[str, ...]
    systems: tuple[System, ...]
    comparisons: tuple[RunComparison, ...]
    settings: Mapping[str, object]
    machine: Mapping[str, str]
    counts: Mapping[str, int]
    failures: Mapping[str, str]


def read_json(path: Path, form: type[T]) -> T | None:
    """Read a file of `write_json`; None where there is none, or it holds something else."""
    try:
        return msgspec.json.decode(read_file(path), type=form) if path.exists() else None
    except msgspec.MsgspecError:
        return None


def write_json(path: Path, value: object) -> None:
    # The hook is called for texts of ours: msgspec knows no subclasses of `str`.
    replace_file(path, msgspec.json.format(msgspec.json.encode(value, enc_hook=str)) + b"\n", mode=0o666)


def format_table(results: ExperimentResults, form: str) -> str:
    """Format the table in one of `FORMATS`: means with marks as in `comparison_table`, and costs."""
    labels = {system.name: label(place) for place, system in enumerate(results.systems)}
    beaten = find_beaten(results.comparisons, labels)
    rows = []
    for system in results.systems:
        row: list[Cell] = [labels[system.name], system.name]
        for measure in results.measures:
            mean, worse = system.measures[measure].mean, beaten.get((system.name, measure), ())
            row.append(mean if mean is None or not results.comparisons else Marked(mean, worse))
        row += [getattr(system.latency, name.removeprefix("latency_ms_"), None) for name in _COSTS[:4]]
        row += [getattr(system.built, name, None) for name in _COSTS[4:]]
        rows.append(tuple(row))
    return FORMATS[form](Table(("label", "system", *results.measures, *_COSTS), tuple(rows)))
