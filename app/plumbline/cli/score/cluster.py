"""`plumbline score --engine ray`: many files into a folder of blocks, on a data cluster."""

import argparse
import sys
from typing import Final, get_args

from plumbline.cli.score.request import parse_columns, parse_judge_options
from plumbline.extras.cluster.task import BlockFormat, ClusterTask, Progress
from plumbline.ground.errors import ClusterUnavailable, InvalidInput
from plumbline.ground.settings import load_settings
from plumbline.ground.telemetry import configure_logging

_DONE: Final = 0
_INCOMPLETE: Final = 3
# Options of a run on one machine that a cluster does not have.
_ONE_MACHINE: Final = (
    "url", "limit", "restart", "estimate", "max_cost", "concurrency", "context_separator",
    "fail_under", "max_degraded", "max_unsupported", "baseline", "max_drop", "junit", "junit_rows", "markdown",
)  # fmt: skip


def score_on_cluster(task: ClusterTask, *, is_quiet: bool) -> int:
    """Score the files of a task; return the exit code."""
    # Seconds of import
    from plumbline.extras.cluster.ray_engine import score_on_ray  # noqa: PLC0415

    configure_logging("ERROR")
    try:
        outcome = score_on_ray(load_settings(), task, on_progress=None if is_quiet else _report)
    except ClusterUnavailable as error:
        sys.stderr.write(f"plumbline: {error}\n")
        return _INCOMPLETE
    summary = outcome.summary
    if not is_quiet:
        sys.stderr.write(
            f"plumbline: {summary.rows} rows: {summary.judged} judged ({summary.passed} passed), "
            f"{summary.not_judged} not judged, "
            f"{summary.errors} errors, {summary.degraded} degraded; {len(outcome.files)} files, {outcome.skipped} of "
            f"them from earlier runs\n"
        )
    if outcome.unfinished:
        sys.stderr.write(
            f"plumbline: {len(outcome.unfinished)} blocks are missing, {outcome.unfinished[0]} first: their worker "
            "crashed each time; run the same command again to resume\n"
        )
        return _INCOMPLETE
    return _DONE


def parse_cluster_task(given: argparse.Namespace) -> ClusterTask:
    """Return the task of a run on a cluster.

    Raises:
        InvalidInput: an option is wrong, or is one of a run on one machine; the message names it.
    """
    alone = [name for name in _ONE_MACHINE if getattr(given, name) not in (None, [], False)]
    if alone:
        raise InvalidInput(f"--{alone[0].replace('_', '-')}: not with --engine; see `plumbline report` for its results")
    if given.output in (None, "-"):
        raise InvalidInput("-o: expected a folder for the results")
    form: BlockFormat = given.out_format or "jsonl"
    if form not in get_args(BlockFormat):
        raise InvalidInput(f"--out-format {form}: expected {' or '.join(get_args(BlockFormat))} with --engine")
    columns, changes = parse_columns(given)
    if changes:
        raise InvalidInput("--column: with --engine name answer and contexts too, or neither")
    return ClusterTask(
        paths=tuple(given.data),
        out_dir=given.output,
        options=parse_judge_options(given),
        format=given.format,
        columns=columns,
        block_format=form,
        block_rows=given.block_rows,
        address=given.address,
        workers=given.workers,
    )


def _report(progress: Progress) -> None:
    sys.stderr.write(
        f"plumbline: {progress.blocks_done} of {progress.blocks} blocks, {progress.rows_done} of {progress.rows} rows\n"
    )
