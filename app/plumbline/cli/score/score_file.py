"""`plumbline score` on one machine: source, scorer, output and gates of one request, put together and run."""

import asyncio
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from plumbline.cli.progress import ScoreProgress
from plumbline.cli.score.gates import RunGates, load_gates
from plumbline.cli.score.output import ResultFiles, RunOutput, RunState, result_files
from plumbline.cli.score.request import ScoreRequest
from plumbline.cli.score.run import Budget, Run, RunEnd, StopSignal, StreamScorer
from plumbline.cli.score.source import InputSource, identify_file, open_source
from plumbline.ground.errors import InvalidInput
from plumbline.rows.records.record import ReadPosition
from plumbline.rows.run_identity import Choice, option_identity

if TYPE_CHECKING:
    from plumbline.cli.score.local import LocalPlan

T = TypeVar("T")

_DONE: Final = 0
_INCOMPLETE: Final = 3


class ScoringPlace(NamedTuple):
    """This process or a service: the part of the run's identity that it decides, and its scorer."""

    identity: dict[str, Choice]
    scorer: Callable[[], AbstractAsyncContextManager[StreamScorer]]


def score_file(request: ScoreRequest) -> int:
    """Score the file of a request; return the exit code.

    Raises:
        PlumblineError: an error that the user can fix.
    """
    with ExitStack() as stack:
        if request.estimate:
            return _estimate(request, open_source(request.input, stack))
        gates = load_gates(request.gates)
        files = _result_files(request, stack)
        source = open_source(request.input, stack)
        _say(request, f"{source.path.name}: {source.explanation}")
        place = _scoring_place(request)
        identity = {**source.identity(), "limit": request.limit, **place.identity}

        def state_of(before: RunState | None) -> RunState:
            return RunState(identify_file(source.path, before.input if before else None), identity)

        output = stack.enter_context(RunOutput(files, state_of, restart=request.restart))
        if output.journal is None:
            _say(request, f"{files.target.name} is complete; nothing is left to do (--restart scores again)")
        else:
            echo = _echo_line if _is_streamed(request, files) else None
            progress = None if request.quiet else ScoreProgress(sys.stderr)
            run = Run(source, output, output.journal, limit=request.limit, progress=progress, echo=echo)
            end = _run_to_end(run, place, request.max_cost)
            if progress is not None and end is not None:
                progress.end(end.standing, end.left)
            if end is None or end.left is not None:
                return _say_incomplete(request, end)
            output.finish()
        return _finish(request, output, gates)


def _run_to_end(run: Run, place: ScoringPlace, max_cost: float | None) -> RunEnd | None:
    """Return the end of the run; None if it was cancelled at once."""
    stop = StopSignal()

    async def work() -> RunEnd:
        async with place.scorer() as scorer:
            return await run.score(scorer, stop, Budget(max_cost, stop))

    return run_interruptibly(work, stop)


def _finish(request: ScoreRequest, output: RunOutput, gates: RunGates | None) -> int:
    if request.output == "-" and not _is_streamed(request, output.files):
        _write_stdout(output.files.target.read_bytes())
    return _DONE if gates is None else gates.exit_code(output.result_lines, name=output.files.target.name)


def _say_incomplete(request: ScoreRequest, end: RunEnd | None) -> int:
    rows = "" if end is None else f"{end.standing.counts.rows} rows written, more remain: "
    left = "stopped at once" if end is None else end.left
    how = "; run the same command again to resume" if request.is_resumable else ""
    sys.stderr.write(f"plumbline: {rows}{left}{how}\n")
    return _INCOMPLETE


def _scoring_place(request: ScoreRequest) -> ScoringPlace:
    options = request.options
    if request.url is None:
        plan = _local_plan(request)
        if request.max_cost is not None:
            plan.check_prices()
        return ScoringPlace(plan.identity(), partial(plan.scorer, concurrency=request.concurrency))
    from plumbline.cli.score.remote import remote_scorer  # noqa: PLC0415 - not for rows that are scored here

    identity = {
        **option_identity(options),
        "threshold": options.threshold,
        "deadline": options.deadline_seconds,
        "service": request.url,
    }
    return ScoringPlace(identity, partial(remote_scorer, request.url, options, concurrency=request.concurrency))


def _local_plan(request: ScoreRequest) -> "LocalPlan":
    # Seconds of import that a run against a service does not pay
    from plumbline.cli.score.local import LocalPlan  # noqa: PLC0415
    from plumbline.ground.settings import load_settings  # noqa: PLC0415
    from plumbline.ground.telemetry import configure_logging  # noqa: PLC0415

    settings = load_settings()
    # Each row says if a tier failed; a log line for each of a million rows helps no one
    configure_logging(settings.log_level if "log_level" in settings.model_fields_set else "ERROR")
    return LocalPlan(settings, request.options)


def _estimate(request: ScoreRequest, source: InputSource) -> int:
    from plumbline.cli.score.local import CostEstimator  # noqa: PLC0415 - as above

    with source.open(ReadPosition(), iter(())) as reader:
        limit = request.limit
        rows = reader if limit is None else (row for row, _ in zip(reader, range(limit), strict=False))
        estimate = CostEstimator(_local_plan(request)).estimate(rows)
    sys.stdout.writelines(f"{line}\n" for line in estimate.lines())
    return _DONE


def _result_files(request: ScoreRequest, stack: ExitStack) -> ResultFiles:
    if request.output != "-":
        return result_files(Path(request.output or ""), request.out_form)
    folder = Path(stack.enter_context(TemporaryDirectory()))
    return result_files(folder / "standard-output", request.out_form or "jsonl")


def _is_streamed(request: ScoreRequest, files: ResultFiles) -> bool:
    """Return True if each line goes to standard output as soon as it is written."""
    return request.output == "-" and files.form == "jsonl"


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


def _say(request: ScoreRequest, line: str) -> None:
    if not request.quiet:
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
