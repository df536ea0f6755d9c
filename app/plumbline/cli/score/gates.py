"""Gates of `plumbline score` and `plumbline report`: parsed first, judged on all rows, reported."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from plumbline.ground.errors import InvalidInput
from plumbline.ground.files import replace_file
from plumbline.rows.records.data_file import read_lines
from plumbline.rows.report.baseline import Baseline
from plumbline.rows.report.building import Report, ReportBuilder
from plumbline.rows.report.gates import (
    CiGate,
    GateOutcome,
    all_passed,
    baseline_outcomes,
    max_abstained_outcome,
    max_degraded_outcome,
    parse_gate,
    parse_share,
    promise_outcomes,
)
from plumbline.rows.report.junit import junit_xml
from plumbline.rows.report.markdown import markdown_summary
from plumbline.schemas.report import ReportLanguage, ReportSummary

_FILE_MODE = 0o666


@dataclass(frozen=True, slots=True, kw_only=True)
class RunGates:
    """Gates on results, and the files of the reports on them.

    Args:
        max_drop: None if the baseline is no gate.
        junit_rows: rows are tests, too.
    """

    gates: Sequence[CiGate]
    max_degraded: float | None
    max_abstained: float | None
    baseline: Baseline | None
    max_drop: float | None
    junit: Path | None
    junit_rows: bool
    markdown: Path | None
    language: ReportLanguage
    max_risk: float | None = None

    def outcomes(self, summary: ReportSummary) -> list[GateOutcome]:
        outcomes = [outcome for gate in self.gates for outcome in gate.outcomes(summary)]
        if self.max_degraded is not None:
            outcomes.append(max_degraded_outcome(summary, self.max_degraded))
        if self.max_abstained is not None:
            outcomes.append(max_abstained_outcome(summary, self.max_abstained))
        if self.max_risk is not None:
            outcomes += promise_outcomes(summary, self.max_risk)
        if self.baseline is not None and self.max_drop is not None:
            outcomes += baseline_outcomes(summary, max_drop=self.max_drop)
        return outcomes

    def exit_code(self, report: Report, *, is_quiet: bool = False) -> int:
        """Judge the gates and write the reports; return 0, or 1 if a gate failed.

        Args:
            is_quiet: name only the gates that failed.

        Raises:
            InvalidInput: something cannot be written.
        """
        outcomes = self.outcomes(report.summary)
        if self.junit is not None:
            _write_report(self.junit, junit_xml(report, outcomes, with_rows=self.junit_rows))
        if self.markdown is not None:
            _write_report(self.markdown, markdown_summary(report, outcomes, language=self.language).encode())
        for outcome in outcomes:
            if not outcome.passed or not is_quiet:
                word = "passed" if outcome.passed else "FAILED"
                sys.stderr.write(f"gate {outcome.name}: {word}: wanted {outcome.wanted}, got {outcome.got}\n")
        return 0 if all_passed(outcomes) else 1


def build_report(lines: Path | None, gates: RunGates, *, name: str) -> Report:
    """Return the report on the lines of one run. Raises InvalidInput: `lines` is None, they are gone."""
    if lines is None:
        raise InvalidInput("its lines are gone with the run that made the table; write jsonl for gates", place=name)
    builder = ReportBuilder(baseline=gates.baseline)
    for line in read_lines(lines):
        builder.add(line)
    return builder.report()


def parse_gates(given: argparse.Namespace, *, usual_drop: float | None = 0.0) -> RunGates:
    """Return the gates of options.

    Args:
        usual_drop: that without `--max-drop`; None: the baseline is no gate then.

    Raises:
        InvalidInput: one is malformed, or the baseline cannot be read.
    """
    gates = [parse_gate(spec) for spec in given.fail_under]
    for name in ("max_degraded", "max_abstained", "max_unsupported", "max_drop", "max_risk"):
        if (value := getattr(given, name, None)) is not None:
            parse_share(str(value), place=f"--{name.replace('_', '-')}")
    if given.max_unsupported is not None:
        gates.append(CiGate("unsupported_share", given.max_unsupported))
    return RunGates(
        gates=gates,
        max_degraded=given.max_degraded,
        max_abstained=given.max_abstained,
        baseline=None if given.baseline is None else read_baseline(given.baseline),
        max_drop=usual_drop if given.max_drop is None else given.max_drop,
        junit=given.junit,
        junit_rows=given.junit_rows,
        markdown=given.markdown,
        language=given.lang,
        max_risk=getattr(given, "max_risk", None),
    )


def read_baseline(path: Path) -> Baseline:
    """Read earlier results. Raises InvalidInput: the file cannot be read, or holds none."""
    baseline = Baseline(read_lines(path))
    if not baseline.rows:
        raise InvalidInput("contains no results", place=path.name)
    return baseline


def _write_report(path: Path, content: bytes) -> None:
    """Write atomically; `-` is standard output."""
    if str(path) == "-":
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    else:
        replace_file(path.resolve(), content, mode=_FILE_MODE)
