"""Gates of `plumbline score`: parsed before a row is scored, judged when all are, reported."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from plumbline.ground.errors import InvalidInput
from plumbline.ground.files import replace_file
from plumbline.rows.records.data_file import read_lines
from plumbline.rows.report.baseline import Baseline
from plumbline.rows.report.building import ReportBuilder
from plumbline.rows.report.gates import (
    CiGate,
    all_passed,
    baseline_outcomes,
    max_abstained_outcome,
    max_degraded_outcome,
    parse_gate,
    parse_share,
)
from plumbline.rows.report.junit import junit_xml
from plumbline.rows.report.markdown import markdown_summary

_FILE_MODE = 0o666


@dataclass(frozen=True, slots=True, kw_only=True)
class RunGates:
    """Gates of one run, and the files of the reports on them; `junit_rows`: rows are tests, too."""

    gates: Sequence[CiGate]
    max_degraded: float | None
    max_abstained: float | None
    baseline: Baseline | None
    max_drop: float
    junit: Path | None
    junit_rows: bool
    markdown: Path | None

    def exit_code(self, lines: Path | None, *, name: str, is_quiet: bool) -> int:
        """Judge the gates and write the reports; return 0, or 1 if a gate failed.

        Args:
            lines: the results as lines; None if there are none any more.
            name: name of the results for messages.
            is_quiet: name only the gates that failed.

        Raises:
            InvalidInput: there are no lines, or something cannot be written.
        """
        if lines is None:
            raise InvalidInput("its lines are gone with the run that made the table; write jsonl for gates", place=name)
        builder = ReportBuilder(baseline=self.baseline)
        for line in read_lines(lines):
            builder.add(line)
        report = builder.report()
        outcomes = [outcome for gate in self.gates for outcome in gate.outcomes(report.summary)]
        if self.max_degraded is not None:
            outcomes.append(max_degraded_outcome(report.summary, self.max_degraded))
        if self.max_abstained is not None:
            outcomes.append(max_abstained_outcome(report.summary, self.max_abstained))
        if self.baseline is not None:
            outcomes += baseline_outcomes(report.summary, max_drop=self.max_drop)
        if self.junit is not None:
            _write_report(self.junit, junit_xml(report, outcomes, with_rows=self.junit_rows))
        if self.markdown is not None:
            _write_report(self.markdown, markdown_summary(report, outcomes).encode())
        for outcome in outcomes:
            if not outcome.passed or not is_quiet:
                word = "passed" if outcome.passed else "FAILED"
                sys.stderr.write(f"gate {outcome.name}: {word}: wanted {outcome.wanted}, got {outcome.got}\n")
        return 0 if all_passed(outcomes) else 1


def parse_gates(given: argparse.Namespace) -> RunGates:
    """Return the gates of a run. Raises InvalidInput: one is malformed, or the baseline cannot be read."""
    gates = [parse_gate(spec) for spec in given.fail_under]
    for name in ("max_degraded", "max_abstained", "max_unsupported", "max_drop"):
        if (value := getattr(given, name)) is not None:
            parse_share(str(value), place=f"--{name.replace('_', '-')}")
    if given.max_unsupported is not None:
        gates.append(CiGate("unsupported_share", given.max_unsupported))
    return RunGates(
        gates=gates,
        max_degraded=given.max_degraded,
        max_abstained=given.max_abstained,
        baseline=None if given.baseline is None else read_baseline(given.baseline),
        max_drop=given.max_drop or 0.0,
        junit=given.junit,
        junit_rows=given.junit_rows,
        markdown=given.markdown,
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
