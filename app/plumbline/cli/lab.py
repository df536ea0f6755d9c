"""`plumbline lab`: build, time and compare retrievers as an experiment file says."""

import argparse
import sys

from plumbline.cli import Commands, build_command
from plumbline.extras.lab.experiment import read_experiment
from plumbline.extras.lab.results import FORMATS, format_table
from plumbline.extras.lab.running import run_experiment

_SYSTEM_FAILED = 1
_INTERRUPTED = 130


def add_command(commands: Commands) -> None:
    build_command(commands, "lab", {"run": _run}, formats=sorted(FORMATS))


def _run(options: argparse.Namespace) -> int:
    try:
        results = run_experiment(
            read_experiment(options.experiment),
            base=options.experiment.parent.resolve(),
            out=options.out or options.experiment.with_suffix(""),
            progress=lambda line: sys.stderr.writelines([] if options.quiet else [f"plumbline: {line}\n"]),
        )
    except KeyboardInterrupt:
        sys.stderr.write("plumbline: stopped; finished systems are kept. Run the same command to resume.\n")
        return _INTERRUPTED
    sys.stdout.write(format_table(results, options.format))
    sys.stderr.writelines(f"{each.name}: {line}\n" for each in results.systems for line in each.warnings)
    sys.stderr.writelines(f"plumbline: {name} failed: {why}\n" for name, why in results.failures.items())
    return _SYSTEM_FAILED if results.failures else 0
