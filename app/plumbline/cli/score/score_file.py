"""`plumbline score` on one machine: input, scorer, output and gates, put together and run."""

import argparse
import asyncio
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import TYPE_CHECKING, Final, TypeVar

from plumbline.cli.progress import ScoreProgress
from plumbline.cli.score.gates import RunGates
from plumbline.cli.score.output import ResultFiles, RunOutput, result_files
from plumbline.cli.score.request import check_options, parse_columns, parse_judge_options
from plumbline.cli.score.run import Budget, Run, RunEnd, StopSignal, StreamScorer
from plumbline.cli.score.source import InputSource, open_source
from plumbline.ground.errors import InvalidInput
from plumbline.rows.records.record import ReadPosition
from plumbline.rows.run_identity import Choice, option_identity
from plumbline.schemas.evaluation import EvaluationOptions

if TYPE_CHECKING:
    from plumbline.cli.score.local import LocalPlan

T = TypeVar("T")
ScorerFactory = Callable[[], AbstractAsyncContextManager[StreamScorer]]

_DONE: Final = 0
_INCOMPLETE: Final = 3


def score_file(options: argparse.Namespace) -> int:
    """Score one file in this process or by a service; return the exit code."""
    check_options(options)
    columns, changes = parse_columns(options)
    judging = parse_judge_options(options)
    with ExitStack() as stack:
        if options.estimate:
            source = open_source(stack, options.data[0], options.format, columns, changes)
            return _estimate(source, judging, options.limit)
        gates = RunGates(
            options.fail_under,
            max_degraded=options.max_degraded,
            max_unsupported=options.max_unsupported,
            baseline=options.baseline,
            max_drop=options.max_drop,
            junit=options.junit,
            junit_rows=options.junit_rows,
            markdown=options.markdown,
        )
        files = _result_files(stack, options.output, options.out_format)
        source = open_source(stack, options.data[0], options.format, columns, changes)
        progress = None if options.quiet else ScoreProgress(sys.stderr)
        _say(progress, f"{source.path.name}: {source.explanation}")
        place, scorer = _scorer(options, judging, progress)
        identity = {**source.identity(), "limit": options.limit, **place}
        output = stack.enter_context(RunOutput(files, source.path, identity, restart=options.restart))
        is_streamed = options.output == "-" and files.form == "jsonl"
        if output.journal is None:
            _say(progress, f"{files.target.name} is complete; nothing is left to do (--restart scores again)")
        else:
            echo = _echo_line if is_streamed else None
            run = Run(source, output, output.journal, limit=options.limit, progress=progress, echo=echo)
            end = _run_to_end(run, scorer, options.max_cost, progress, "-" not in (options.output, options.data[0]))
            if end is None:
                return _INCOMPLETE
            if options.url is not None and end.standing.unreachable:
                count = end.standing.unreachable
                _say(progress, f"{count} rows cannot pass: the threshold is above the highest score of their tier")
            output.finish()
        if options.output == "-" and not is_streamed:
            _write_stdout(files.target.read_bytes())
        return gates.exit_code(output.result_lines, name=files.target.name, is_quiet=options.quiet)


def _run_to_end(
    run: Run,
    open_scorer: ScorerFactory,
    max_cost: float | None,
    progress: ScoreProgress | None,
    is_resumable: bool,
) -> RunEnd | None:
    """Return the end of the run if every row is written; else None, and say on standard error why some are not."""
    stop = StopSignal()

    async def work() -> RunEnd:
        async with open_scorer() as scorer:
            return await run.score(scorer, stop, Budget(max_cost, stop))

    # None: cancelled at once
    end = run_interruptibly(work, stop)
    if progress is not None and end is not None:
        progress.end(end.standing, end.left)
    if end is not None and end.left is None:
        return end
    rows = "" if end is None else f"{end.standing.counts.rows} rows written, more remain: "
    left = "stopped at once" if end is None else end.left
    how = "; run the same command again to resume" if is_resumable else ""
    sys.stderr.write(f"plumbline: {rows}{left}{how}\n")
    return None


