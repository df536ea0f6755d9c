"""The report as one standalone HTML page, and what every such page needs: style and script inline, nothing loaded."""

import base64
import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from plumbline.ground.texts import render
from plumbline.ground.version import VERSION
from plumbline.judging.text.sample import Sample
from plumbline.rows.report.building import Report
from plumbline.rows.report.result_lines import GRAVEST_FIRST
from plumbline.rows.report.shown_rows import shown_row
from plumbline.rows.report.texts import load_words, metric_words, one_line, visible
from plumbline.schemas.language import explain_flag, render_coded
from plumbline.schemas.report import ReportLanguage, ReportRowStatus

# Shared parts: `lone_head.html` (needs `title`, `html_lang`, `policy`, `style`, `version`) and `lone_mark.html`.
PARTS: Final = Path(__file__).parent / "page_parts"
HTML_LANG: Final[Mapping[ReportLanguage, str]] = {"en": "en", "zh": "zh-Hans"}


def build_environment(folder: Path, filters: Mapping[str, Callable[..., Any]]) -> Environment:
    """Build the template environment of a page: its own parts and the shared ones. Slow (0.1 s): keep it."""
    environment = Environment(
        loader=FileSystemLoader([folder, PARTS]),
        # Foreign text is escaped, whatever the file name
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(filters)
    return environment


def content_security_policy(style: str, script: str, *, form_action: str = "'none'", more: str = "") -> str:
    """Return a policy that allows only this style and script, by hash, loads nothing, and has `more` directives."""
    return (
        f"default-src 'none'; style-src {hash_source(style)}; script-src {hash_source(script)}; base-uri 'none'; "
        f"form-action {form_action}; require-trusted-types-for 'script'" + (more and f"; {more}")
    )


def hash_source(text: str) -> str:
    """Return the source of a Content-Security-Policy that allows this inline style or script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


_STATUSES: Final[tuple[ReportRowStatus, ...]] = ("judged", "abstained", "empty_answer", "not_judged", "error")
_LONGEST_TITLE: Final = 200
# Verdicts as a bar reads from good to bad.
_BAR_ORDER: Final = ("supported", "partial", "not_mentioned", "contradicted")
_CHART_WIDTH: Final = 360
_BASE: Final = 145
_HEIGHT: Final = 125
_GAP: Final = 2.0
# A bar with rows in it must not vanish next to one with a million.
_LEAST_HEIGHT: Final = 1.5
# Smaller costs are shown with four digits
_COST_IN_CENTS: Final = 100.0


def render_html(
    report: Report,
    *,
    language: ReportLanguage = "en",
    title: str | None = None,
    made_at: datetime | None = None,
    samples: Mapping[str, Sample] = MappingProxyType({}),
) -> str:
    """Render the page, the gates before the scores; takes some milliseconds per shown row.

    `samples`: what shown rows were judged by, by custom_id: their questions and contexts are on the page, too.
    """
    words, style = load_words(language), page_style()
    script = (PARTS / "page.js").read_text(encoding="utf-8")
    rows = [
        shown_row(kept, rank, samples.get(kept.row.custom_id or ""))
        for rank, kept in enumerate((*report.worst, *report.unscored))
    ]
    page = _environment().get_template("page.html")
    return page.render(
        html_lang=HTML_LANG[language],
        policy=content_security_policy(style, script),
        style=style,
        script=script,
        version=VERSION,
        made=(made_at or datetime.now(UTC)).astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        words=words,
        said=functools.partial(render, language=language),
        coded=functools.partial(render_coded, language=language),
        explain=functools.partial(explain_flag, language=language),
        title=one_line(title or words["title"], most=_LONGEST_TITLE),
        summary=report.summary,
        is_mixed=len(report.summary.tiers) > 1,
        statuses=_STATUSES,
        rows=rows,
        shown_numbers={row.source.row for row in rows},
        tier_choices=[(tier, words[f"tier_{tier}"]) for tier in dict.fromkeys(row.tier for row in rows)],
        status_choices=[
            (status, words[f"status_{status}"]) for status in dict.fromkeys(row.source.status for row in rows)
        ],
        verdict_choices=[(verdict, words[f"verdict_{verdict}"]) for verdict in GRAVEST_FIRST],
    )


def page_style() -> str:
    """Return the style of every page: colours, letters, cards, tables and rows."""
    return "".join((PARTS / name).read_text(encoding="utf-8") for name in ("base.css", "page.css"))


@functools.cache
def _environment() -> Environment:
    return build_environment(PARTS, PAGE_FILTERS)


def _histogram_bars(histogram: Sequence[int]) -> list[dict[str, object]]:
    """Return the bars that are not empty, left to right, in SVG units; `low` and `high` bound the scores of each."""
    step, most = _CHART_WIDTH / len(histogram), max(histogram)
    return [
        {
            "x": round(place * step + _GAP / 2, 2),
            "y": round(_BASE - height, 2),
            "width": round(step - _GAP, 2),
            "height": round(height, 2),
            "low": f"{place / len(histogram):.2f}",
            "high": f"{(place + 1) / len(histogram):.2f}",
            "rows": count,
        }
        for place, count in enumerate(histogram)
        if count
        for height in [max(_LEAST_HEIGHT, _HEIGHT * count / most)]
    ]


def _stack_parts(counts: Sequence[tuple[str, int]]) -> list[dict[str, object]]:
    """Return the parts of a stacked bar in percent of its width; none if all counts are 0."""
    total = sum(count for _, count in counts)
    found: list[dict[str, object]] = []
    x = 0.0
    for name, count in counts:
        if count:
            width = 100.0 * count / total
            found.append({"name": name, "x": round(x, 3), "width": round(width, 3)})
            x += width
    return found


PAGE_FILTERS: Final[Mapping[str, Callable[..., Any]]] = {
    "columns": _histogram_bars,
    "count": lambda number: f"{number:,}",
    "fill": str.format,
    "metric_words": metric_words,
    "money": lambda cost: f"{cost:,.2f}" if cost >= _COST_IN_CENTS else f"{cost:,.4f}",
    "parts": _stack_parts,
    "place": lambda value, low, width: round(100.0 * (value - low) / width, 2),
    "rate": "{:.1%}".format,
    "share": lambda share: f"{share:.3f}",
    "short": lambda number: f"{number:g}",
    "signed": lambda number: f"{number:+.3f}".replace("-", "−"),
    "total": lambda counts: sum(dict(counts).values()),
    "verdict_counts": lambda verdicts: [(name, getattr(verdicts, name)) for name in _BAR_ORDER],
    "visible": visible,
}
