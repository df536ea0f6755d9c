"""The report as Markdown, for a pipeline summary or a comment; foreign text is escaped."""

import functools
import re
from collections.abc import Callable
from typing import Any, Final

from plumbline.ground.texts import render
from plumbline.rows.report.building import Report
from plumbline.rows.report.gates import format_mean
from plumbline.rows.report.page import PAGE_FILTERS, PARTS, build_environment
from plumbline.rows.report.result_lines import GRAVEST_FIRST, Claim
from plumbline.rows.report.shown_rows import KeptRow
from plumbline.rows.report.texts import load_words, one_line
from plumbline.schemas.report import ReportLanguage

_LONGEST: Final = 160
_SCORES: Final = (
    "faithfulness", "hallucination_rate", "context_utilization", "passed_share", "lowest_support", "unsupported_share",
    "citation_recall", "citation_precision"
)  # fmt: skip
# As entities they have no meaning in Markdown (CommonMark 0.31, section 2.5), nor do they end a cell of a table.
_MARKS: Final = re.compile(r"[\\`*_{}\[\]()~|^$:&<>!@#]")
# Renderers search their output once more for names and addresses: an invisible joiner after these ends them.
_CALLING: Final = re.compile(r"(&#64;|&#35;|&#58;|www(?=\.))", re.IGNORECASE)
_JOINER: Final = "&#8288;"
_BLANK_LINES: Final = re.compile(r"\n{3,}")


def markdown_summary(report: Report, *, language: ReportLanguage = "en", rows: int = 10) -> str:
    """Return gates, scores with their intervals, the comparison and the `rows` worst rows as Markdown."""
    words, summary = load_words(language), report.summary
    groups = [(words[f"tier_{tier.tier}"], tier.judged, tier.scores) for tier in summary.tiers]
    if is_mixed := len(groups) > 1:
        groups.append((words["all_tiers_mixed"], summary.statuses.judged, summary.all_tiers))
    # Answers without citation marks have no figures of them
    names = [each for each in _SCORES if "citation" not in each or any(getattr(of, each).rows for *_, of in groups)]
    asked = sorted({name for *_, scores in groups for name in scores.metrics or ()})
    counted = {"rows": summary.rows, **{f"status_{name}": count for name, count in summary.statuses}}
    counted |= {"unsure": summary.unsure} if summary.unsure else {}
    counted |= {"bad_lines": summary.bad_lines, "degraded": summary.degraded}
    counted |= {name: getattr(summary.usage, name) for name in ("prompt_tokens", "completion_tokens")}
    text = (
        _environment()
        .get_template("summary.md")
        .render(
            words=words,
            said=functools.partial(render, language=language),
            summary=summary,
            is_mixed=is_mixed,
            names=[*names, *asked],
            groups=[
                (
                    name,
                    judged,
                    [*(getattr(of, each) for each in names), *((of.metrics or {}).get(each) for each in asked)],
                )
                for name, judged, of in groups
            ],
            counts=[f"{words[name]}: {count:,}" for name, count in counted.items()],
            worst=[(kept.row.scored, worst_claim(kept)) for kept in report.worst[:rows]],
        )
    )
    return _BLANK_LINES.sub("\n\n", text).strip() + "\n"


@functools.cache
def _environment() -> Any:
    filters: dict[str, Callable[..., Any]] = {
        "escaped": escaped,
        "field": lambda name, of: f"{getattr(of, name):,}",
        "mean": lambda mean, sign="": "–" if mean is None else format_mean(mean, sign=sign),
        "name": lambda name, words: words[name],
    }
    environment = build_environment(PARTS, {**PAGE_FILTERS, **filters})
    environment.autoescape = False
    return environment


def escaped(text: str, *, most: int = _LONGEST) -> str:
    """Escape a text for a Markdown table cell: one line, no markup, HTML, mentions or links."""
    without_marks = _MARKS.sub(lambda found: f"&#{ord(found[0])};", one_line(text, most=most))
    return _CALLING.sub(rf"\1{_JOINER}", without_marks)


def worst_claim(kept: KeptRow) -> Claim | None:
    claims = [each for each in kept.row.result.claims if each.verdict in GRAVEST_FIRST] if kept.row.result else []
    return min(claims, key=lambda each: GRAVEST_FIRST.index(each.verdict), default=None)
