"""`plumbline report`: files of results as one HTML page or as JSON, and the gates on all of them together."""

import argparse
import sys
from collections.abc import Mapping
from contextlib import ExitStack

from plumbline.cli import Commands, build_command
from plumbline.cli.score.gates import RunGates
from plumbline.cli.score.options import check_gate_options
from plumbline.cli.score.source import open_source
from plumbline.ground.errors import InvalidInput
from plumbline.ground.files import replace_file
from plumbline.judging.text.sample import Sample
from plumbline.rows.records.data_file import read_lines
from plumbline.rows.records.record import Record
from plumbline.rows.report.building import Report, ReportBuilder
from plumbline.rows.report.labelled_rates import read_labels
from plumbline.rows.report.page import render_html
from plumbline.schemas.report import BadLine


def add_command(commands: Commands) -> None:
    build_command(commands, "report", _report)


def _report(options: argparse.Namespace) -> int:
    check_gate_options(options)
    gates = RunGates(options, usual_drop=None)
    report = _build(options, gates)
    if options.output is not None or options.format is not None or not gates.is_asked:
        _write(report, options)
    return gates.exit_code(report)


def _write(report: Report, options: argparse.Namespace) -> None:
    format_wanted = options.format or ("json" if options.output and options.output.suffix == ".json" else "html")
    if format_wanted == "json":
        text = report.summary.model_dump_json(indent=1) + "\n"
    else:
        title = options.title or options.results[0].name
        text = render_html(report, language=options.lang, title=title, samples=_samples(report, options))
    if options.output is None:
        sys.stdout.buffer.write(text.encode())
    else:
        replace_file(options.output.resolve(), text.encode(), mode=0o666)


def _samples(report: Report, options: argparse.Namespace) -> Mapping[str, Sample]:
    """Return the samples of the shown rows by custom_id; raise InvalidInput if the data has none of them."""
    if options.data is None:
        return {}
    wanted = {kept.row.custom_id for kept in (*report.worst, *report.unscored)} - {None}
    with ExitStack() as stack:
        records = stack.enter_context(open_source(stack, options).open())
        read = (each for each in records if isinstance(each, Record))
        found = {each.custom_id: each.sample for each in read if each.custom_id in wanted}
    if wanted and not found:
        detail = f"has none of the rows of {options.results[0].name}; expected the file that was scored"
        raise InvalidInput(detail, place=f"--data {options.data}")
    return found


def _build(options: argparse.Namespace, gates: RunGates) -> Report:
    paths = options.results
    if len({path.resolve() for path in paths}) < len(paths):
        raise InvalidInput("RESULTS.jsonl: a file is named twice; its rows would count twice")
    labels = {} if options.labels is None else read_labels(read_lines(options.labels), name=options.labels.name)
    builder = ReportBuilder(worst=options.worst, baseline=gates.baseline, labels=labels, gates=gates.gates)
    for path in paths:
        builder.begin_file("" if len(paths) == 1 else path.name)
        first: BadLine | None = None
        rows_before = builder.rows
        for line in read_lines(path):
            bad = builder.add(line)
            first = first or bad
        # A shard of a short file may be empty
        if builder.rows == rows_before and (first is not None or (path == paths[-1] and not rows_before)):
            why = f" (line {first.line}: {first.problem})" if first else ""
            detail = f"contains no results{why}; expected what `plumbline score DATA -o results.jsonl` writes"
            raise InvalidInput(detail, place=path.name)
    report = builder.report()
    shown, count = report.summary.first_bad_lines, report.summary.bad_lines
    for bad in shown:
        where = f"{paths[0].name}:{bad.line}:" if len(paths) == 1 else f"line {bad.line} of"
        sys.stderr.write(f"{where} {bad.problem}: skipped\n")
    if count > len(shown):
        sys.stderr.write(
            f"{paths[0].name if len(paths) == 1 else 'results'}: {count - len(shown):,} more lines skipped\n"
        )
    return report
