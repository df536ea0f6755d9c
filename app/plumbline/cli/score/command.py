"""Options of `plumbline score`: a file of rows into a file of results, here or by a running service."""

import argparse
import sys
from pathlib import Path

from plumbline.cli import Commands
from plumbline.ground.service_address import URL_VARIABLE

_FORMS = ("jsonl", "json", "csv", "tsv", "parquet", "xlsx")
_OUT_FORMS = ("jsonl", "csv", "tsv", "parquet")
_INCOMPLETE = 3
_EPILOG = (
    "Exit codes: 0 every gate passed; 1 a gate failed, or under 95 % of the rows were judged; 2 something to fix, "
    "named in one line; 3 rows remain (interrupted, or --max-cost is spent): run the same command again to resume. "
    "The key of a service comes from PLUMBLINE_API_KEY; everything else as for `serve`, from PLUMBLINE_* variables."
)


def add_command(commands: Commands) -> None:
    score = commands.add_parser("score", help="score a file of rows, resumable", epilog=_EPILOG)
    add = score.add_argument
    add("data", metavar="DATA", help="JSONL, JSON, CSV, TSV, Parquet or xlsx, text also as .gz; - for stdin")
    add("-o", "--output", metavar="FILE", help="JSONL, CSV, TSV or Parquet; - for stdout")
    add("--format", choices=_FORMS, help="of DATA; default: by its suffix")
    add("--out-format", choices=_OUT_FORMS, help="of FILE; default: by its suffix")
    add("--limit", type=int, metavar="N", help="score only the first N rows")
    add("--shard", metavar="K/N", help="score part K of N: each N-th row; for several machines, each with its own -o")
    add("--restart", action="store_true", help="start over, replacing FILE")
    add("--quiet", action="store_true", help="no progress and no summary on standard error")
    add("--json", action="store_true", help="progress and summary on standard error as JSON lines, for a program")
    add("--estimate", action="store_true", help="print what tier llm would cost, and score nothing")
    add_column_options(score.add_argument_group("columns of DATA", "default: found by their names"))
    _add_options(score)
    place = score.add_argument_group("where rows are scored", "default: in this process")
    place.add_argument(
        "--url",
        help=f"a running service, http://127.0.0.1:8000 for example; default: {URL_VARIABLE}; --url '' scores in this "
        "process whatever that is",
    )
    place.add_argument("--concurrency", type=int, metavar="N", help="rows in flight")
    add_gate_options(score.add_argument_group("gates", "judged when every row is done; exit code 1 if one fails"))
    score.set_defaults(run=_score)


def add_column_options(group: "argparse._ArgumentGroup") -> None:
    group.add_argument(
        "--columns",
        metavar="PRESET",
        help="a known form: ragas, deepeval, langchain, llamaindex, langfuse, phoenix, ...",
    )
    group.add_argument(
        "--column",
        action="append",
        default=[],
        metavar="FIELD=COLUMN",
        help="column of a field, repeatable, the others are found: answer=response; contexts=ctx1,ctx2; body.answer or "
        "choices.0.text for a nested field, messages.tool for a role",
    )
    group.add_argument(
        "--context-separator", metavar="TEXT", help="separator of the contexts in one cell; none: a cell is one context"
    )
    group.add_argument(
        "--encoding", metavar="NAME", help="of a file of text: gb18030, utf-16, cp1252, ...; default: found"
    )


def add_metric_options(group: "argparse._ActionsContainer") -> None:
    group.add_argument(
        "--metrics",
        metavar="NAMES",
        help="what to judge, comma-separated, or ragas for its five columns; default: faithfulness; "
        "bleu, chrf and gleu compare with the reference",
    )
    group.add_argument(
        "--criteria", metavar="FILE", help="TOML with questions of yours about the answer: name, question, labels"
    )


def _add_options(score: argparse.ArgumentParser) -> None:
    group = score.add_argument_group("how rows are scored", "as for a single evaluation")
    add = group.add_argument
    add("--tiers", metavar="NAMES", help="tiers in this order: llm,embedding,lexical")
    add(
        "--threshold",
        type=float,
        metavar="SHARE",
        help="faithfulness from which a row passes; default: the rule of its tier",
    )
    add("--deadline", type=float, metavar="SECONDS", help="timeout of one row, all tiers together")
    add("--judges", metavar="NAMES", help="judges of the settings, comma-separated")
    add("--samples", type=int, metavar="N", help="votes of each judge")
    add("--escalation", metavar="NAME", help="a second judge for claims that could change `passed`")
    add("--disputed", choices=("lower", "unsure"), help="where it decides otherwise: the lower support, or neither")
    add_metric_options(group)
    add("--no-cache", action="store_true", help="ignore cached judgements")
    add(
        "--lang",
        choices=("en", "zh"),
        help="language of our reasons, warnings and problems (default: that of each answer)",
    )
    add("--max-cost", type=float, metavar="MONEY", help="bound on the cost of all rows; no row starts beyond it")


def add_gate_options(group: "argparse._ArgumentGroup") -> None:
    """Add the options that `cli.score.gates.RunGates` reads."""
    add = group.add_argument
    add("--fail-under", action="append", default=[], metavar="SCORE=SHARE", help="repeatable: faithfulness=0.8")
    add(
        "--max-degraded",
        type=float,
        metavar="SHARE",
        help="largest allowed share of rows that fell to a lower tier, were not judged, or are in error",
    )
    add("--max-abstained", type=float, metavar="SHARE", help="largest allowed share of rows whose answer declines")
    add(
        "--min-judged",
        type=float,
        metavar="SHARE",
        help="smallest allowed share of judged rows, those that abstained aside; 0: no such gate (default: 0.95)",
    )
    add(
        "--min-decided",
        type=float,
        metavar="SHARE",
        help="smallest allowed share of judged rows that passed or failed, the tier not being unsure; 0: no such gate "
        "(default: 0.5)",
    )
    add(
        "--max-unsupported",
        type=float,
        metavar="SHARE",
        help="largest allowed share of rows with a claim that is not supported, in each tier",
    )
    add("--baseline", type=Path, metavar="FILE.jsonl", help="earlier results to compare with, by custom_id")
    add("--max-drop", type=float, metavar="SHARE", help="largest allowed drop against the baseline")
    add("--junit", type=Path, metavar="FILE", help="the gates as JUnit XML")
    add("--junit-rows", action="store_true", help="rows in JUnit XML, too: one that did not pass is a failure")
    add("--markdown", type=Path, metavar="FILE", help="the summary as Markdown")


def _score(options: argparse.Namespace) -> int:
    # Parts of a second of import that the other commands do not pay.
    from plumbline.cli.score.score_file import score_file  # noqa: PLC0415

    try:
        return score_file(options)
    except KeyboardInterrupt:
        sys.stderr.write("plumbline: interrupted before the first row; run the same command again\n")
        return _INCOMPLETE
