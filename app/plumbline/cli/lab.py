"""`plumbline lab`: build, time and compare retrievers as an experiment file says."""

import argparse
import sys

from plumbline.cli import Commands, build_command
from plumbline.cli.progress import LabProgress
from plumbline.extras.lab.experiment import Experiment, read_experiment
from plumbline.extras.lab.results import FORMATS, RESULTS, format_table, load_results
from plumbline.extras.lab.running import run_experiment
from plumbline.ground.errors import InvalidInput
from plumbline.ground.files import read_file

_SYSTEM_FAILED = 1
_INTERRUPTED = 130


def add_command(commands: Commands) -> None:
    build_command(commands, "lab", {"run": _run, "check": _check, "table": _table}, formats=(*sorted(FORMATS), "json"))


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
