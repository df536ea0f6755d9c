"""Progress of `plumbline score`: one line on a terminal, lines in a pipe."""

import json
import shutil
import time
from typing import Any, Final, TextIO

from plumbline.rows.report.building import Report, ReportBuilder
from plumbline.rows.report.markdown import worst_claim
from plumbline.rows.report.result_lines import ResultRow
from plumbline.rows.report.shown_rows import KeptRow
from plumbline.rows.report.texts import one_line

_REDRAWN_SECONDS: Final = 0.25
_LINE_SECONDS: Final = 5.0
_LONGEST_LINE: Final = 300
# Carriage return, and the code that clears a terminal's line
_CLEAR: Final = "\r\x1b[K"


class RunCounts:
    """Report on the written rows as it grows, and the pace of this part of the run.

    Attributes:
        rows_now: rows of this part; those of earlier parts are in the report alone.
        to_retry: rows without a verdict for a reason that may have passed.
        share: finished share of the file, in [0, 1], None if unknown.
    """

    def __init__(self, builder: ReportBuilder) -> None:
        self.builder = builder
        self.rows_now = self.to_retry = 0
        self.share: float | None = None
        self.start_part(0.0)

    def add(self, line: bytes, row: ResultRow) -> None:
        self.builder.add_row(row, size=len(line))
        self.to_retry += row.may_be_retried

    def start_part(self, share_before: float) -> None:
        self._started, self._share_before = time.monotonic(), share_before

    @property
    def seconds(self) -> float:
        return max(time.monotonic() - self._started, 1e-9)

    @property
    def eta_seconds(self) -> float | None:
        if self.share is None or self.share <= self._share_before:
            return None
        return (1.0 - self.share) * self.seconds / (self.share - self._share_before)


class ScoreProgress:
    """Progress of a scoring run, reported every `every_seconds`, and its end in two lines; `is_json`: for a program."""

    def __init__(self, stream: TextIO, *, is_json: bool = False) -> None:
        self._stream, self._is_live = stream, not is_json and stream.isatty()
        self.every_seconds = _REDRAWN_SECONDS if self._is_live else _LINE_SECONDS
        self._is_json = is_json
        self._pace: dict[str, Any] = {}

    def write_event(self, event: str, **fields: Any) -> None:
        self._stream.write(json.dumps({"event": event, **fields}, allow_nan=False) + "\n")
        self._stream.flush()

    def close(self) -> None:
        if self._is_live:
            self._stream.write(_CLEAR)

    def tell(self, run: RunCounts) -> None:
        if self._is_live:
            self._stream.write(_CLEAR + _line(run)[: shutil.get_terminal_size().columns - 1])
            self._stream.flush()
        elif run.rows_now and self._is_json:
            self.write_event("progress", **run.builder.tally.counts(), **_pace(run))
        elif run.rows_now:
            self._stream.write(f"plumbline: {_line(run)}\n")

    def end(self, run: RunCounts, left: str | None) -> None:
        """End the line; `left` is the reason why rows are left, None if none are and the report follows."""
        self.close()
        self._pace = _pace(run)
        if left is not None and self._is_json:
            self.write_event("ended", complete=False, left=left, **run.builder.tally.counts(), **self._pace)

    def close_with(self, report: Report) -> None:
        """Write the counts of all rows, and the row that is worst."""
        summary = report.summary
        if self._is_json:
            counts = summary.model_dump(
                include={"rows", "passed", "unsure", "degraded", "tier_counts", "usage", "gates"}
            )
            means = {each.tier: each.scores.faithfulness.mean for each in summary.tiers}
            fields = {**counts, **summary.statuses.model_dump(), "means": means, **self._pace}
            references = {name: mean.mean for name, mean in summary.reference if mean and mean.rows}
            fields |= {"reference_means": references} if references else {}
            self.write_event("ended", complete=True, left=None, **fields)
        else:
            self._stream.writelines(f"{line}\n" for line in closing_lines(report, self._pace.get("seconds")))


