"""`plumbline score`: a file of rows into a file of results, here or by a running service."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from plumbline.ground.errors import InvalidInput

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_FORMS = ("jsonl", "json", "csv", "tsv", "parquet")
_OUT_FORMS = ("jsonl", "csv", "tsv", "parquet")
_INCOMPLETE = 3
_EPILOG = (
    "Exit codes: 0 all rows have a result or an error of their own; 1 a gate failed; 2 something to fix, said in one "
    "line; 3 rows are left (interrupted, or what may be spent is spent): the same command goes on. "
    "The key of --url comes from PLUMBLINE_API_KEY; everything else as for `serve`, from PLUMBLINE_* variables."
)


def add_command(commands: "Commands") -> None:
    """Adds `score` to the parser."""
    score = commands.add_parser("score", help="score a file of rows, and go on where it was stopped", epilog=_EPILOG)
    score.add_argument(
        "data", metavar="DATA", nargs="+", help="JSONL, JSON, CSV, TSV or Parquet, text also as .gz; - for stdin"
    )
    score.add_argument(
        "-o", "--output", metavar="FILE", help="JSONL, CSV, TSV or Parquet; - for stdout; with --engine a folder"
    )
    score.add_argument("--format", choices=_FORMS, help="of DATA; default: by its suffix")
    score.add_argument("--out-format", choices=_OUT_FORMS, help="of FILE; default: by its suffix")
    score.add_argument("--limit", type=int, metavar="N", help="score the first N rows alone")
    score.add_argument("--restart", action="store_true", help="begin anew, whatever FILE holds")
    score.add_argument("--quiet", action="store_true", help="no progress and no summary on standard error")
    score.add_argument("--estimate", action="store_true", help="say what tier llm would cost, and score nothing")
    _add_columns(score)
    _add_options(score)
    _add_service(score)
    _add_cluster(score)
    _add_gates(score)
    score.set_defaults(run=_score)


def _add_columns(score: argparse.ArgumentParser) -> None:
    group = score.add_argument_group("columns of DATA", "found from their names unless told")
    group.add_argument("--columns", metavar="PRESET", help="a known form: ragas, openai_batch, lettucedetect, ...")
    group.add_argument(
        "--column",
        action="append",
        default=[],
        metavar="FIELD=COLUMN",
        help="where a field is, repeatable: answer=response; contexts=ctx1,ctx2; body.answer goes into an object",
    )
    group.add_argument("--context-separator", metavar="TEXT", help="what parts the contexts of one cell")


def _add_options(score: argparse.ArgumentParser) -> None:
    group = score.add_argument_group("how rows are scored", "as of a single evaluation")
    group.add_argument("--tiers", metavar="NAMES", help="asked in this order: llm,embedding,lexical")
    group.add_argument("--threshold", type=float, metavar="SHARE", help="faithfulness from which a row passes")
    group.add_argument("--deadline", type=float, metavar="SECONDS", help="for one row, all tiers together")
    group.add_argument("--judges", metavar="NAMES", help="judges of the settings, with commas between")
    group.add_argument("--samples", type=int, metavar="N", help="how often each judge votes")
    group.add_argument("--escalation", metavar="NAME", help="a second judge for what could turn `passed`")
    group.add_argument("--no-cache", action="store_true", help="have a judge look again, whatever it said before")
    group.add_argument("--max-cost", type=float, metavar="MONEY", help="what all rows may cost; then no row is begun")


def _add_service(score: argparse.ArgumentParser) -> None:
    group = score.add_argument_group("where rows are scored", "in this process unless told")
    group.add_argument("--url", help="a running service, http://127.0.0.1:8000 for example")
    group.add_argument("--concurrency", type=int, metavar="N", help="rows under way at one time")


def _add_cluster(score: argparse.ArgumentParser) -> None:
    group = score.add_argument_group("on a data cluster", "files by the million rows, done again block by block")
    group.add_argument("--engine", choices=["ray"], help="score DATA, as many files as you like, on Ray")
    group.add_argument("--address", help="of a Ray cluster; default: this machine")
    group.add_argument("--workers", type=int, metavar="N", help="processes that score; default: one for each CPU")
    group.add_argument("--block-rows", type=int, default=2_000, metavar="N", help="rows of one file (default: 2000)")


def _add_gates(score: argparse.ArgumentParser) -> None:
    group = score.add_argument_group("gates", "judged when every row is done; one that fails is exit code 1")
    group.add_argument(
        "--fail-under", action="append", default=[], metavar="SCORE=SHARE", help="repeatable: faithfulness=0.8"
    )
    group.add_argument("--max-degraded", type=float, metavar="SHARE", help="rows that fell to a lower tier")
    group.add_argument(
        "--baseline", type=Path, metavar="FILE.jsonl", help="earlier results to compare with, by custom_id"
    )
    group.add_argument("--max-drop", type=float, metavar="SHARE", help="loss against the baseline that fails")
    group.add_argument("--junit", type=Path, metavar="FILE", help="the gates as JUnit XML")
    group.add_argument("--markdown", type=Path, metavar="FILE", help="the summary as Markdown")


def _score(options: argparse.Namespace) -> int:
    # Parts of a second of import that the other commands do not pay.
    from plumbline.cli.score.cluster import score_cluster  # noqa: PLC0415
    from plumbline.cli.score.score_file import score_file  # noqa: PLC0415

    try:
        if options.engine is not None:
            return score_cluster(options)
        if len(options.data) > 1:
            raise InvalidInput(f"{len(options.data)} files: expected one, or --engine ray")
        (options.data,) = options.data
        return score_file(options)
    except KeyboardInterrupt:
        sys.stderr.write("plumbline: interrupted before a row was begun; run the same command again\n")
        return _INCOMPLETE
