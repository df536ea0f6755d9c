"""The gates of `plumbline score`: read before a row is scored, judged when all are, told and written."""

import argparse
import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from plumbline.ground.errors import InvalidInput

if TYPE_CHECKING:
    from plumbline.rows.report.baseline import Baseline
    from plumbline.rows.report.building import Report
    from plumbline.rows.report.gates import Gate, GateOutcome

_PASSED = 0
_FAILED = 1


class Verdict(Protocol):
    """What is said of the finished results."""

    def exit_code(self, lines: Path | None, *, name: str) -> int:
        """0, or 1 when a gate failed.

        Args:
            lines: the results as lines; None where there are none any more.
            name: what the results are called.

        Raises:
            InvalidInput: there are no lines, or something cannot be written.
        """


def verdict_of(options: argparse.Namespace) -> Verdict | None:
    """The gates and reports that the options ask for; None when they ask for none.

    Raises:
        InvalidInput: a gate that is none, or a baseline that cannot be read.
    """
    if options.max_drop is not None and options.baseline is None:
        raise InvalidInput("--max-drop: needs --baseline, the earlier results")
    wanted = (options.fail_under, options.max_degraded, options.baseline, options.junit, options.markdown)
    if all(each is None or each == [] for each in wanted):
        return None
    return _Gates(options)


class _Gates:
    def __init__(self, options: argparse.Namespace) -> None:
        # A quarter of a second of import, for runs that have gates alone
        from plumbline.rows.report.gates import parse_gate, parse_share  # noqa: PLC0415

        self._options = options
        self._gates: list[Gate] = [parse_gate(spec) for spec in options.fail_under]
        for name in ("max_degraded", "max_drop"):
            value = getattr(options, name)
            if value is not None:
                parse_share(str(value), place=f"--{name.replace('_', '-')}")
        self._baseline = None if options.baseline is None else _baseline(options.baseline)

    def exit_code(self, lines: Path | None, *, name: str) -> int:
        """As `Verdict` has it."""
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
            if not outcome.passed or not self._options.quiet:
                word = "passed" if outcome.passed else "FAILED"
                sys.stderr.write(f"gate {outcome.name}: {word}: wanted {outcome.wanted}, got {outcome.got}\n")
        return _PASSED if all_passed(outcomes) else _FAILED

    def _outcomes(self, report: "Report") -> tuple["GateOutcome", ...]:
        from plumbline.rows.report.gates import baseline_outcomes, max_degraded_outcome  # noqa: PLC0415

        options, summary = self._options, report.summary
        outcomes = [outcome for gate in self._gates for outcome in gate.outcomes(summary)]
        if options.max_degraded is not None:
            outcomes.append(max_degraded_outcome(summary, options.max_degraded))
        if self._baseline is not None:
            outcomes += baseline_outcomes(summary, max_drop=options.max_drop or 0.0)
        return tuple(outcomes)

    def _write(self, report: "Report", outcomes: Sequence["GateOutcome"]) -> None:
        if self._options.junit is not None:
            from plumbline.rows.report.junit import junit_xml  # noqa: PLC0415

            _write_whole(self._options.junit, junit_xml(report, outcomes))
        if self._options.markdown is not None:
            from plumbline.rows.report.markdown import markdown_summary  # noqa: PLC0415

            _write_whole(self._options.markdown, markdown_summary(report, outcomes).encode())


def _baseline(path: Path) -> "Baseline":
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


def _write_whole(path: Path, content: bytes) -> None:
    """Under another name until it is whole; `-` is standard output."""
    if str(path) == "-":
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    target = path.resolve()
    partial = target.with_name(f"{target.name}.partial")
    try:
        partial.write_bytes(content)
        partial.replace(target)
    except OSError as error:
        raise InvalidInput(f"cannot be written ({error.strerror})", place=path.name) from error
