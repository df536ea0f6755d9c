"""What `plumbline score` does: the parts are put together, the run is run, its ending told."""

import argparse
import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from plumbline.cli.progress import ScoreProgress
from plumbline.cli.score.input_file import identified
from plumbline.cli.score.interrupt import run_interruptibly
from plumbline.cli.score.journal import Journal
from plumbline.cli.score.output import Output, ResultFiles, result_files
from plumbline.cli.score.place import Place, here_plan, place_of
from plumbline.cli.score.run import Ending, Run
from plumbline.cli.score.run_state import RunState
from plumbline.cli.score.scorers import Budget, Halt
from plumbline.cli.score.source import Source, share_of, source_of
from plumbline.cli.score.verdict import Verdict, verdict_of
from plumbline.ground.errors import InvalidInput
from plumbline.rows.records.record import ReadPosition

_DONE: Final = 0
_INCOMPLETE: Final = 3


def score_file(options: argparse.Namespace) -> int:
    """Scores the file that the options name; the exit code.

    Raises:
        PlumblineError: what the user can fix.
    """
    _check(options)
    with ExitStack() as stack:
        if options.estimate:
            return _estimate(options, source_of(options, stack))
        verdict = verdict_of(options)
        files = _files(options, stack)
        source = source_of(options, stack)
        _say(options, f"{source.path.name}: {source.explanation}")
        place = place_of(options)
        choices = {**source.choices(), "limit": options.limit, **place.choices}

        def state_of(before: RunState | None) -> RunState:
            return RunState(identified(source.path, before.input if before else None), choices)

        output = stack.enter_context(Output(files, state_of, restart=options.restart))
        if output.state.is_complete:
            _say(options, f"{files.target.name} is complete; nothing is left to do (--restart scores again)")
        else:
            ending = _scored(options, source, place, output)
            if ending is None or ending.left is not None:
                return _tell_left(options, ending)
            output.finish()
        return _finished(options, output, verdict)


def _scored(options: argparse.Namespace, source: Source, place: Place, output: Output) -> Ending | None:
    """How the run ended; None when it was cut off."""
    halt, journal = Halt(), output.journal
    if journal is None:
        raise AssertionError("an output that is not complete has a journal")

    def save(position: ReadPosition) -> None:
        output.save(output.state.at(position))

    progress = None if options.quiet else ScoreProgress(sys.stderr)
    run = Run(
        open_reader=source.open,
        lines=_Tee(journal) if _goes_out(options, output.files) else journal,
        start=output.state.position,
        save=save,
        share_of=share_of(source, options.limit),
        limit=options.limit,
        watcher=progress,
    )
    ending = run_interruptibly(lambda: _within(place, run, halt, Budget(options.max_cost, halt)), halt)
    if progress is not None and ending is not None:
        progress.end(ending.standing, ending.left)
    return ending


async def _within(place: Place, run: Run, halt: Halt, budget: Budget) -> Ending:
    async with place.scorer() as scorer:
        return await run.score(scorer, halt, budget)


def _finished(options: argparse.Namespace, output: Output, verdict: Verdict | None) -> int:
    if options.output == "-" and not _goes_out(options, output.files):
        _put_out(output.files.target.read_bytes())
    if verdict is None:
        return _DONE
    return verdict.exit_code(output.result_lines, name=output.files.target.name)


def _tell_left(options: argparse.Namespace, ending: Ending | None) -> int:
    rows = "" if ending is None else f"{ending.standing.counts.rows} rows are written and others are left: "
    left = "stopped at once" if ending is None else ending.left
    can_go_on = "-" not in (options.output, options.data)
    how = "; run the same command again to go on" if can_go_on else ""
    sys.stderr.write(f"plumbline: {rows}{left}{how}\n")
    return _INCOMPLETE


def _estimate(options: argparse.Namespace, source: Source) -> int:
    # The judges, which a run against a service does not load
    from plumbline.cli.score.estimate import Estimator, estimate_lines  # noqa: PLC0415

    if options.url is not None:
        raise InvalidInput("--estimate: counts for the judges of this process's settings; expected no --url")
    with source.open(ReadPosition(), iter(())) as reader:
        limit = options.limit
        rows = reader if limit is None else (row for row, _ in zip(reader, range(limit), strict=False))
        estimate = Estimator(here_plan(options)).of(rows)
    sys.stdout.writelines(f"{line}\n" for line in estimate_lines(estimate))
    return _DONE


def _files(options: argparse.Namespace, stack: ExitStack) -> ResultFiles:
    if options.output != "-":
        return result_files(Path(options.output), options.out_format)
    folder = Path(stack.enter_context(TemporaryDirectory()))
    return result_files(folder / "standard-output", options.out_format or "jsonl")


def _goes_out(options: argparse.Namespace, files: ResultFiles) -> bool:
    """Whether each line goes to standard output as soon as it is there."""
    return options.output == "-" and files.form == "jsonl"


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
        sys.stdout = None
        raise InvalidInput("closed by its reader", place="standard output") from None


def _check(options: argparse.Namespace) -> None:
    if options.output is None and not options.estimate:
        raise InvalidInput("-o: expected a file for the results, or - for standard output")
    for name in ("limit", "concurrency"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise InvalidInput(f"--{name}: expected 1 or more, found {value}")
    if options.max_cost is not None and not options.max_cost > 0:
        raise InvalidInput("--max-cost: expected more than 0")
    if options.output == "-" and str(options.markdown) == "-":
        raise InvalidInput("--markdown: results go to standard output already; name a file")


def _say(options: argparse.Namespace, line: str) -> None:
    if not options.quiet:
        sys.stderr.write(f"plumbline: {line}\n")
