"""The report as Markdown, for a pipeline summary or a comment; foreign text is escaped."""

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from plumbline.ground.texts import render
from plumbline.rows.report.building import Report
from plumbline.rows.report.gates import all_passed, format_mean
from plumbline.rows.report.result_lines import GRAVEST_FIRST, Claim
from plumbline.rows.report.shown_rows import KeptRow
from plumbline.rows.report.texts import load_words, metric_words, one_line
from plumbline.schemas.report import Comparison, ReportLanguage, ReportSummary

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


def markdown_summary(
    report: Report,
    *,
    language: ReportLanguage = "en",
    title: str | None = None,
    rows: int = 10,
) -> str:
    """Return gates, scores with their intervals, the comparison and the `rows` worst rows as Markdown."""
    words, summary = load_words(language), report.summary
    parts = [f"## {escaped(title) if title else words['title']}"]
    for rate in summary.rates or ():
        shown = rate.estimate and {name: f"{value:.1%}" for name, value in rate.estimate.corrected}
        told = (
            shown and f"**{words['rate_lead'].format(**shown)}**, {words['rate'].format(labels=rate.labels, **shown)}"
        )
        told = told or words["rate_refused"].format(labels=rate.labels, why=rate.refused)
        parts.append(f"{words[f'tier_{rate.tier}']}: {told}")
    parts += _gates(summary, words, functools.partial(render, language=language)) if summary.gates else []
    parts += _scores(summary, words)
    parts += [_counts(summary, words)]
    reference = [
        (words[name], format_mean(mean), f"{mean.rows:,}") for name, mean in summary.reference if mean and mean.rows
    ]
    parts += [_table((words["reference"], words["score"], words["rows"]), reference)] if reference else []
    parts += _comparison(summary.comparison, words) if summary.comparison else []
    if worst := report.worst[:rows]:
        header = (words["score"], words["passed"], words["tier"], "custom_id", words["verdict"], words["claims"])
        parts += [f"### {words['worst_rows']}", _table(header, [_row(kept, words) for kept in worst])]
    return "\n\n".join(parts) + "\n"


def escaped(text: str, *, most: int = _LONGEST) -> str:
    """Escape a text for a Markdown table cell: one line, no markup, HTML, mentions or links."""
    without_marks = _MARKS.sub(lambda found: f"&#{ord(found[0])};", one_line(text, most=most))
    return _CALLING.sub(rf"\1{_JOINER}", without_marks)


def _gates(summary: ReportSummary, words: Mapping[str, str], said: Callable[[str], str]) -> Iterator[str]:
    failed = not all_passed(summary.gates)
    yield f"**{'❌' if failed else '✅'} {words['some_gates_failed'] if failed else words['all_gates_passed']}**"
    rows = []
    for gate in summary.gates:
        outcome = f"✅ {words['gate_passed']}" if gate.passed else f"❌ {words['gate_failed']}"
        rows.append((escaped(gate.name), escaped(said(gate.wanted)), escaped(said(gate.got)), outcome))
    yield _table((words["gate"], words["wanted"], words["got"], ""), rows)


def _scores(summary: ReportSummary, words: Mapping[str, str]) -> Iterator[str]:
    groups = [(words[f"tier_{tier.tier}"], tier.judged, tier.scores) for tier in summary.tiers]
    is_mixed = len(groups) > 1
    if is_mixed:
        groups.append((words["all_tiers_mixed"], summary.statuses.judged, summary.all_tiers))
    if not groups:
        yield words["nothing_judged"]
        return
    # Answers without citation marks have no figures of them.
    names = [
        each for each in _SCORES if "citation" not in each or any(getattr(scores, each).rows for *_, scores in groups)
    ]
    asked = sorted({name for *_, scores in groups for name in scores.metrics or ()})
    header = (words["tier"], words["rows"], *(metric_words(name, words) for name in (*names, *asked)))
    rows = []
    for name, judged, scores in groups:
        means = [getattr(scores, each) for each in names]
        means += [(scores.metrics or {}).get(each) for each in asked]
        rows.append((name, f"{judged:,}", *("–" if mean is None else format_mean(mean) for mean in means)))
    yield _table(header, rows)
    if not summary.rates:
        yield words["no_rate"]
    yield words["scores_note"] + (f" {words['mixed_note']}" if is_mixed else "")


def _counts(summary: ReportSummary, words: Mapping[str, str]) -> str:
    counted = [(words["rows"], summary.rows)]
    counted += [(words[f"status_{name}"], count) for name, count in summary.statuses]
    counted += [(words["unsure"], summary.unsure)] if summary.unsure else []
    counted += [(words["bad_lines"], summary.bad_lines), (words["degraded"], summary.degraded)]
    used = summary.usage
    tokens = [(words["prompt_tokens"], used.prompt_tokens), (words["completion_tokens"], used.completion_tokens)]
    line = " · ".join(f"{name}: {count:,}" for name, count in (*counted, *tokens))
    line += f" · {words['cost']}: {summary.known_cost:,.4f}"
    if summary.rows_of_unknown_cost:
        line += f" ({words['cost_unknown'].format(count=f'{summary.rows_of_unknown_cost:,}')})"
    return line


def _comparison(comparison: Comparison, words: Mapping[str, str]) -> Iterator[str]:
    yield f"### {words['comparison']}"
    if not comparison.tiers:
        yield words["no_pairs"]
        return
    names = ("paired", "better", "equal", "worse", "newly_passing", "newly_failing")
    rows = []
    for tier in comparison.tiers:
        counts = (f"{getattr(tier, name):,}" for name in names)
        difference = format_mean(tier.difference, sign="+"), f"{tier.p_value:.3f}"
        rows.append((words[f"tier_{tier.tier}"], *difference, *counts, f"{tier.flip_p_value:.3f}"))
    yield _table((words["tier"], words["difference"], "p", *(words[name] for name in names), "p"), rows)


def _row(kept: KeptRow, words: Mapping[str, str]) -> tuple[str, ...]:
    row, result = kept.row, kept.row.result
    scored = row.scored
    if scored is None or result is None:
        return ("–",) * 6
    claim = worst_claim(kept)
    return (
        f"{scored.faithfulness:.3f}",
        {True: "✅", False: "❌", None: f"❔ {words['unsure']}"}[result.passed],
        words[f"tier_{scored.tier}"],
        escaped(scored.custom_id, most=60),
        "–" if claim is None else words[f"verdict_{claim.verdict}"],
        "" if claim is None else escaped(claim.text),
    )


def worst_claim(kept: KeptRow) -> Claim | None:
    claims = [each for each in kept.row.result.claims if each.verdict in GRAVEST_FIRST] if kept.row.result else []
    return min(claims, key=lambda each: GRAVEST_FIRST.index(each.verdict), default=None)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
