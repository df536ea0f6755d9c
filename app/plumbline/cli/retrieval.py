"""`plumbline retrieval`: measures of runs against judgments, from files of any form; comparison and fusion."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import msgspec

from plumbline.cli import Commands, build_command
from plumbline.ground.errors import InvalidInput
from plumbline.retrieval.api import name_files
from plumbline.retrieval.combination import NORMS, TIE_ORDERS
from plumbline.retrieval.comparison import CORRECTIONS, TESTS, RunReport, compare_reports, report_runs
from plumbline.retrieval.conventions import BOOLEANS, CHOICES, PRESETS, Conventions, as_dict, build_conventions
from plumbline.retrieval.fusion import METHODS, MISSING, fuse, tune_weights
from plumbline.retrieval.inputs import ReadRun, read_qrels, read_run
from plumbline.retrieval.measure import CUTOFF_BY_NAME, DEFAULT_MEASURES, Cutoff, parse_measures
from plumbline.retrieval.tables import TABLE_WRITERS, Table, comparison_table, pair_table
from plumbline.retrieval.trec import format_run

_SHORT = {"rel_level": "-l", "judged_only": "-J", "max_documents": "-M"}
_TABLES: Mapping[str, Any] = {"means": comparison_table, "pairs": pair_table}


def add_command(commands: Commands) -> None:
    """Add `retrieval` and its parts to the parser."""
    parsers = build_command(
        commands,
        "retrieval",
        {"evaluate": _evaluate, "compare": _compare, "fuse": _fuse},
        measures=_known_measures(),
        usual=[" ".join(DEFAULT_MEASURES)],
        tests=TESTS,
        corrections=sorted(CORRECTIONS),
        formats=sorted(TABLE_WRITERS),
        tables=sorted(_TABLES),
        methods=tuple(METHODS),
        norms=tuple(NORMS),
        missing=MISSING,
        ties=TIE_ORDERS,
    )
    for part in ("evaluate", "compare", "fuse"):
        # The ties of `fuse` are those of its own scores
        names = [each.name for each in fields(Conventions) if (part, each.name) != ("fuse", "ties")]
        _add_conventions(parsers[part], names)


def _add_conventions(command: argparse.ArgumentParser, names: Sequence[str]) -> None:
    """Add `--preset` and an option for each convention of these names."""
    group = command.add_argument_group("conventions, in place of the preset's (docs/reference/retrieval.md)")
    add = group.add_argument
    add("--preset", default="trec_eval", help=f"{', '.join(PRESETS)} (default: %(default)s)")
    for name in names:
        flags = [*([_SHORT[name]] if name in _SHORT else []), f"--{name.replace('_', '-')}"]
        if name in BOOLEANS:
            add(*flags, dest=name, action=argparse.BooleanOptionalAction, default=None)
        elif name in CHOICES:
            add(*flags, dest=name, choices=CHOICES[name])
        elif name == "gain_map":
            add(*flags, "--gains", dest=name, metavar="1=1,2=3", type=gains)
        else:
            kind = str if name == "id_pattern" else int
            add(*flags, dest=name, metavar="PATTERN" if kind is str else "N", type=kind)
    command.set_defaults(conventions=names)


def read_conventions(options: argparse.Namespace) -> Conventions:
    """Build the preset with the options that were given; InvalidInput as `build_conventions`."""
    given = {name: value for name in options.conventions if (value := getattr(options, name)) is not None}
    return build_conventions(options.preset, **given)


def gains(text: str) -> dict[str, float]:
    """Parse `1=1,2=3` into gains by grade."""
    pairs = [pair.partition("=") for pair in text.split(",")]
    return {grade.strip(): float(gain) for grade, _, gain in pairs}


def _known_measures() -> list[str]:
    with_cutoff = {Cutoff.REQUIRED: "@k", Cutoff.OPTIONAL: "[@k]", Cutoff.NONE: ""}
    return [f"{name}{with_cutoff[takes]}" for name, takes in CUTOFF_BY_NAME.items()]


def _evaluate(options: argparse.Namespace) -> int:
    # a table shows no intervals
    reports, runs = _reports(options, resamples=options.resamples if options.json else 0)
    if options.json:
        sys.stdout.write(_as_json(reports, runs, by_query=options.by_query))
    else:
        sys.stdout.writelines(f"{line}\n" for line in _as_table(reports, by_query=options.by_query))
    return 0


def _reports(options: argparse.Namespace, *, resamples: int) -> tuple[tuple[RunReport, ...], list[ReadRun]]:
    # What was mistyped is said before files of gigabytes are read.
    conventions, measures = read_conventions(options), parse_measures(options.measure or DEFAULT_MEASURES)
    named = name_files(options.runs)
    lengths = None if options.lengths is None else _lengths(options.lengths)
    judged = read_qrels(options.qrels, alternatives=options.alternatives)
    runs = [read_run(path, name=name, append_missing=options.append_missing) for name, path in named.items()]
    reports = report_runs(
        judged.qrels,
        [judged.apply(each.run) for each in runs],
        measures=measures,
        conventions=conventions,
        resamples=resamples,
        seed=options.seed,
        lengths=lengths,
        allow_disjoint=options.allow_disjoint,
    )
    sys.stderr.writelines(f"{line}\n" for line in judged.warnings)
    for run, report in zip(runs, reports, strict=True):
        sys.stderr.writelines(f"{report.name}: {line}\n" for line in (*run.warnings, *report.evaluation.warnings))
    return reports, runs


def _lengths(path: Path) -> dict[str, float]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, float])
    except (OSError, msgspec.DecodeError) as error:
        raise InvalidInput(f'wanted JSON such as {{"doc-1": 250}}: {error}', place=str(path)) from error


def _compare(options: argparse.Namespace) -> int:
    reports, _ = _reports(options, resamples=0)
    comparisons = compare_reports(
        reports,
        baseline=options.baseline,
        test=options.test,
        correction=options.correction,
        alpha=options.alpha,
        resamples=options.resamples,
        seed=options.seed,
    )
    # one table in a file of CSV
    default = ["pairs"] if options.format == "csv" else list(_TABLES)
    tables: list[Table] = [_TABLES[name](comparisons) for name in ([options.table] if options.table else default)]
    sys.stdout.write("\n".join(TABLE_WRITERS[options.format](table).rstrip("\n") + "\n" for table in tables))
    return 0


def _fuse(options: argparse.Namespace) -> int:
    runs = [read_run(path, name=name).run for name, path in name_files(options.runs, is_repeatable=True).items()]
    recipe = {name: getattr(options, name) for name in ("method", "norm", "weights", "missing", "ties", "depth")}
    recipe["params"] = _params(options)
    if options.tune is not None:
        if options.weights is not None:
            raise InvalidInput("give --weights or --tune, not both")
        grid = {name: getattr(options, name) for name in ("folds", "step", "seed")}
        conventions, qrels = read_conventions(options), read_qrels(options.tune).qrels
        tuning = tune_weights(runs, qrels, options.measure, conventions=conventions, **grid, **recipe)
        recipe["weights"] = tuning.weights
        sys.stderr.write(
            f"weights {' '.join(f'{each:g}' for each in tuning.weights)}: {options.measure} "
            f"{tuning.held_out_score:.4f} held out, {tuning.in_sample_score:.4f} in sample, "
            f"{tuning.equal_score:.4f} with equal weights\n"
        )
    fusion = fuse(runs, **recipe)
    sys.stdout.writelines(format_run(fusion.run))
    sys.stderr.writelines(f"{line}\n" for line in fusion.warnings)
    return 0


def _params(options: argparse.Namespace) -> dict[str, float]:
    try:
        given = {name: float(value) for name, _, value in (each.partition("=") for each in options.param)}
    except ValueError:
        raise InvalidInput(f"wanted --param NAME=VALUE, such as k=60, found {' '.join(options.param)!r}") from None
    return given if options.k is None else {**given, "k": options.k}


def _as_table(reports: Sequence[RunReport], *, by_query: bool) -> list[str]:
    lines = []
    for report in reports:
        if by_query:
            lines += [
                f"{report.name}\t{measure}\t{query}\t{value:.4f}"
                for measure, values in report.evaluation.values.items()
                for query, value in zip(report.evaluation.query_ids, values.tolist(), strict=True)
            ]
        lines += [
            f"{report.name}\t{measure}\tall\t{'-' if summary.mean is None else f'{summary.mean:.4f}'}"
            for measure, summary in report.summary_by_measure.items()
        ]
    return lines


def _as_json(reports: Sequence[RunReport], runs: Sequence[ReadRun], *, by_query: bool) -> str:
    found = [
        {
            "name": report.name,
            "measures": report.summary_by_measure,
            "counts": asdict(report.evaluation.counts),
            "warnings": list(map(str, (*run.warnings, *report.evaluation.warnings))),
            "per_query": {
                "query_ids": report.evaluation.query_ids,
                "values": {text: values.tolist() for text, values in report.evaluation.values.items()},
            }
            if by_query
            else None,
            # what was read out of the replies of an LLM
            **({"rankings": run.rankings} if run.rankings else {}),
        }
        for report, run in zip(reports, runs, strict=True)
    ]
    conventions = as_dict(reports[0].evaluation.conventions)
    return msgspec.json.format(msgspec.json.encode({"conventions": conventions, "runs": found})).decode() + "\n"
