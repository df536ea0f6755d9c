"""`plumbline score --engine ray`: many files into a folder of blocks, on a data cluster."""

import sys
from typing import Final

from plumbline.extras.cluster.task import ClusterTask, Progress
from plumbline.ground.errors import ClusterUnavailable
from plumbline.ground.settings import load_settings
from plumbline.ground.telemetry import configure_logging

_DONE: Final = 0
_INCOMPLETE: Final = 3


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


def _report(progress: Progress) -> None:
    sys.stderr.write(
        f"plumbline: {progress.blocks_done} of {progress.blocks} blocks, {progress.rows_done} of {progress.rows} rows\n"
    )
