"""Gates of `plumbline score`: parsed before a row is scored, judged when all are, reported."""

import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from plumbline.ground.errors import InvalidInput
from plumbline.ground.files import replace_file

_FILE_MODE = 0o666


class RunGates:
    """Gates of one run and the reports on them; None if not given.

    Args:
        baseline: earlier results.
        junit, markdown: files of the reports; `junit_rows`: rows are tests, too.

    Raises:
        InvalidInput: a gate is malformed, or the baseline cannot be read.
    """

    def __init__(
        self,
        fail_under: Sequence[str],
        *,
        max_degraded: float | None = None,
        max_unsupported: float | None = None,
        baseline: Path | None = None,
        max_drop: float | None = None,
        junit: Path | None = None,
        junit_rows: bool = False,
        markdown: Path | None = None,
    ) -> None:
        given = (max_degraded, max_unsupported, baseline, junit, markdown)
        self._is_empty = not fail_under and all(each is None for each in given)
        if self._is_empty:
            return
        # A quarter of a second of import, for runs that have gates alone
        from plumbline.rows.report.baseline import Baseline  # noqa: PLC0415
        from plumbline.rows.report.gates import CiGate, parse_gate, parse_share  # noqa: PLC0415

        self._gates: list[CiGate] = [parse_gate(spec) for spec in fail_under]
        shares = {"max-degraded": max_degraded, "max-unsupported": max_unsupported, "max-drop": max_drop}
        for name, value in shares.items():
            if value is not None:
                parse_share(str(value), place=f"--{name}")
        if max_unsupported is not None:
            self._gates.append(CiGate("unsupported_share", max_unsupported))
        self._max_degraded, self._junit, self._junit_rows, self._markdown = max_degraded, junit, junit_rows, markdown
        self._max_drop = max_drop or 0.0
        self._baseline: Baseline | None = None
        if baseline is not None:
            self._baseline = Baseline(_lines(baseline))
            if not self._baseline.rows:
                raise InvalidInput("holds no row of results", place=baseline.name)

    def exit_code(self, lines: Path | None, *, name: str, is_quiet: bool) -> int:
        """Judge the gates and write the reports; return 0, or 1 if a gate failed.

        Args:
            lines: the results as lines; None if there are none any more.
            name: name of the results for messages.
            is_quiet: name only the gates that failed.

        Raises:
            InvalidInput: there are no lines, or something cannot be written.
        """
        if self._is_empty:
            return 0
        from plumbline.rows.report.building import ReportBuilder  # noqa: PLC0415
        from plumbline.rows.report.gates import all_passed, baseline_outcomes, max_degraded_outcome  # noqa: PLC0415
        from plumbline.rows.report.junit import junit_xml  # noqa: PLC0415
        from plumbline.rows.report.markdown import markdown_summary  # noqa: PLC0415

        if lines is None:
            raise InvalidInput("its lines are gone with the run that made the table; write jsonl for gates", place=name)
        builder = ReportBuilder(baseline=self._baseline)
        for line in _lines(lines):
            builder.add(line)
        report = builder.report()
        outcomes = [outcome for gate in self._gates for outcome in gate.outcomes(report.summary)]
        if self._max_degraded is not None:
            outcomes.append(max_degraded_outcome(report.summary, self._max_degraded))
        if self._baseline is not None:
            outcomes += baseline_outcomes(report.summary, max_drop=self._max_drop)
        if self._junit is not None:
            _write_report(self._junit, junit_xml(report, outcomes, with_rows=self._junit_rows))
        if self._markdown is not None:
            _write_report(self._markdown, markdown_summary(report, outcomes).encode())
        for outcome in outcomes:
            if not outcome.passed or not is_quiet:
                word = "passed" if outcome.passed else "FAILED"
                sys.stderr.write(f"gate {outcome.name}: {word}: wanted {outcome.wanted}, got {outcome.got}\n")
        return 0 if all_passed(outcomes) else 1


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
