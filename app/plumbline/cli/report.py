"""`plumbline report`: a file of results as one HTML page, or as JSON."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from plumbline.ground.errors import InvalidInput
from plumbline.ground.files import replace_file

if TYPE_CHECKING:
    from plumbline.rows.report.building import Report
    from plumbline.schemas.report import BadLine

    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_MOST_WORST = 10_000


def add_command(commands: "Commands") -> None:
    """Add `report` to the parser."""
    command = commands.add_parser(
        "report", help="turn a results file into one HTML page: scores with intervals and the worst rows"
    )
    command.add_argument(
        "results", type=Path, metavar="RESULTS.jsonl", help="JSON Lines from `plumbline score` or a job, also .gz"
    )
    command.add_argument("-o", "--output", type=Path, metavar="FILE", help="output file (default: standard output)")
    command.add_argument(
        "--baseline", type=Path, metavar="FILE", help="earlier results to compare with, by custom_id and tier"
    )
    command.add_argument("--lang", choices=("en", "zh"), default="en", help="language of the page (default: en)")
    command.add_argument("--format", choices=("html", "json"), help="default: by the suffix of FILE, else html")
    command.add_argument("--title", metavar="TEXT", help="page heading (default: the name of the results file)")
    command.add_argument(
        "--worst", type=_worst, default=200, metavar="N", help="rows to show, 0 to 10,000 (default: %(default)s)"
    )
    command.set_defaults(run=_report)


def _worst(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= _MOST_WORST):
        raise argparse.ArgumentTypeError(f"found {text!r}; expected a whole number from 0 to {_MOST_WORST:,}")
    return int(text)


def _report(options: argparse.Namespace) -> int:
    report = _built(options)
    format_wanted = options.format or ("json" if options.output and options.output.suffix == ".json" else "html")
    if format_wanted == "json":
        text = report.summary.model_dump_json(indent=1) + "\n"
    else:
        # Tenths of a second of import that the other commands do not pay.
        from plumbline.rows.report.page import render_html  # noqa: PLC0415

        text = render_html(report, language=options.lang, title=options.title or options.results.name)
    if options.output is None:
        sys.stdout.buffer.write(text.encode())
    else:
        replace_file(options.output.resolve(), text.encode(), mode=0o666)
    return 0


def _built(options: argparse.Namespace) -> "Report":
    from plumbline.cli.score.gates import read_baseline  # noqa: PLC0415
    from plumbline.rows.records.data_file import read_lines  # noqa: PLC0415
    from plumbline.rows.report.building import ReportBuilder  # noqa: PLC0415

    baseline = None if options.baseline is None else read_baseline(options.baseline)
    builder = ReportBuilder(worst=options.worst, baseline=baseline)
    first: BadLine | None = None
    for line in read_lines(options.results):
        bad = builder.add(line)
        first = first or bad
    name = options.results.name
    if not builder.rows:
        why = f" (line {first.line}: {first.problem})" if first else ""
        detail = f"contains no results{why}; expected what `plumbline score DATA -o results.jsonl` writes"
        raise InvalidInput(detail, place=name)
    report = builder.report()
    told, count = report.summary.first_bad_lines, report.summary.bad_lines
    sys.stderr.writelines(f"{name}:{bad.line}: {bad.problem}: skipped\n" for bad in told)
    if count > len(told):
        sys.stderr.write(f"{name}: {count - len(told):,} more lines skipped\n")
    return report
