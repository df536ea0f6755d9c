"""Results of an experiment, as stored, and their table: a row for each system, quality next to cost."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from plumbline.retrieval.comparison import LatencySummary, RunComparison, Summary
from plumbline.retrieval.tables import TABLE_WRITERS, Cell, Marked, Table, as_html, find_beaten, label

FORMATS: Final = {**TABLE_WRITERS, "html": as_html}
_LATENCIES: Final = ("mean", "p50", "p95", "p99")
_FACTS: Final = ("build_seconds", "chunks", "index_bytes")


@dataclass(frozen=True, slots=True)
class IndexFacts:
    """Facts of an index; `build_seconds` is wall time."""

    chunks: int
    index_bytes: int
    build_seconds: float


@dataclass(frozen=True, slots=True)
class SystemResult:
    """One row of the table; `latency` in milliseconds. A blend has nothing `built`."""

    name: str
    measures: Mapping[str, Summary]
    latency: LatencySummary
    built: IndexFacts | None
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ExperimentResults:
    """All results. `failures`: a reason by system."""

    systems: tuple[SystemResult, ...]
    comparisons: tuple[RunComparison, ...]
    failures: Mapping[str, str]
    machine: str


def format_table(results: ExperimentResults, form: str) -> str:
    """Format the table in one of `FORMATS`: means with marks as in `comparison_table`, and costs."""
    labels = {system.name: label(place) for place, system in enumerate(results.systems)}
    beaten = find_beaten(results.comparisons, labels)
    columns: dict[str, None] = {}
    rows = []
    for system in results.systems:
        row: dict[str, Cell] = {"label": labels[system.name], "system": system.name}
        for measure, summary in system.measures.items():
            marks = beaten.get((system.name, measure), ())
            row[measure] = None if summary.mean is None else Marked(summary.mean, marks)
        row |= {f"latency_ms_{name}": getattr(system.latency, name) for name in _LATENCIES}
        row |= {name: getattr(system.built, name, None) for name in _FACTS}
        columns |= dict.fromkeys(row)
        rows.append(tuple(row.values()))
    return FORMATS[form](Table(tuple(columns), tuple(rows)))
