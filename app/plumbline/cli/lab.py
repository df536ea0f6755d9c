"""`plumbline lab`: build, time and compare retrievers as an experiment file says."""

import argparse
import sys
from pathlib import Path

from plumbline.cli import Commands
from plumbline.cli.progress import LabProgress
from plumbline.extras.lab.experiment import Experiment, read_experiment
from plumbline.extras.lab.results import FORMATS, RESULTS, format_table, load_results
from plumbline.extras.lab.running import run_experiment
from plumbline.ground.errors import InvalidInput
from plumbline.ground.files import read_file

_SYSTEM_FAILED = 1
_INTERRUPTED = 130


def add_command(commands: Commands) -> None:
    """Add `lab` to the parser."""
    lab = commands.add_parser("lab", help="build, time and compare retrievers as an experiment file says")
    actions = lab.add_subparsers(required=True, metavar="ACTION")
    run = actions.add_parser("run", help="run or resume an experiment and print the table")
    _add_file(run)
    add = run.add_argument
    add("--out", type=Path, metavar="DIR", help="results folder (default: the experiment file without its suffix)")
    add("--fresh", action="store_true", help="measure again what is measured already")
    add(
        "--only", action="append", default=[], metavar="NAME", help="repeatable: a system, retriever, blend or chunking"
    )
    add("--quiet", action="store_true", help="hide progress on standard error")
    run.set_defaults(run=_run)
    check = actions.add_parser("check", help="list the systems of an experiment without running them")
    _add_file(check)
    check.set_defaults(run=_check)
    table = actions.add_parser("table", help="print the table of existing results")
    table.add_argument("folder", type=Path, metavar="DIR")
    table.add_argument(
        "--format",
        choices=(*sorted(FORMATS), "json"),
        default="text",
        help="text: aligned columns for a terminal; json: all results (default: %(default)s)",
    )
    table.set_defaults(run=_table)


def _add_file(action: argparse.ArgumentParser) -> None:
    action.add_argument("experiment", type=Path, metavar="EXPERIMENT.toml")
    action.add_argument(
        "--data", type=Path, metavar="DIR", help="folder to which paths in the file are relative (default: the file's)"
    )


def _run(options: argparse.Namespace) -> int:
    experiment = _experiment(options)
    out = options.out or options.experiment.with_suffix("")
    progress = LabProgress(sys.stderr, is_quiet=options.quiet)
    try:
        results = run_experiment(
            experiment,
            base=(options.data or options.experiment.parent).resolve(),
            out=out,
            progress=progress.tell,
            only=options.only,
            fresh=options.fresh,
        )
    except KeyboardInterrupt:
        sys.stderr.write("plumbline: stopped; finished systems are kept. Run the same command to resume.\n")
        return _INTERRUPTED
    finally:
        progress.close()
    sys.stdout.write(format_table(results, "text"))
    sys.stderr.writelines(f"{each.name}: {line}\n" for each in results.systems for line in each.warnings)
    sys.stderr.writelines(f"plumbline: {name} failed: {why}\n" for name, why in results.failures.items())
    return _SYSTEM_FAILED if results.failures else 0


def _check(options: argparse.Namespace) -> int:
    sys.stdout.writelines(
        f"{each.name}{' = ' + ' + '.join(each.parts) if each.parts else ''}\n"
        for each in _experiment(options).systems()
    )
    return 0


def _table(options: argparse.Namespace) -> int:
    results = load_results(options.folder)
    if options.format == "json":
        sys.stdout.write(read_file(options.folder / RESULTS).decode())
    else:
        sys.stdout.write(format_table(results, options.format))
    return 0


def _experiment(options: argparse.Namespace) -> Experiment:
    if options.data is not None and not options.data.is_dir():
        raise InvalidInput("is no folder", place=f"--data {options.data.name}")
    return read_experiment(options.experiment)
