"""Gates of `plumbline score` and `plumbline report`: read from the options, reported in files and lines."""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from plumbline.ground.errors import InvalidInput
from plumbline.ground.files import replace_file
from plumbline.rows.records.data_file import read_lines
from plumbline.rows.report.building import Report
from plumbline.rows.report.comparison import Baseline
from plumbline.rows.report.gates import CiGate, all_passed, parse_gate, parse_share, with_usual
from plumbline.rows.report.junit import junit_xml
from plumbline.rows.report.markdown import markdown_summary

_FILE_MODE: Final = 0o666
# Options by what they bound, in the order in which the gates are told
_OPTIONS: Final[Mapping[str, str]] = {
    "max_unsupported": "unsupported_share",
    "max_degraded": "degraded",
    "max_abstained": "abstained",
    "max_risk": "promise",
    "max_drop": "baseline",
    "min_judged": "judged",
    "min_decided": "decided",
}


class RunGates:
    """Gates on results, and the files of the reports on them, as the options give them.

    `usual_drop`: largest drop without `--max-drop`; None: the baseline is no gate then. `is_asked`: an option names a
    gate, or a file for their outcomes. Raises InvalidInput: one is malformed, or the baseline cannot be read.
    """

    def __init__(self, given: argparse.Namespace, *, usual_drop: float | None = 0.0) -> None:
        chosen = {option: getattr(given, option, None) for option in _OPTIONS}
        if given.baseline is not None and given.max_drop is None:
            chosen["max_drop"] = usual_drop
        self.gates = with_usual(
            [
                *map(parse_gate, given.fail_under),
                *(
                    CiGate(_OPTIONS[option], parse_share(str(share), place=f"--{option.replace('_', '-')}"))
                    for option, share in chosen.items()
                    if share is not None
                ),
            ]
        )
        self._given = given
        self.baseline = None if given.baseline is None else read_baseline(given.baseline)
        self.is_asked = bool(given.fail_under or given.junit or given.markdown) or any(
            share is not None for share in chosen.values()
        )

    def exit_code(self, report: Report, *, is_quiet: bool = False) -> int:
        """Write the reports and name the gates, or those that failed (`is_quiet`); return 1 if one failed, else 0."""
        given, outcomes = self._given, report.summary.gates
        if given.junit is not None:
            _write_report(given.junit, junit_xml(report))
        if given.markdown is not None:
            _write_report(given.markdown, markdown_summary(report, language=given.lang or "en").encode())
        for outcome in outcomes:
            if not outcome.passed or (self.is_asked and not is_quiet):
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
