"""The report as one HTML page that loads nothing, sends nothing and runs no script but its own."""

import functools
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment
from markupsafe import Markup

from plumbline import __version__
from plumbline.rows.report import charts
from plumbline.rows.report.building import Report
from plumbline.rows.report.gates import GateOutcome
from plumbline.rows.report.lone_page import BASE_STYLE, part, policy, templates_in
from plumbline.rows.report.means import PARTS, RESAMPLES, SEED
from plumbline.rows.report.shown_rows import GRAVEST_FIRST, shown_row
from plumbline.rows.report.shown_text import one_line, visible
from plumbline.rows.report.wording import words_in
from plumbline.schemas.evaluation import VerdictCounts
from plumbline.schemas.report import ReportLanguage, ReportRowStatus, StatusCounts

_PARTS: Final = Path(__file__).parent / "page_parts"
_HTML_LANG: Final[Mapping[ReportLanguage, str]] = {"en": "en", "zh": "zh-Hans"}
_STATUSES: Final[tuple[ReportRowStatus, ...]] = ("judged", "abstained", "empty_answer", "not_judged", "error")
_LONGEST_TITLE: Final = 200
# Verdicts as a bar reads from good to bad.
_BAR_ORDER: Final = ("supported", "partial", "not_mentioned", "contradicted", "not_a_claim")


def render_html(
    report: Report,
    *,
    language: ReportLanguage = "en",
    title: str | None = None,
    gates: Sequence[GateOutcome] = (),
    made_at: datetime | None = None,
) -> str:
    """The page, some milliseconds a row that it shows.

    Args:
        title: whatever names the report; escaped, as every text of the results is.
        gates: outcomes to show before the scores.
        made_at: default: now.
    """
    words = words_in(language)
    style, script = part(BASE_STYLE) + part(_PARTS / "page.css"), part(_PARTS / "page.js")
    rows = [shown_row(kept, rank) for rank, kept in enumerate((*report.worst, *report.unscored))]
    page = _environment().get_template("page.html")
    return page.render(
        words=words,
        html_lang=_HTML_LANG[language],
        policy=policy(style, script),
        style=Markup(style),  # noqa: S704 -- ours
        script=Markup(script),  # noqa: S704 -- ours
        version=__version__,
        title=one_line(title or words["title"], most=_LONGEST_TITLE),
        made=(made_at or datetime.now(UTC)).astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        summary=report.summary,
        is_mixed=len(report.summary.tiers) > 1,
        gates=gates,
        statuses=_STATUSES,
        rows=rows,
        shown_numbers={row.row for row in rows},
        tier_choices=[(tier, words[f"tier_{tier}"]) for tier in _in_order(row.tier for row in rows)],
        status_choices=[(status, words[f"status_{status}"]) for status in _in_order(row.status for row in rows)],
        verdict_choices=[(verdict, words[f"verdict_{verdict}"]) for verdict in GRAVEST_FIRST],
        method={"resamples": RESAMPLES, "seed": SEED, "parts": PARTS},
    )


@functools.cache
def _environment() -> Environment:
    return templates_in(_PARTS, _FILTERS)


def _in_order(names: Any) -> list[Any]:
    return list(dict.fromkeys(names))


def _fill(text: str, **values: object) -> str:
    """The text with its places filled; what fills them is escaped where it is put into the page."""
    return text.format(**values)


def _verdict_counts(verdicts: VerdictCounts) -> list[tuple[str, int]]:
    return [(name, getattr(verdicts, name)) for name in _BAR_ORDER]


def _total(counts: StatusCounts) -> int:
    return sum(getattr(counts, name) for name in StatusCounts.model_fields)


def _money(cost: float) -> str:
    cents = 100.0
    return f"{cost:,.2f}" if cost >= cents else f"{cost:,.4f}"


_FILTERS: Final[Mapping[str, Callable[..., Any]]] = {
    "columns": charts.columns,
    "count": lambda number: f"{number:,}",
    "fill": _fill,
    "money": _money,
    "parts": charts.parts,
    "place": charts.place,
    "share": lambda share: f"{share:.3f}",
    "short": lambda number: f"{number:g}",
    "signed": lambda number: f"{number:+.3f}".replace("-", "−"),
    "total": _total,
    "verdict_counts": _verdict_counts,
    "visible": visible,
}
