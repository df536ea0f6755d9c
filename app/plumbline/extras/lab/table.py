"""Table of an experiment: a row for each system, quality next to cost; for reading, pasting or loading."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from plumbline.extras.lab.results import ExperimentResults, System
from plumbline.retrieval.comparison import RunComparison
from plumbline.retrieval.tables import TABLE_WRITERS, Cell, Marked, Table, label
from plumbline.rows.report.texts import load_words
from plumbline.schemas.report import ReportLanguage

PARTS: Final = Path(__file__).parent / "page_parts"


def systems_of(results: ExperimentResults, corpus: str) -> tuple[System, ...]:
    return tuple(system for system in results.systems if system.corpus == corpus)


def comparisons_of(results: ExperimentResults, corpus: str) -> tuple[RunComparison, ...]:
    names = {system.name for system in systems_of(results, corpus)}
    return tuple(each for each in results.comparisons if each.a in names)


def systems_table(results: ExperimentResults, corpus: str) -> Table:
    """Build the table of one corpus, every digit in it; cells that were not measured are None.

    The columns: label and name, a mean for each measure (marked with the labels of the systems that it is significantly
    better than, after correction), latency in milliseconds, seconds of `build`, chunks and bytes of the index.
    """
    systems = systems_of(results, corpus)
    label_by_name = {system.name: label(place) for place, system in enumerate(systems)}
    beaten: dict[tuple[str, str], list[str]] = {}
    for each in comparisons_of(results, corpus):
        if each.significant:
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
    return Table(("label", "system", *results.measures, *_SHOWN_BY_COLUMN), tuple(rows))


def readable_table(results: ExperimentResults, corpus: str, language: ReportLanguage) -> Table:
    """Build the table for people: costs as `12.3` or `2.1 MB` under headings with units, names without the corpus."""
    table, words = systems_table(results, corpus), load_words(language, PARTS)
    rows = []
    for mark, name, *cells in table.rows:
        shown: list[Cell] = [mark, str(name).removeprefix(f"{corpus}.")]
        for column, cell in zip(table.columns[2:], cells, strict=True):
            is_cost = column in _SHOWN_BY_COLUMN and isinstance(cell, int | float)
            shown.append(_SHOWN_BY_COLUMN[column](cell) if is_cost else cell)  # type: ignore[arg-type]  # checked
        rows.append(tuple(shown))
    return Table(tuple(words.get(f"column {name}", name) for name in table.columns), tuple(rows))


def format_tables(results: ExperimentResults, form: str, language: ReportLanguage) -> str:
    """Format a table for each corpus: CSV with every digit, other formats for people."""
    corpora = dict.fromkeys(system.corpus for system in results.systems)
    if form == "csv":
        return "\n".join(TABLE_WRITERS[form](systems_table(results, corpus)) for corpus in corpora)
    write = TABLE_WRITERS[form]
    return "\n".join(f"{corpus}\n{write(readable_table(results, corpus, language))}" for corpus in corpora)


def bytes_shown(count: float) -> str:
    """Format bytes in the unit that leaves one to three digits before the point; 1 kB is 1,000 bytes."""
    step = 1_000.0
    for unit in ("B", "kB", "MB"):
        if count < step:
            return f"{count:.3g} {unit}" if unit != "B" else f"{count:.0f} B"
        count /= step
    return f"{count:,.3g} GB" if count < step else f"{count:,.0f} GB"


def number_shown(value: float) -> str:
    """Format with three significant digits, or without fraction and with thousands separators from 100."""
    hundred = 100
    return f"{value:,.0f}" if abs(value) >= hundred else f"{value:.3g}"


_SHOWN_BY_COLUMN: Final[Mapping[str, Callable[[float], str]]] = {
    "latency_ms_mean": number_shown,
    "latency_ms_p50": number_shown,
    "latency_ms_p95": number_shown,
    "latency_ms_p99": number_shown,
    "build_seconds": number_shown,
    "chunks": lambda count: f"{count:,.0f}",
    "index_bytes": bytes_shown,
}