def closing_lines(report: Report, seconds: float | None = None) -> list[str]:
    """Return the end of a run for a person: the counts, and the worst row with the reason."""
    summary, statuses = report.summary, report.summary.statuses
    counts = {
        "passed": summary.passed,
        "did not pass": statuses.judged - summary.passed - summary.unsure,
        "unsure": summary.unsure,
        "abstained": statuses.abstained,
        "empty": statuses.empty_answer,
        "not judged": statuses.not_judged,
        "in error": statuses.error,
    }
    head = (
        f"{summary.rows:,} rows: {', '.join(f'{count:,} {word}' for word, count in counts.items() if count) or 'none'}"
    )
    if means := [f"{each.tier} {each.scores.faithfulness.mean:.3f}" for each in summary.tiers]:
        head += f"; faithfulness {', '.join(means)}"
    if summary.usage.calls:
        cost = "not known (PLUMBLINE_LLM_PRICES)" if summary.usage.cost is None else f"{summary.usage.cost:.6g}"
        head += f"; {summary.usage.calls:,} calls, cost {cost}"
    if seconds is not None:
        head += f"; {_duration(seconds)}"
    # Rows that failed come first, those without a verdict next; among equals the order in which they are listed
    gravity = {False: 0, None: 1, True: 2}
    ranked = sorted((*report.worst, *report.unscored), key=lambda kept: gravity[_passed(kept)])
    if not ranked:
        return [head]
    word = "lowest" if _passed(ranked[0]) else "worst"
    return [head, one_line(f"{word}: {_reason(ranked[0])}", most=_LONGEST_LINE)]


def _passed(kept: KeptRow) -> bool | None:
    return None if kept.row.result is None else kept.row.result.passed


def _reason(kept: KeptRow) -> str:
    row, result = kept.row, kept.row.result
    name = f"row {row.row}" if row.custom_id is None else row.custom_id
    if row.error is not None:
        return f"{name}: in error: {row.error.detail}"
    if result is None or result.faithfulness is None:
        tried = [f"{each.tier}: {each.reason}" for each in result.trace.attempts] if result else []
        return f"{name}: {'; '.join([kept.row.status.replace('_', ' '), *tried])}"
    word = {True: "passed", False: "did not pass", None: "unsure"}[result.passed]
    head = f"{name}: {word}, faithfulness {result.faithfulness:.3f} in tier {result.tier or 'none'}"
    if result.passed or (claim := worst_claim(kept)) is None:
        return head
    reason = f" ({claim.reason})" if claim.reason else ""
    return f"{head}; {claim.verdict.replace('_', ' ')}: {claim.text}{reason}"


def _line(run: RunCounts) -> str:
    eta, tally = run.eta_seconds, run.builder.tally
    usage, errors = tally.usage(), tally.statuses().error
    parts = [
        f"{tally.rows} rows",
        f"{run.rows_now / run.seconds:.1f}/s",
        *([] if run.share is None else [f"{run.share:.0%}"]),
        f"ETA {'?' if eta is None else _duration(eta)}",
        *(f"{tier} {rows}" for tier, rows in tally.tier_counts().model_dump().items() if rows),
    ]
    if usage.calls:
        parts.append(f"{usage.prompt_tokens + usage.completion_tokens:,} tokens")
        parts.append("cost ?" if usage.cost is None else f"cost {usage.cost:.4g}")
    if errors:
        parts.append(f"{errors} errors")
    return " ".join(parts)


def _pace(run: RunCounts) -> dict[str, Any]:
    eta = run.eta_seconds
    return {
        "rows_now": run.rows_now,
        "seconds": round(run.seconds, 1),
        "rows_per_second": round(run.rows_now / run.seconds, 2),
        "share": None if run.share is None else round(run.share, 4),
        "eta_seconds": None if eta is None else round(eta, 1),
    }


def _duration(seconds: float) -> str:
    whole = round(seconds)
    hours, rest = divmod(whole, 3_600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"
