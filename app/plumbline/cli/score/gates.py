"""Gates of `plumbline score`: parsed before a row is scored, judged when all are, reported."""

import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from plumbline.cli.score.request import GateRequest
from plumbline.ground.errors import InvalidInput
from plumbline.ground.files import replace_file

if TYPE_CHECKING:
    from plumbline.rows.report.baseline import Baseline
    from plumbline.rows.report.building import Report
    from plumbline.rows.report.gates import CiGate, GateOutcome

_PASSED = 0
_FAILED = 1
_FILE_MODE = 0o666


def load_gates(request: GateRequest) -> "RunGates | None":
    """Return the gates and reports of a request; None if it has none.

    Raises:
        InvalidInput: a gate is malformed, or the baseline cannot be read.
    """
    return None if request.is_empty else RunGates(request)


class RunGates:
    """Gates and reports of one run, checked when made."""

    def __init__(self, request: GateRequest) -> None:
        # A quarter of a second of import, for runs that have gates alone
        from plumbline.rows.report.gates import parse_gate, parse_share  # noqa: PLC0415

        self._request = request
        self._gates: list[CiGate] = [parse_gate(spec) for spec in request.fail_under]
        for name, value in (("max-degraded", request.max_degraded), ("max-drop", request.max_drop)):
            if value is not None:
                parse_share(str(value), place=f"--{name}")
        self._baseline = None if request.baseline is None else _load_baseline(request.baseline)

    def exit_code(self, lines: Path | None, *, name: str) -> int:
        """Judge the gates and write the reports; return 0, or 1 if a gate failed.

        Args:
            lines: the results as lines; None if there are none any more.
            name: name of the results for messages.

        Raises:
            InvalidInput: there are no lines, or something cannot be written.
        """
        from plumbline.rows.report.building import ReportBuilder  # noqa: PLC0415
        from plumbline.rows.report.gates import all_passed  # noqa: PLC0415

        if lines is None:
            raise InvalidInput("its lines are gone with the run that made the table; write jsonl for gates", place=name)
        builder = ReportBuilder(baseline=self._baseline)
        for line in _lines(lines):
            builder.add(line)
        report = builder.report()
        outcomes = self._outcomes(report)
        self._write(report, outcomes)
        for outcome in outcomes:
            if not outcome.passed or not self._request.quiet:
                word = "passed" if outcome.passed else "FAILED"
                sys.stderr.write(f"gate {outcome.name}: {word}: wanted {outcome.wanted}, got {outcome.got}\n")
        return _PASSED if all_passed(outcomes) else _FAILED

    def _outcomes(self, report: "Report") -> tuple["GateOutcome", ...]:
        from plumbline.rows.report.gates import baseline_outcomes, max_degraded_outcome  # noqa: PLC0415

        request, summary = self._request, report.summary
        outcomes = [outcome for gate in self._gates for outcome in gate.outcomes(summary)]
        if request.max_degraded is not None:
            outcomes.append(max_degraded_outcome(summary, request.max_degraded))
        if self._baseline is not None:
            outcomes += baseline_outcomes(summary, max_drop=request.max_drop or 0.0)
        return tuple(outcomes)

    def _write(self, report: "Report", outcomes: Sequence["GateOutcome"]) -> None:
        if self._request.junit is not None:
            from plumbline.rows.report.junit import junit_xml  # noqa: PLC0415

            _write_report(self._request.junit, junit_xml(report, outcomes))
        if self._request.markdown is not None:
            from plumbline.rows.report.markdown import markdown_summary  # noqa: PLC0415

            _write_report(self._request.markdown, markdown_summary(report, outcomes).encode())


def _load_baseline(path: Path) -> "Baseline":
    from plumbline.rows.report.baseline import Baseline  # noqa: PLC0415

    baseline = Baseline(_lines(path))
    if not baseline.rows:
        raise InvalidInput("holds no row of results", place=path.name)
    return baseline


def _lines(path: Path) -> Iterator[bytes | None]:
    from plumbline.rows.records.data_file import TextLines  # noqa: PLC0415

    with contextlib.closing(TextLines(path)) as lines:
        while (line := lines.next_line()) is not None:
            yield line.data


def _write_report(path: Path, content: bytes) -> None:
    """Write atomically; `-` is standard output."""
    if str(path) == "-":
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    else:
        replace_file(path.resolve(), content, mode=_FILE_MODE)
