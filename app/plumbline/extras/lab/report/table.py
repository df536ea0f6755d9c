"""Table of an experiment: a row for each system, quality next to cost; for reading, pasting or loading."""

from collections.abc import Callable, Collection, Sequence
from itertools import compress
from pathlib import Path
from typing import Final, Literal

from plumbline.extras.lab.results import ANSWER_COUNTS, ExperimentResults, System
from plumbline.retrieval.compare import RunComparison
from plumbline.retrieval.tables import Cell, Marked, Table, comparison_table, label
from plumbline.rows.report.texts import load_words
from plumbline.schemas import language as language_of_results

PageLanguage = Literal["en", "zh"]
PARTS: Final = Path(__file__).parent / "page_parts"


def translate(text: str, language: PageLanguage) -> str:
    """Return a warning, failure or name of a stage in this language; what is not known stays English."""
    return language_of_results.translate(text, language, PARTS / "messages.zh.toml")


def translate_headings(table: Table, language: PageLanguage) -> Table:
    """Return the table with headings for people in this language; of `faithfulness.llm` the tier stays as it is."""
    words = load_words(language, PARTS)
    split = [name.partition(".") for name in table.columns]
    return Table(tuple(words.get(f"column {known}", known) + dot + tier for known, dot, tier in split), table.rows)


_COST_COLUMNS: Final = (
    *("latency_ms_mean", "latency_ms_p50", "latency_ms_p95", "latency_ms_p99"),
    *("build_seconds", "documents_per_second", "chunks", "index_bytes"),
)
_TUNED_COLUMNS: Final = ("tuned_on", "in_sample", "held_out", "equal_weights")


def corpora_of(results: ExperimentResults) -> tuple[str, ...]:
    """Return the corpora, in the order of their first system."""
    return tuple(dict.fromkeys(system.corpus for system in results.systems))


def systems_of(results: ExperimentResults, corpus: str) -> tuple[System, ...]:
    """Return the systems on one corpus, in order."""
    return tuple(system for system in results.systems if system.corpus == corpus)


def comparisons_of(results: ExperimentResults, corpus: str) -> tuple[RunComparison, ...]:
    """Return the comparisons between systems of one corpus."""
    names = {system.name for system in systems_of(results, corpus)}
    return tuple(each for each in results.comparisons if each.a in names and each.b in names)


def systems_table(results: ExperimentResults, corpus: str) -> Table:
    """Build the table of all measurements on one corpus; cells that were not measured are None.

    The columns: label and name, a mean for each measure (marked with the labels of the systems that it is significantly
    better than, after correction), latency in milliseconds, seconds of `build`, documents per second, chunks and bytes
    of the index; then, where something was asked for, the scores of tuned weights and the means of the answers.
    """
    systems = systems_of(results, corpus)
    quality = _quality(results, corpus, systems)
    answers = tuple(dict.fromkeys(name for system in systems for name in system.answers or ()))
    tuned_columns = _TUNED_COLUMNS if any(system.tuned for system in systems) else ()
    rows = []
    for place, system in enumerate(systems):
        latency, built, tuned = system.latency, system.built, system.tuned
        row: list[Cell] = [label(place), system.name, *quality[system.name]]
        row += [latency.mean, latency.p50, latency.p95, latency.p99] if latency else [None] * 4
        if built is None:
            row += [None] * 4
        else:
            row += [built.build_seconds, built.documents_per_second, built.facts.chunks, built.facts.index_bytes]
        if tuned is not None:
            row += [tuned.measure, tuned.in_sample_score, tuned.held_out_score, tuned.equal_score]
        else:
            row += [None] * len(tuned_columns)
        row += [(system.answers or {}).get(name) for name in answers]
        rows.append(tuple(row))
    return Table(("label", "system", *results.measures, *_COST_COLUMNS, *tuned_columns, *answers), tuple(rows))


def readable(table: Table) -> Table:
    """Format a table for people: costs as `12.3`, `1,400`, `2.1 MB` under names with units, without tuning."""
    table = without_tuning(table)
    columns = tuple(_READABLE[name][0] if name in _READABLE else name for name in table.columns)

    def shown(name: str, cell: Cell) -> Cell:
        if not isinstance(cell, int | float):
            return cell
        return _READABLE[name][1](cell) if name in _READABLE else f"{cell:g}" if name in ANSWER_COUNTS else cell

    rows = tuple(tuple(shown(name, cell) for name, cell in zip(table.columns, row, strict=True)) for row in table.rows)
    return Table(columns, rows)


def without_tuning(table: Table) -> Table:
    return _without(table, _TUNED_COLUMNS)


def _without(table: Table, hidden: Collection[str]) -> Table:
    kept = [name not in hidden for name in table.columns]
    return Table(tuple(compress(table.columns, kept)), tuple(tuple(compress(row, kept)) for row in table.rows))


def brief(table: Table, corpus: str) -> Table:
    """Keep what fits a terminal: names without the corpus, measures, one figure each of latency, build and index."""
    kept = _without(table, {"latency_ms_mean", "latency_ms_p95", "latency_ms_p99", "documents_per_second", "chunks"})
    rows = tuple((mark, str(name).removeprefix(f"{corpus}."), *cells) for mark, name, *cells in kept.rows)
    return readable(Table(kept.columns, rows))


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


def _quality(results: ExperimentResults, corpus: str, systems: Sequence[System]) -> dict[str, tuple[Cell, ...]]:
    """Return the cells of the measures by system: as compared if anything was compared, else plain means."""
    own = {system.name: tuple(system.measures[each].mean for each in results.measures) for system in systems}
    comparisons = comparisons_of(results, corpus)
    if not comparisons:
        return dict(own)
    compared = comparison_table(comparisons)
    place_by_measure = {name: place for place, name in enumerate(compared.columns)}
    label_by_name = {system.name: label(place) for place, system in enumerate(systems)}
    name_by_mark = {str(row[0]): str(row[1]) for row in compared.rows}
    cells: dict[str, tuple[Cell, ...]] = dict(own)
    for row in compared.rows:
        marked = []
        for measure in results.measures:
            cell = row[place_by_measure[measure]]
            if isinstance(cell, Marked):
                cell = Marked(cell.value, tuple(sorted(label_by_name[name_by_mark[mark]] for mark in cell.beats)))
            marked.append(cell)
        cells[str(row[1])] = tuple(marked)
    return cells


_READABLE: Final[dict[str, tuple[str, Callable[[float], str]]]] = {
    "latency_ms_mean": ("mean ms", number_shown),
    "latency_ms_p50": ("p50 ms", number_shown),
    "latency_ms_p95": ("p95 ms", number_shown),
    "latency_ms_p99": ("p99 ms", number_shown),
    "build_seconds": ("build s", number_shown),
    "documents_per_second": ("docs/s", number_shown),
    "chunks": ("chunks", lambda count: f"{count:,.0f}"),
    "index_bytes": ("index", bytes_shown),
}
