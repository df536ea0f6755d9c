"""`plumbline batch-file`: judge a file of rows through a provider's Batch API, at batch prices."""

import argparse
import sys
from pathlib import Path

from plumbline.cli import Commands, number_type
from plumbline.cli.score.command import add_metric_options

_INCOMPLETE = 3
_positive = number_type(int, lambda number: number >= 1, "1 or more")
_share = number_type(float, lambda number: 0 <= number <= 1, "a number from 0 to 1")
_factor = number_type(float, lambda number: number >= 0, "0 or more")


def add_command(commands: Commands) -> None:
    """Add `batch-file` and its steps to the parser."""
    command = commands.add_parser(
        "batch-file", help="judge a file of rows through a provider's Batch API: prepare, submit, status, collect"
    )
    steps = command.add_subparsers(required=True, metavar="STEP")
    _add_prepare(steps)
    submit = steps.add_parser("submit", help="upload the files and create their batches; resumes after an interruption")
    _add_manifest(submit)
    submit.add_argument("files", nargs="*", metavar="FILE", help="only these request files (default: all)")
    submit.add_argument("--window", default="24h", help="completion window in hours or days (default: %(default)s)")
    _add_manifest(steps.add_parser("status", help="query the status of the batches"))
    _add_collect(steps)
    for name, step in steps.choices.items():
        step.set_defaults(run=_run, step=name)


def _add_prepare(steps: Commands) -> None:
    step = steps.add_parser("prepare", help="write the requests of all rows and a manifest")
    add = step.add_argument
    add("data", type=Path, metavar="DATA", help="rows: JSONL, JSON, CSV, TSV or Parquet, also .gz")
    add("-o", "--output", type=Path, required=True, metavar="REQUESTS.jsonl")
    add("--format", metavar="NAME", help="format of the data (default: by its suffix)")
    add("--columns", metavar="PRESET", help="column preset: plumbline, ragas, ... (default: detected)")
    add("--judge", default="default", metavar="NAME", help="a judge of the settings (default: %(default)s)")
    add_metric_options(step)
    add("--url", default="/v1/chat/completions", metavar="PATH", help="endpoint of each request (default: %(default)s)")
    add("--max-requests", type=_positive, default=50_000, metavar="N", help="limit of one file (default: %(default)s)")
    price_help = "batch price as a share of the price table's (default: %(default)s)"
    add("--price-factor", type=_factor, default=0.5, metavar="F", help=price_help)


def _add_collect(steps: Commands) -> None:
    step = steps.add_parser("collect", help="fetch the replies and write the results, one row a line, in input order")
    _add_manifest(step)
    add = step.add_argument
    add("-o", "--output", type=Path, required=True, metavar="RESULTS.jsonl")
    add(
        "--replies",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="replies that you downloaded yourself, or that `vllm run-batch` wrote; no provider is asked",
    )
    add(
        "--fallback",
        default="embedding,lexical",
        choices=("embedding,lexical", "embedding", "lexical", "none"),
        metavar="TIERS",
        help="tiers for rows without a verdict of the judge: embedding,lexical, one of them, or none "
        "(default: %(default)s)",
    )
    add("--threshold", type=_share, help="minimum faithfulness for `passed`")
    add(
        "--next-round",
        action="store_true",
        help="write the open questions (second passes, further windows, expired requests) as files to submit",
    )


def _add_manifest(step: argparse.ArgumentParser) -> None:
    step.add_argument("manifest", type=Path, metavar="MANIFEST", help="the manifest that `prepare` wrote")


def _run(options: argparse.Namespace) -> int:
    # Seconds of import that the other commands do not pay.
    from plumbline.cli.batch_file_steps import STEPS  # noqa: PLC0415

    try:
        return STEPS[options.step](options)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; run the same command again to resume\n")
        return _INCOMPLETE
