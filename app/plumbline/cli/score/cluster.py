"""`plumbline score --engine ray`: many files into a folder of blocks, on a data cluster."""

import argparse
import sys
from typing import Final, get_args

from plumbline.cli.score.place import evaluation_options
from plumbline.cli.score.source import named_columns
from plumbline.extras.cluster.task import BlockFormat, ClusterOutcome, ClusterTask, Progress
from plumbline.ground.errors import ClusterUnavailable, InvalidInput
from plumbline.rows.records.columns import ColumnMap

_DONE: Final = 0
_INCOMPLETE: Final = 3
# What a run on one machine can do and one on many cannot.
_ALONE: Final = (
    "url", "limit", "restart", "estimate", "max_cost", "concurrency", "context_separator",
    "fail_under", "max_degraded", "baseline", "max_drop", "junit", "markdown",
)  # fmt: skip


def score_cluster(options: argparse.Namespace) -> int:
    """Scores the files that the options name; the exit code.

    Raises:
        PlumblineError: what the user can fix.
    """
    task = _task(options)
    # Seconds of import
    from plumbline.extras.cluster.ray_engine import score_on_ray  # noqa: PLC0415
    from plumbline.ground.settings import load_settings  # noqa: PLC0415
    from plumbline.ground.telemetry import configure_logging  # noqa: PLC0415

    configure_logging("ERROR")
    try:
        outcome = score_on_ray(load_settings(), task, on_progress=None if options.quiet else _tell)
    except ClusterUnavailable as error:
        sys.stderr.write(f"plumbline: {error}\n")
        return _INCOMPLETE
    return _ended(outcome, is_quiet=options.quiet)


def _task(options: argparse.Namespace) -> ClusterTask:
    given = [name for name in _ALONE if getattr(options, name) not in (None, [], False)]
    if given:
        raise InvalidInput(f"--{given[0].replace('_', '-')}: not with --engine; see `plumbline report` for its results")
    if options.output in (None, "-"):
        raise InvalidInput("-o: expected a folder for the results")
    form: BlockFormat = options.out_format or "jsonl"
    if form not in get_args(BlockFormat):
        raise InvalidInput(f"--out-format {form}: expected {' or '.join(get_args(BlockFormat))} with --engine")
    return ClusterTask(
        paths=tuple(options.data),
        out_dir=options.output,
        options=evaluation_options(options),
        format=options.format,
        columns=_columns(options),
        block_format=form,
        block_rows=options.block_rows,
        address=options.address,
        workers=options.workers,
    )


def _columns(options: argparse.Namespace) -> ColumnMap | str | None:
    whole = named_columns(options)
    if options.column and whole is None:
        raise InvalidInput("--column: with --engine name answer and contexts too, or neither")
    return whole or options.columns


def _tell(progress: Progress) -> None:
    sys.stderr.write(
        f"plumbline: {progress.blocks_done} of {progress.blocks} blocks, {progress.rows_done} of {progress.rows} rows\n"
    )


def _ended(outcome: ClusterOutcome, *, is_quiet: bool) -> int:
    summary = outcome.summary
    if not is_quiet:
        sys.stderr.write(
            f"plumbline: {summary.rows} rows: {summary.judged} judged, {summary.not_judged} not judged, "
            f"{summary.errors} errors, {summary.degraded} degraded; {len(outcome.files)} files, {outcome.skipped} of "
            f"them from earlier runs\n"
        )
    if outcome.unfinished:
        sys.stderr.write(
            f"plumbline: {len(outcome.unfinished)} blocks are missing, {outcome.unfinished[0]} first: what scored them "
            "ended each time; run the same command again to go on\n"
        )
        return _INCOMPLETE
    return _DONE
