"""`plumbline report`: a file of results as one HTML page, or as JSON."""

import argparse
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from plumbline.ground.errors import InvalidInput

if TYPE_CHECKING:
    from plumbline.rows.report.building import Report

    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_DEFAULT_WORST = 200
_MOST_WORST = 10_000
_MOST_SAID = 20


def add_command(commands: "Commands") -> None:
    """Adds `report` to the parser."""
    command = commands.add_parser(
        "report", help="turn a file of results into one HTML page: scores with intervals, and the worst rows"
    )
    command.add_argument(
        "results", type=Path, metavar="RESULTS.jsonl", help="JSON Lines of `plumbline score` or of a job; .gz too"
    )
    command.add_argument("-o", "--output", type=Path, metavar="FILE", help="default: standard output")
    command.add_argument(
        "--baseline", type=Path, metavar="FILE", help="earlier results to compare with, paired by custom_id and tier"
    )
    command.add_argument("--lang", choices=("en", "zh"), default="en", help="language of the page (default: en)")
    command.add_argument("--format", choices=("html", "json"), help="default: by the suffix of FILE, else html")
    command.add_argument("--title", metavar="TEXT", help="the heading (default: the name of the file of results)")
    command.add_argument(
        "--worst", type=_worst, default=_DEFAULT_WORST, metavar="N", help="rows to show, 0 to 10,000 (default: 200)"
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
        _write_whole(options.output, text.encode())
    return 0


def _built(options: argparse.Namespace) -> "Report":
    from plumbline.rows.report.baseline import Baseline  # noqa: PLC0415
    from plumbline.rows.report.building import ReportBuilder  # noqa: PLC0415

    baseline = None
    if options.baseline is not None:
        baseline = Baseline(_lines(options.baseline))
        if not baseline.rows:
            raise InvalidInput("holds no row of results", place=options.baseline.name)
    builder = ReportBuilder(worst=options.worst, baseline=baseline)
    said = 0
    for line in _lines(options.results):
        bad = builder.add(line)
        if bad is not None:
            said += 1
            if said <= _MOST_SAID:
                sys.stderr.write(f"{options.results.name}:{bad.line}: {bad.problem}: skipped\n")
    if said > _MOST_SAID:
        sys.stderr.write(f"{options.results.name}: {said - _MOST_SAID:,} more lines skipped\n")
    if not builder.rows:
        raise InvalidInput("holds no row of results", place=options.results.name)
    return builder.report()


def _lines(path: Path) -> Iterator[bytes | None]:
    """The lines of a file; None for one that is too long."""
    from plumbline.rows.records.data_file import TextLines  # noqa: PLC0415

    lines = TextLines(path)
    try:
        while (line := lines.next_line()) is not None:
            yield line.data
    finally:
        lines.close()


def _write_whole(path: Path, content: bytes) -> None:
    """Under another name until it is whole, so that nobody reads half of it."""
    target = path.resolve()
    partial = target.with_name(f"{target.name}.partial")
    if target.exists() and not target.is_file():
        raise InvalidInput("is no file; expected the name of a new file or of one to replace", place=path.name)
    try:
        partial.write_bytes(content)
        partial.replace(target)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise InvalidInput(f"cannot be written ({error.strerror})", place=path.name) from error