def _scorer(
    options: argparse.Namespace, judging: EvaluationOptions, progress: ScoreProgress | None
) -> tuple[dict[str, Choice], ScorerFactory]:
    """Return the identity of a run in this process or on a service, and its scorer."""
    url, concurrency = options.url, options.concurrency
    if url is None:
        plan = _local_plan(judging)
        if options.max_cost is not None:
            plan.check_prices()
        if (warning := plan.threshold_warning()) is not None:
            _say(progress, warning)
        return plan.identity(), partial(plan.scorer, concurrency=concurrency)
    from plumbline.cli.score.remote import remote_scorer  # noqa: PLC0415 - not for rows that are scored here

    deadline = judging.deadline_seconds
    identity = {**option_identity(judging), "threshold": judging.threshold, "deadline": deadline, "service": url}
    return identity, partial(remote_scorer, url, judging, concurrency=concurrency)


def _local_plan(judging: EvaluationOptions) -> "LocalPlan":
    # Seconds of import that a run against a service does not pay
    from plumbline.cli.score.local import LocalPlan  # noqa: PLC0415
    from plumbline.ground.settings import load_settings  # noqa: PLC0415
    from plumbline.ground.telemetry import configure_logging  # noqa: PLC0415

    settings = load_settings()
    # Each row says if a tier failed; a log line for each of a million rows helps no one
    configure_logging(settings.log_level if "log_level" in settings.model_fields_set else "ERROR")
    return LocalPlan(settings, judging)


def _estimate(source: InputSource, judging: EvaluationOptions, limit: int | None) -> int:
    from plumbline.cli.score.local import estimate_cost  # noqa: PLC0415 - as above

    with source.open(ReadPosition(), iter(())) as reader:
        estimate = estimate_cost(_local_plan(judging), islice(reader, limit))
    sys.stdout.writelines(f"{line}\n" for line in estimate.lines())
    return _DONE


def _result_files(stack: ExitStack, output: str, form: str | None) -> ResultFiles:
    if output != "-":
        return result_files(Path(output), form)
    return result_files(Path(stack.enter_context(TemporaryDirectory())) / "standard-output", form or "jsonl")


def _echo_line(line: bytes) -> None:
    _write_stdout(line + b"\n")


def _write_stdout(data: bytes) -> None:
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        # Nothing can be written at exit either
        sys.stdout = None
        raise InvalidInput("closed by its reader", place="standard output") from None


def _say(progress: ScoreProgress | None, line: str) -> None:
    if progress is not None:
        sys.stderr.write(f"plumbline: {line}\n")


def run_interruptibly(work: Callable[[], Coroutine[None, None, T]], stop: StopSignal) -> T | None:
    """Run `work` in an event loop; return None if it was cancelled.

    The first Ctrl-C or SIGTERM sets `stop`, a graceful shutdown; the second one cancels the work.
    """

    async def attended() -> T:
        task = asyncio.current_task()
        with _signals(stop, asyncio.get_running_loop(), lambda: task is not None and task.cancel()):
            return await work()

    try:
        return asyncio.run(attended())
    except asyncio.CancelledError:
        return None


@contextmanager
def _signals(stop: StopSignal, loop: asyncio.AbstractEventLoop, cancel: Callable[[], object]) -> Iterator[None]:
    def interrupted() -> None:
        if stop.is_set:
            cancel()
            return
        stop.set("interrupted")
        sys.stderr.write("plumbline: finishing the rows in flight, then stopping; interrupt again to stop at once\n")

    def handle(_: int, __: FrameType | None) -> None:
        loop.call_soon_threadsafe(interrupted)

    if threading.current_thread() is not threading.main_thread():
        # Signals are the main thread's
        yield
        return
    before = {each: signal.signal(each, handle) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
