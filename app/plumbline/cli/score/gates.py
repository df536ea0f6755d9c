"""Gates of `plumbline score` and `plumbline report`: parsed first, judged on all rows, reported."""

import argparse
import sys
from pathlib import Path
from typing import Final

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
    min_judged_outcome,
    parse_gate,
    parse_share,
    promise_outcomes,
)
from plumbline.rows.report.junit import junit_xml
from plumbline.rows.report.markdown import markdown_summary
from plumbline.schemas.report import ReportSummary

_FILE_MODE: Final = 0o666
_SHARES: Final = ("max_degraded", "max_abstained", "max_unsupported", "max_drop", "min_judged")


class RunGates:
    """Gates on results, and the files of the reports on them, as the options give them.

    Args:
        usual_drop: largest drop without `--max-drop`; None: the baseline is no gate then.

    Raises:
        InvalidInput: one is malformed, or the baseline cannot be read.
    """

    def __init__(self, given: argparse.Namespace, *, usual_drop: float | None = 0.0) -> None:
        gates = [parse_gate(spec) for spec in given.fail_under]
        self._max_risk: float | None = getattr(given, "max_risk", None)
        shares = {name: getattr(given, name) for name in _SHARES} | {"max_risk": self._max_risk}
        for name, value in shares.items():
            if value is not None:
                parse_share(str(value), place=f"--{name.replace('_', '-')}")
        if given.max_unsupported is not None:
            gates.append(CiGate("unsupported_share", given.max_unsupported))
        self._gates, self._given = gates, given
        self.baseline = None if given.baseline is None else read_baseline(given.baseline)
        self._max_drop: float | None = usual_drop if given.max_drop is None else given.max_drop

    def outcomes(self, summary: ReportSummary) -> list[GateOutcome]:
        outcomes = [outcome for gate in self._gates for outcome in gate.outcomes(summary)]
        if self._given.max_degraded is not None:
            outcomes.append(max_degraded_outcome(summary, self._given.max_degraded))
        if self._given.max_abstained is not None:
            outcomes.append(max_abstained_outcome(summary, self._given.max_abstained))
        if self._max_risk is not None:
            outcomes += promise_outcomes(summary, self._max_risk)
        if self.baseline is not None and self._max_drop is not None:
            outcomes += baseline_outcomes(summary, max_drop=self._max_drop)
        if outcomes and self._given.min_judged > 0:
            outcomes.append(min_judged_outcome(summary, self._given.min_judged))
        return outcomes

    def build_report(self, lines: Path | None, *, name: str) -> Report:
        """Return the report on the lines of one run. Raises InvalidInput: `lines` is None, they are gone."""
        if lines is None:
            raise InvalidInput("its lines are gone with the run that made the table; write jsonl for gates", place=name)
        builder = ReportBuilder(baseline=self.baseline)
        for line in read_lines(lines):
            builder.add(line)
        return builder.report()

    def exit_code(self, report: Report, *, is_quiet: bool = False) -> int:
        """Judge the gates and write the reports; return 0, or 1 if a gate failed.

        Args:
            is_quiet: name only the gates that failed.

        Raises:
            InvalidInput: something cannot be written.
        """
        outcomes = self.outcomes(report.summary)
        if self._given.junit is not None:
            _write_report(self._given.junit, junit_xml(report, outcomes, with_rows=self._given.junit_rows))
        if self._given.markdown is not None:
            _write_report(
                self._given.markdown, markdown_summary(report, outcomes, language=self._given.lang or "en").encode()
            )
        for outcome in outcomes:
            if not outcome.passed or not is_quiet:
                word = "passed" if outcome.passed else "FAILED"
                sys.stderr.write(f"gate {outcome.name}: {word}: wanted {outcome.wanted}, got {outcome.got}\n")
        return 0 if all_passed(outcomes) else 1


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
