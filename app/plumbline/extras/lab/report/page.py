"""Standalone HTML page of an experiment: verdict, table, plots and settings; it loads nothing.

Its one script sorts and filters; without it the page is whole.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final

from plumbline.extras.lab.report.plots import HEIGHT, WIDTH, plot, plot_curves
from plumbline.extras.lab.report.table import (
    PARTS,
    PageLanguage,
    bytes_shown,
    comparisons_of,
    corpora_of,
    number_shown,
    readable,
    systems_of,
    systems_table,
    translate,
    translate_headings,
    without_tuning,
)
from plumbline.extras.lab.results import ExperimentResults, System
from plumbline.retrieval.compare import RunComparison
from plumbline.retrieval.tables import Cell, Marked
from plumbline.rows.report.page import BASE_STYLE, build_environment, page_head, read_part
from plumbline.rows.report.texts import load_words, visible


def render_page(results: ExperimentResults, *, language: PageLanguage = "en", made_at: datetime | None = None) -> str:
    """Render the page; every text of the experiment file is escaped.

    Args:
        made_at: default: now.
    """
    words = load_words(language, PARTS)
    style = read_part(BASE_STYLE) + read_part(PARTS / "page.css")
    return (
        build_environment(PARTS, {**_FILTERS, "say": partial(translate, language=language)})
        .get_template("page.html")
        .render(
            **page_head(language, style, read_part(PARTS / "page.js"), made_at=made_at),
            words=words,
            results=results,
            corpora=[_corpus_part(results, corpus, words, language) for corpus in corpora_of(results)],
            settings=json.dumps(results.settings, indent=2, ensure_ascii=False),
            width=WIDTH,
            height=HEIGHT,
        )
    )


def find_best(systems: Sequence[System], measure: str) -> System | None:
    """Return the system with the highest mean of a measure, the first of several; None if none has one."""
    valued = [(mean, system) for system in systems if (mean := system.measures[measure].mean) is not None]
    return max(valued, key=lambda pair: pair[0])[1] if valued else None


def _corpus_part(
    results: ExperimentResults, corpus: str, words: Mapping[str, str], language: PageLanguage
) -> dict[str, Any]:
    systems, comparisons = systems_of(results, corpus), comparisons_of(results, corpus)
    best = find_best(systems, results.measures[0])
    everything = systems_table(results, corpus)
    baseline = next((system.name for system in systems if system.retriever == results.baseline), "")
    return {
        "corpus": corpus,
        "facts": results.corpora.get(corpus),
        "best": best.name if best else None,
        "verdict": tuple(_verdict(results, best, comparisons, words)) if best else (),
        "table": translate_headings(readable(everything), language),
        "sort_keys": tuple(tuple(map(_sort_key, row)) for row in without_tuning(everything).rows),
        "plots": tuple(drawn for measure in results.measures if (drawn := plot(systems, measure))),
        "curves": plot_curves(systems, {best.name if best else "", baseline}),
        "comparisons": comparisons,
        "tuned": tuple(system for system in systems if system.tuned),
        "built": tuple(system for system in systems if system.built),
        "warnings": tuple((system.name, warning) for system in systems for warning in system.warnings),
    }


def _verdict(
    results: ExperimentResults, best: System, comparisons: Sequence[RunComparison], words: Mapping[str, str]
) -> Iterator[str]:
    """Yield sentences: the leader by the first measure, and its differences to the systems compared with it."""
    measure = results.measures[0]
    mean = best.measures[measure].mean
    yield words["best"].format(name=best.name, measure=measure, mean=_share(mean or 0.0))
    against = [each for each in comparisons if each.measure == measure and best.name in (each.a, each.b)]
    if best.retriever == results.baseline and not against:
        yield words["is_baseline"]
    for each in against:
        sign = 1 if each.a == best.name else -1
        low, high = sorted(sign * bound for bound in each.ci95) if each.ci95 else (0.0, 0.0)
        yield words["against"].format(
            name=each.b if sign > 0 else each.a,
            diff=_signed(sign * each.diff),
            low=_signed(low) if each.ci95 else "–",
            high=_signed(high) if each.ci95 else "–",
            p=_p_value(each.p_adjusted),
            n=each.n,
            word=words["significant" if each.significant else "not_significant"],
        )


def _sort_key(cell: Cell) -> str | float:
    return cell.value if isinstance(cell, Marked) else "" if cell is None else cell


def _share(value: float) -> str:
    return f"{value:.4f}"


def _signed(value: float) -> str:
    return f"{value:+.4f}".replace("-", "−")


def _p_value(value: float) -> str:
    smallest = 0.0001
    return f"{value:.4f}" if value >= smallest else f"{value:.1e}"


_FILTERS: Final[Mapping[str, Callable[..., Any]]] = {
    "bytes": bytes_shown,
    "count": lambda number: f"{number:,}",
    "fill": str.format,
    "number": number_shown,
    "p_value": _p_value,
    "share": _share,
    "signed": _signed,
    "visible": visible,
    # Below the heading of a corpus its name need not be said again.
    "within": lambda name, corpus: name.removeprefix(f"{corpus}."),
}
