"""`plumbline evaluate`, `compare` and `fuse`: measures of runs against judgments, from TREC files or tables."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from plumbline.ground.errors import InvalidInput
from plumbline.retrieval.combination import NORMS
from plumbline.retrieval.compare import CORRECTIONS, TESTS
from plumbline.retrieval.conventions import PRESETS, as_dict, build_conventions
from plumbline.retrieval.file_formats import FILE_FORMATS, FileFormat
from plumbline.retrieval.fuse import METHODS, fuse
from plumbline.retrieval.measure import parse_measures
from plumbline.retrieval.report import RunReport, compare_reports, report_runs
from plumbline.retrieval.run import Run
from plumbline.retrieval.tables import TABLE_WRITERS, comparison_table, pair_table
from plumbline.retrieval.text_file import ReadLimits, format_place

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_MEASURES = ["ndcg@10", "recall@10", "precision@10", "map", "mrr"]
_RESAMPLES = 1_000
_PERMUTATIONS = 10_000
# A file of one's own on one's own machine: a bound against a bomb, not against size.
_LIMITS = ReadLimits(max_bytes=8_000_000_000, max_rows=200_000_000)


def add_command(commands: "Commands") -> None:
    """Add the retrieval commands to the parser."""
    evaluate = commands.add_parser("evaluate", help="compute measures of TREC runs against judgments")
    evaluate.add_argument("qrels", type=Path, metavar="QRELS", help="judgments: query_id 0 doc_id relevance")
    evaluate.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="runs: query_id Q0 doc_id rank score tag")
    evaluate.add_argument(
        "-m", "--measure", action="append", metavar="MEASURE", help=f"repeatable; default: {' '.join(_MEASURES)}"
    )
    evaluate.add_argument(
        "--preset", default="trec_eval", help=f"conventions: {', '.join(PRESETS)} (default: %(default)s)"
    )
    _add_tables(evaluate)
    evaluate.add_argument("--by-query", action="store_true", help="also print the values of every query")
    evaluate.add_argument("--json", action="store_true", help="print JSON instead of a table")
    evaluate.set_defaults(run=_evaluate)

    compare = commands.add_parser("compare", help="compare runs by paired tests over queries, with a correction")
    compare.add_argument("qrels", type=Path, metavar="QRELS")
    compare.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="two or more")
    compare.add_argument("-m", "--measure", action="append", metavar="MEASURE")
    compare.add_argument("--preset", default="trec_eval")
    _add_tables(compare)
    compare.add_argument("--baseline", metavar="NAME", help="file name of the run to compare with; default: all pairs")
    compare.add_argument("--test", choices=TESTS, default="randomization")
    compare.add_argument("--correction", choices=sorted(CORRECTIONS), default="holm")
    compare.add_argument("--alpha", type=float, default=0.05)
    compare.add_argument("--format", choices=sorted(TABLE_WRITERS), default="markdown")
    compare.set_defaults(run=_compare)

    fusion = commands.add_parser("fuse", help="fuse several runs into one TREC run on standard output")
    fusion.add_argument("runs", type=Path, nargs="+", metavar="RUN")
    fusion.add_argument("--method", default="rrf", help=f"fusion method: {', '.join(METHODS)} (default: %(default)s)")
    fusion.add_argument("--norm", help=f"one of {', '.join(NORMS)} (default: min-max if the method uses scores)")
    fusion.add_argument("--weights", type=float, nargs="+", metavar="W", help="a weight for each run")
    fusion.add_argument("--depth", type=int, help="documents to keep for each query")
    fusion.set_defaults(run=_fuse)


def _add_tables(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--tables",
        action="store_const",
        const="tables",
        default="trec",
        dest="format_name",
        help="read tab-separated tables with a header in place of TREC files: judgments in the columns qid and "
        "document_ids, runs in qid and doc_ids, each with a list of ids",
    )


def _evaluate(options: argparse.Namespace) -> int:
    reports = _reports(options, resamples=_RESAMPLES)
    if options.json:
        sys.stdout.write(_as_json(reports, as_dict(reports[0].evaluation.conventions), by_query=options.by_query))
    else:
        sys.stdout.writelines(f"{line}\n" for line in _as_table(reports, by_query=options.by_query))
    sys.stderr.writelines(f"{report.name}: {line}\n" for report in reports for line in report.evaluation.warnings)
    return 0


def _reports(options: argparse.Namespace, *, resamples: int) -> tuple[RunReport, ...]:
    # What was mistyped is said before files of gigabytes are read.
    conventions, measures = build_conventions(options.preset), parse_measures(options.measure or _MEASURES)
    files = FILE_FORMATS[options.format_name]
    with _open(options.qrels) as file:
        qrels = files.read_qrels(file, name=options.qrels.name, limits=_LIMITS)
    return report_runs(
        qrels,
        [_run(path, files) for path in options.runs],
        measures=measures,
        conventions=conventions,
        resamples=resamples,
        seed=0,
    )


def _compare(options: argparse.Namespace) -> int:
    reports = _reports(options, resamples=0)
    comparisons = compare_reports(
        reports,
        baseline=options.baseline,
        test=options.test,
        correction=options.correction,
        alpha=options.alpha,
        resamples=_PERMUTATIONS,
        seed=0,
    )
    tables = (comparison_table(comparisons), pair_table(comparisons))
    sys.stdout.write("\n".join(TABLE_WRITERS[options.format](table).rstrip("\n") + "\n" for table in tables))
    return 0


def _fuse(options: argparse.Namespace) -> int:
    fusion = fuse(
        [_run(path, FILE_FORMATS["trec"]) for path in options.runs],
        method=options.method,
        norm=options.norm,
        weights=options.weights,
        depth=options.depth,
    )
    for query, scores in fusion.run.results.items():
        ranked = scores.items() if isinstance(scores, Mapping) else ()
        sys.stdout.writelines(
            f"{query} Q0 {doc_id} {rank} {score!r} {fusion.run.name}\n"
            for rank, (doc_id, score) in enumerate(ranked, start=1)
        )
    sys.stderr.writelines(f"{line}\n" for line in fusion.warnings)
    return 0


def _run(path: Path, files: FileFormat) -> Run:
    with _open(path) as file:
        return files.read_run(file, name=path.name, limits=_LIMITS)


def _open(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise InvalidInput(f"cannot be read ({error.strerror})", place=format_place(str(path))) from error


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


def _as_json(reports: Sequence[RunReport], conventions: object, *, by_query: bool) -> str:
    runs = [
        {
            "name": report.name,
            "measures": report.summary_by_measure,
            "counts": asdict(report.evaluation.counts),
            "per_query": {
                "query_ids": report.evaluation.query_ids,
                "values": {text: values.tolist() for text, values in report.evaluation.values.items()},
            }
            if by_query
            else None,
        }
        for report in reports
    ]
    return msgspec.json.format(msgspec.json.encode({"conventions": conventions, "runs": runs})).decode() + "\n"
