"""What `plumbline score` does: the parts are put together, the run is run, its ending told."""

import argparse
import asyncio
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any, Final

from pydantic import ValidationError

from app.batch_scoring.input_file import identified
from app.batch_scoring.journal import Journal
from app.batch_scoring.output import Output, ResultFiles, result_files
from app.batch_scoring.run import Ending, Run
from app.batch_scoring.run_state import Choice, RunState
from app.batch_scoring.scorers import Budget, Halt, ManyScorer
from app.cli.score_input import Source, share_of, source_of
from app.cli.score_progress import teller_of
from app.errors import InvalidInput
from app.schemas.evaluation import EvaluationOptions
from app.settings import Settings, load_settings
from app.telemetry import configure_logging

_GATE_FAILED: Final = 1
_INCOMPLETE: Final = 3


@dataclass(frozen=True, slots=True)
class Place:
    """Where rows are scored: what that adds to the choices, and what scores there."""

    choices: Mapping[str, Choice]
    scorer: Callable[[], AbstractAsyncContextManager[ManyScorer]]


def score_file(options: argparse.Namespace) -> int:
    """Scores the file that the options name; the exit code.

    Raises:
        PlumblineError: what the user can fix.
    """
    _check(options)
    row_options = evaluation_options(options)
    with ExitStack() as stack:
        source = source_of(options, stack)
        _say(options, f"{source.path.name}: {source.explanation}")
        place = _place(options, row_options)
        files = _files(options, stack)
        choices: dict[str, Choice] = {
            **source.choices(),
            **_told_options(row_options),
            "limit": options.limit,
            **place.choices,
        }

        def state_of(before: RunState | None) -> RunState:
            return RunState(identified(source.path, before.input if before else None), choices)

        output = stack.enter_context(Output(files, state_of, restart=options.restart))
        return _finished(options, output) if output.state.is_complete else _scored(options, source, place, output)


def evaluation_options(options: argparse.Namespace) -> EvaluationOptions:
    """The options of every row.

    Raises:
        InvalidInput: one of them cannot be; names it as it is written.
    """
    given: dict[str, Any] = {
        "tiers": _names(options.tiers),
        "threshold": options.threshold,
        "deadline_seconds": options.deadline,
        "judges": _names(options.judges),
        "samples": options.samples,
        "escalation": options.escalation,
        "cache": "bypass" if options.no_cache else None,
    }
    try:
        return EvaluationOptions.model_validate({name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        option = str(first["loc"][0]).removesuffix("_seconds")
        raise InvalidInput(f"--{option}: {first['msg']}") from None


def _scored(options: argparse.Namespace, source: Source, place: Place, output: Output) -> int:
    halt = Halt()
    teller = teller_of(sys.stderr, is_quiet=options.quiet)
    journal = output.journal
    if journal is None:
        raise AssertionError("an output that is not complete has a journal")
    run = Run(
        open_reader=source.open,
        lines=journal if options.output != "-" or output.files.form != "jsonl" else _Tee(journal),
        start=output.state.position,
        save=lambda position: output.save(output.state.at(position)),
        share_of=share_of(source, options.limit),
        limit=options.limit,
        watcher=teller,
    )
    ending = _run(lambda: _within(place, run, halt, Budget(options.max_cost, halt)), halt)
    if ending is None:
        return _told_left(options, None, "interrupted at once", output)
    if teller is not None:
        teller.end(ending.standing, ending.left)
    if ending.left is not None:
        return _told_left(options, ending, ending.left, output)
    output.finish()
    return _finished(options, output)


async def _within(place: Place, run: Run, halt: Halt, budget: Budget) -> Ending:
    async with place.scorer() as scorer:
        return await run.score(scorer, halt, budget)


def _run(work: Callable[[], Coroutine[None, None, Ending]], halt: Halt) -> Ending | None:
    """How the work ended; None when it was cut off. The first Ctrl-C calls a halt, the second one cuts it off."""

    async def attended() -> Ending:
        task = asyncio.current_task()
        with _interruptible(halt, asyncio.get_running_loop(), lambda: task is not None and task.cancel()):
            return await work()

    try:
        return asyncio.run(attended())
    except asyncio.CancelledError:
        return None


@contextmanager
def _interruptible(halt: Halt, loop: asyncio.AbstractEventLoop, cut_off: Callable[[], object]) -> Iterator[None]:
    def interrupted() -> None:
        if halt.is_called:
            cut_off()
            return
        halt.call("interrupted")
        sys.stderr.write("plumbline: rows under way are finished, then it stops; interrupt again to stop at once\n")

    def handle(_: int, __: FrameType | None) -> None:
        loop.call_soon_threadsafe(interrupted)

    before = {each: signal.signal(each, handle) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _place(options: argparse.Namespace, row_options: EvaluationOptions) -> Place:
    # Seconds of import that a run against a service does not pay
    from app.batch_scoring.here import HerePlan  # noqa: PLC0415

    settings = load_settings()
    _configure_logging(settings)
    plan = HerePlan(settings, row_options)
    if options.max_cost is not None:
        plan.check_prices()
    return Place(plan.choices(), partial(plan.scorer, at_once=options.concurrency or plan.usual_concurrency))


def _configure_logging(settings: Settings) -> None:
    # That a tier failed stands in each row; a line for each of a million rows helps nobody
    configure_logging(settings.log_level if "log_level" in settings.model_fields_set else "ERROR")


def _files(options: argparse.Namespace, stack: ExitStack) -> ResultFiles:
    if options.output != "-":
        return result_files(Path(options.output), options.out_format)
    folder = Path(stack.enter_context(TemporaryDirectory()))
    return result_files(folder / "standard-output", options.out_format or "jsonl")


class _Tee:
    """Lines into the journal and to standard output at once."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.written = journal.written

    def write(self, line: bytes) -> None:
        self._journal.write(line)
        _put_out(line + b"\n")


def _put_out(data: bytes) -> None:
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        # Nothing can be written at exit either
        sys.stdout = None  # type: ignore[assignment]
        raise InvalidInput("closed by its reader", place="standard output") from None


def _finished(options: argparse.Namespace, output: Output) -> int:
    if output.journal is None:
        _say(options, f"{output.files.target.name} is complete already; nothing was done (--restart scores again)")
    elif options.output == "-" and output.files.form != "jsonl":
        _put_out(output.files.target.read_bytes())
    return 0


def _told_left(options: argparse.Namespace, ending: Ending | None, left: str, output: Output) -> int:
    rows = "" if ending is None else f"{ending.standing.counts.rows} rows are written, others are left: "
    can_go_on = options.output != "-" and options.data != "-"
    how = "; run the same command again to go on" if can_go_on else ""
    sys.stderr.write(f"plumbline: {rows}{left}{how}\n")
    return _INCOMPLETE


def _told_options(options: EvaluationOptions) -> dict[str, Choice]:
    told: dict[str, Choice] = options.model_dump(exclude={"threshold", "deadline_seconds", "max_cost", "offset_unit"})
    return told


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def _check(options: argparse.Namespace) -> None:
    if options.output is None and not options.estimate:
        raise InvalidInput("-o: expected a file for the results, or - for standard output")
    for name in ("limit", "concurrency"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise InvalidInput(f"--{name}: expected 1 or more, found {value}")
    if options.max_cost is not None and not options.max_cost > 0:
        raise InvalidInput("--max-cost: expected more than 0")


def _say(options: argparse.Namespace, line: str) -> None:
    if not options.quiet:
        sys.stderr.write(f"plumbline: {line}\n")
