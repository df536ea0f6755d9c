"""Standalone HTML page of an experiment: table, one plot, comparisons and settings; it loads nothing."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from plumbline.extras.lab.results import ExperimentResults, System
from plumbline.extras.lab.table import PARTS, bytes_shown, comparisons_of, number_shown, readable_table, systems_of
from plumbline.retrieval.tables import label
from plumbline.rows.report.page import BASE_STYLE, build_environment, page_head, read_part
from plumbline.rows.report.texts import load_words, visible
from plumbline.schemas.report import ReportLanguage

WIDTH: Final = 460
HEIGHT: Final = 280
_LEFT, _RIGHT, _TOP, _BOTTOM = 60.0, 30.0, 14.0, 44.0


def render_page(results: ExperimentResults, *, language: ReportLanguage = "en") -> str:
    """Render the page; every text of the experiment file is escaped."""
    style = read_part(BASE_STYLE) + read_part(PARTS / "page.css")
    corpora = [
        {
            "corpus": corpus,
            "facts": facts,
            "table": readable_table(results, corpus, language),
            "marks": plot_marks(systems_of(results, corpus), results.measures[0]),
            "comparisons": comparisons_of(results, corpus),
            "systems": systems_of(results, corpus),
        }
        for corpus, facts in results.corpora.items()
    ]
    template = build_environment(PARTS, _FILTERS).get_template("page.html")
    return template.render(
        **page_head(language, style),
        words=load_words(language, PARTS),
        results=results,
        corpora=corpora,
        settings=json.dumps(results.settings, indent=2, ensure_ascii=False),
        width=WIDTH,
        height=HEIGHT,
    )


def plot_marks(systems: Sequence[System], measure: str) -> list[dict[str, Any]]:
    """Return a mark for each system: median latency on a logarithmic x, the measure's mean and interval on y."""
    seen = [
        (label(place), system, math.log10(system.latency.p50), mean, system.measures[measure].ci95 or (mean, mean))
        for place, system in enumerate(systems)
        for mean in [system.measures[measure].mean]
        if system.latency is not None and system.latency.p50 > 0 and mean is not None
    ]
    if not seen:
        return []
    x = _scale([each[2] for each in seen], _LEFT, WIDTH - _RIGHT)
    y = _scale([bound for each in seen for bound in (each[3], *each[4])], HEIGHT - _BOTTOM, _TOP)
    return [
        {
            "label": letter,
            "name": system.name,
            "x": x(latency),
            "y": y(mean),
            "low": y(low),
            "high": y(high),
            "milliseconds": 10**latency,
            "mean": mean,
            "is_blend": bool(system.parts),
        }
        for letter, system, latency, mean, (low, high) in seen
    ]


def _scale(values: Sequence[float], start: float, end: float) -> Callable[[float], float]:
    low, spread = min(values), max(values) - min(values)
    return lambda value: round(start + (end - start) * ((value - low) / spread if spread else 0.5), 2)


def _p_value(value: float) -> str:
    smallest = 0.0001
    return f"{value:.4f}" if value >= smallest else f"{value:.1e}"


_FILTERS: Final[Mapping[str, Callable[..., Any]]] = {
    "bytes": bytes_shown,
    "count": lambda number: f"{number:,}",
    "fill": str.format,
    "number": number_shown,
    "p_value": _p_value,
    "share": lambda value: f"{value:.4f}",
    "signed": lambda value: f"{value:+.4f}".replace("-", "−"),
    "visible": visible,
    # Below the heading of a corpus its name is not repeated.
    "within": lambda name, corpus: name.removeprefix(f"{corpus}."),
}
