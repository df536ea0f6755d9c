"""`plumbline batch-file`: a file of rows judged through a provider's Batch API, in files, at the price of a batch."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from plumbline.ground.errors import InvalidInput

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_FALLBACKS = ("embedding", "lexical")
_INCOMPLETE = 3


def add_command(commands: "Commands") -> None:
    """Adds `batch-file` and its steps to the parser."""
    command = commands.add_parser(
        "batch-file", help="judge a file of rows through a provider's Batch API: prepare, submit, status, collect"
    )
    steps = command.add_subparsers(required=True, metavar="STEP")
    _add_prepare(steps)
    _add_submit(steps)
    _add_status(steps)
    _add_collect(steps)


def _add_prepare(steps: "Commands") -> None:
    step = steps.add_parser("prepare", help="write the requests of all rows, and the manifest that leads back to them")
    step.add_argument("data", type=Path, metavar="DATA", help="rows: JSONL, JSON, CSV, TSV or Parquet, also .gz")
    step.add_argument("-o", "--output", type=Path, required=True, metavar="REQUESTS.jsonl")
    step.add_argument("--format", metavar="NAME", help="of the data; default: by its suffix")
    step.add_argument("--columns", metavar="PRESET", help="plumbline, ragas, ...; default: by the names of the columns")
    step.add_argument("--judge", default="default", metavar="NAME", help="of the settings (default: %(default)s)")
    step.add_argument(
        "--structure",
        choices=("json_schema", "json_object", "plain"),
        help="how replies are held to their form; default: the strictest that the provider is known to take",
    )
    step.add_argument(
        "--omit", action="append", default=[], choices=("temperature", "thinking"), help="a field that the model "
        "refuses; repeatable"
    )  # fmt: skip
    step.add_argument("--url", metavar="PATH", help="of each request; default: /v1/chat/completions")
    step.add_argument("--max-requests", type=_positive, metavar="N", help="of one file; default: the provider's limit")
    step.add_argument("--max-bytes", type=_positive, metavar="N", help="of one file; default: the provider's limit")
    step.add_argument(
        "--secret-of", type=Path, metavar="MANIFEST", help="make the marks in the prompts as that one did"
    )
    step.add_argument("--estimate", action="store_true", help="say what it takes, and write nothing")
    _add_price(step)
    step.set_defaults(run=_prepare)


def _add_submit(steps: "Commands") -> None:
    step = steps.add_parser(
        "submit", help="upload the files and make batches of them; goes on where it was interrupted"
    )
    _add_files(step)
    step.add_argument("--window", default="24h", help="hours or days that the provider may take (default: %(default)s)")
    step.set_defaults(run=_submit)


def _add_status(steps: "Commands") -> None:
    step = steps.add_parser("status", help="ask what became of the batches")
    _add_files(step)
    step.set_defaults(run=_status)


def _add_collect(steps: "Commands") -> None:
    step = steps.add_parser("collect", help="fetch the replies and write the results, one row a line, in input order")
    _add_files(step)
    step.add_argument("-o", "--output", type=Path, required=True, metavar="RESULTS.jsonl")
    step.add_argument("--wait", action="store_true", help="until every batch has ended")
    step.add_argument(
        "--poll-seconds", type=float, default=60.0, metavar="S", help="with --wait (default: %(default)s)"
    )
    step.add_argument(
        "--fallback",
        default=",".join(_FALLBACKS),
        metavar="TIERS",
        help="for rows that the judge has no verdict on, or `none` (default: %(default)s)",
    )
    step.add_argument("--threshold", type=_share, help="faithfulness from which `passed` is true")
    step.add_argument(
        "--next-round",
        action="store_true",
        help="write the questions that are still open (second looks, further windows, requests that expired) as files "
        "to be submitted",
    )
    _add_price(step)
    step.set_defaults(run=_collect)


def _add_files(step: argparse.ArgumentParser) -> None:
    step.add_argument(
        "files", type=Path, nargs="+", metavar="FILE", help="the manifest, or files of requests beside it"
    )


def _add_price(step: argparse.ArgumentParser) -> None:
    step.add_argument(
        "--price-factor", type=_factor, default=0.5, metavar="F", help="what a batch costs of the price table's prices "
        "(default: %(default)s)"
    )  # fmt: skip


def _prepare(options: argparse.Namespace) -> int:
    # Seconds of import that the other commands do not pay.
    from plumbline.cli.batch_file_steps import prepare  # noqa: PLC0415

    return _until_interrupted(lambda: prepare(options))


def _submit(options: argparse.Namespace) -> int:
    from plumbline.cli.batch_file_steps import submit  # noqa: PLC0415

    return _until_interrupted(lambda: submit(options))


def _status(options: argparse.Namespace) -> int:
    from plumbline.cli.batch_file_steps import status  # noqa: PLC0415

    return _until_interrupted(lambda: status(options))


def _collect(options: argparse.Namespace) -> int:
    from plumbline.cli.batch_file_steps import collect  # noqa: PLC0415

    fallback = _fallback(options.fallback)
    return _until_interrupted(lambda: collect(options, fallback=fallback))


def _until_interrupted(step: Callable[[], int]) -> int:
    """The step's exit code; 3 when it was interrupted, which loses nothing."""
    try:
        return step()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; the same command goes on from here\n")
        return _INCOMPLETE


def _fallback(text: str) -> tuple[str, ...]:
    names = () if text == "none" else tuple(name.strip() for name in text.split(","))
    if any(name not in _FALLBACKS for name in names) or len(set(names)) < len(names):
        raise InvalidInput(f"is {text[:40]!r}; expected {' or '.join(_FALLBACKS)}, both, or none", place="--fallback")
    return names


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("expected 1 or more")
    return number


def _share(text: str) -> float:
    number = float(text)
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError("expected a number from 0 to 1")
    return number


def _factor(text: str) -> float:
    number = float(text)
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError("expected 0 or more")
    return number
