"""`plumbline lab`: build, time and compare retrievers as an experiment file says."""

import argparse
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from plumbline.cli import Commands
from plumbline.cli.progress import LabProgress
from plumbline.cli.retrieval import add_conventions, given_conventions
from plumbline.extras.lab.experiment import Experiment
from plumbline.extras.lab.experiment_file import read_experiment
from plumbline.extras.lab.folder import load_results
from plumbline.extras.lab.report.table import (
    PARTS,
    PageLanguage,
    brief,
    corpora_of,
    readable,
    systems_table,
    translate,
    translate_headings,
)
from plumbline.extras.lab.results import ExperimentResults
from plumbline.extras.lab.running import Choice, run_experiment
from plumbline.ground.errors import InvalidInput
from plumbline.ground.files import read_file, replace_file
from plumbline.retrieval.tables import TABLE_WRITERS
from plumbline.rows.report.texts import load_words

_SYSTEM_FAILED = 1
_INTERRUPTED = 130


def add_command(commands: Commands) -> None:
    """Add `lab` to the parser."""
    lab = commands.add_parser("lab", help="build, time and compare retrievers as an experiment file says")
    actions = lab.add_subparsers(required=True, metavar="ACTION")
    run = actions.add_parser("run", help="run or resume an experiment and print the table")
    _add_file(run)
    run.add_argument(
        "--out", type=Path, metavar="DIR", help="results folder (default: the experiment's name, next to its file)"
    )
    run.add_argument("--fresh", action="store_true", help="discard earlier results and measure again")
    run.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="repeatable: a system, retriever, blend or corpus"
    )
    run.add_argument(
        "-m", "--measure", action="append", metavar="MEASURE", help="repeatable; in place of the file's measures"
    )
    run.add_argument("--resamples", type=int, metavar="N", help="of intervals and tests (default: of the file)")
    run.add_argument("--seed", type=int, metavar="N", help="of intervals, tests and folds (default: of the file)")
    add_conventions(run, preset=None)
    run.add_argument("--quiet", action="store_true", help="hide progress on standard error")
    _add_language(run)
    run.set_defaults(run=_run)
    check = actions.add_parser("check", help="list the systems of an experiment without running them")
    _add_file(check)
    check.set_defaults(run=_check)
    table = actions.add_parser("table", help="print the table of existing results")
    table.add_argument("folder", type=Path, metavar="DIR")
    table.add_argument(
        "--format",
        choices=(*sorted(TABLE_WRITERS), "html"),
        default="text",
        help="text: aligned columns for a terminal, the main ones; the others have all (default: %(default)s)",
    )
    _add_language(table)
    table.set_defaults(run=_table)


def _add_file(action: argparse.ArgumentParser) -> None:
    action.add_argument("experiment", type=Path, metavar="EXPERIMENT.toml")
    action.add_argument(
        "--data", type=Path, metavar="DIR", help="folder to which paths in the file are relative (default: the file's)"
    )


def _add_language(action: argparse.ArgumentParser) -> None:
    action.add_argument(
        "--language",
        choices=("en", "zh"),
        default="en",
        help="language of page, tables and messages (default: %(default)s)",
    )


def _page(results: ExperimentResults, options: argparse.Namespace) -> str:
    from plumbline.extras.lab.report.page import render_page  # noqa: PLC0415 - templates, for who writes a page alone

    return render_page(results, language=options.language)


def _run(options: argparse.Namespace) -> int:
    keys = {
        "measures": options.measure,
        "preset": options.preset,
        "seed": options.seed,
        "resamples": options.resamples,
    }
    experiment = _experiment(
        options,
        {
            "experiment": {key: value for key, value in keys.items() if value is not None},
            "conventions": given_conventions(options),
        },
    )
    out = options.out or options.experiment.parent / experiment.table.name
    say = partial(translate, language=options.language)
    progress = LabProgress(sys.stderr, is_quiet=options.quiet, words=load_words(options.language, PARTS), say=say)
    try:
        results = run_experiment(
            experiment,
            source=read_file(options.experiment),
            out=out,
            choice=Choice(only=tuple(options.only), fresh=options.fresh),
            progress=progress,
        )
    except KeyboardInterrupt:
        stopped = "stopped; finished systems are kept. Run the same command to resume."
        sys.stderr.write(f"plumbline: {say(stopped)}\n")
        return _INTERRUPTED
    finally:
        progress.close()
    for name, text in (
        ("table.md", _written(results, "markdown", options.language)),
        ("table.csv", _written(results, "csv", options.language)),
        ("report.html", _page(results, options)),
    ):
        replace_file(out / name, text.encode(), mode=0o666)
    sys.stdout.write(_written(results, "text", options.language))
    failed = load_words(options.language, PARTS)["bar_failed"]
    sys.stderr.writelines(f"{each.name}: {say(line)}\n" for each in results.systems for line in each.warnings)
    sys.stderr.writelines(f"plumbline: {name} {failed}: {say(why)}\n" for name, why in results.failures.items())
    return _SYSTEM_FAILED if results.failures else 0


def _check(options: argparse.Namespace) -> int:
    sys.stdout.writelines(
        f"{each.name}{' = ' + ' + '.join(each.parts) if each.parts else ''}\n"
        for each in _experiment(options).systems()
    )
    return 0


def _table(options: argparse.Namespace) -> int:
    results = load_results(options.folder)
    is_page = options.format == "html"
    sys.stdout.write(_page(results, options) if is_page else _written(results, options.format, options.language))
    return 0


def _experiment(options: argparse.Namespace, overrides: Mapping[str, Mapping[str, object]] | None = None) -> Experiment:
    if options.data is not None and not options.data.is_dir():
        raise InvalidInput("is no folder", place=f"--data {options.data.name}")
    return read_experiment(options.experiment, base=options.data, overrides=overrides)


def _written(results: ExperimentResults, form: str, language: PageLanguage) -> str:
    """Format a table for each corpus: for people with units in their language, for programs with every digit."""

    def table(corpus: str) -> str:
        everything = systems_table(results, corpus)
        if form == "csv":
            return TABLE_WRITERS[form](everything)
        shown = brief(everything, corpus) if form == "text" else readable(everything)
        return (f"{corpus}\n" if form == "text" else "") + TABLE_WRITERS[form](translate_headings(shown, language))

    return "\n".join(map(table, corpora_of(results)))
