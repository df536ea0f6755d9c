"""`plumbline score`: input, scorer, output and gates, put together and run."""

import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from plumbline.cli.progress import ScoreProgress
from plumbline.cli.score.options import ScoreOptions
from plumbline.cli.score.results import ResultFiles, RunOutput, digest_of, result_files
from plumbline.cli.score.run import Engine, Run
from plumbline.cli.score.source import open_source
from plumbline.ground.errors import InvalidInput
from plumbline.ground.service_address import URL_VARIABLE

_DONE: Final = 0
_INCOMPLETE: Final = 3


def score_file(options: ScoreOptions) -> int:
    """Score one file in this process or by a service, or estimate the cost; return the exit code."""
    with ExitStack() as stack:
        files = None if options.output is None else _result_files(stack, options.output, options.out_format)
        source = open_source(stack, options.input)
        if files is None:
            # Seconds of import, as below
            from plumbline.cli.score.estimate import estimate_cost  # noqa: PLC0415
            from plumbline.cli.score.local import open_local_engine  # noqa: PLC0415

            local = open_local_engine(options.judging)
            sys.stdout.writelines(f"{line}\n" for line in estimate_cost(source, local).lines())
            return _DONE
        progress = None if options.is_quiet else ScoreProgress(sys.stderr)
        _say(progress, f"{source.path.name}: {source.explanation}")
        engine = _engine(options)
        if options.url is not None and options.has_found_url:
            _say(progress, f"scored by the service at {options.url} ({URL_VARIABLE}); --url '' scores in this process")
        if (warning := engine.check(options.max_cost)) is not None:
            _say(progress, warning)
        digest = digest_of({**source.identity(), **engine.identity()})
        output = stack.enter_context(RunOutput(files, digest, restart=options.restart))
        is_streamed = options.output == "-" and files.form == "jsonl"
        if output.is_complete:
            _say(progress, f"{files.target.name} is complete; nothing is left to do (--restart scores again)")
        else:
            run = Run(
                source,
                output,
                progress=progress,
                echo=(lambda line: _write_stdout(line + b"\n")) if is_streamed else None,
                language=options.language,
            )
            end = run.score_until_signal(engine, max_cost=options.max_cost)
            if end.left is not None:
                how = "" if "-" in (options.output, options.input.name) else "; run the same command again to resume"
                sys.stderr.write(f"plumbline: {end.left}{how}\n")
                return _INCOMPLETE
            if options.url is not None and (count := end.unreachable):
                _say(progress, f"{count} rows cannot pass: the threshold is above the highest score of their tier")
            output.finish()
        if options.output == "-" and not is_streamed:
            _write_stdout(files.target.read_bytes())
        if options.gates is None:
            return _DONE
        # A quarter of a second of import, for runs that have gates alone
        from plumbline.cli.score.gates import build_report  # noqa: PLC0415

        report = build_report(output.result_lines, options.gates, name=files.target.name)
        return options.gates.exit_code(report, is_quiet=options.is_quiet)


def _engine(options: ScoreOptions) -> Engine:
    if options.url is not None:
        from plumbline.cli.score.remote import RemoteEngine  # noqa: PLC0415 - not for rows that are scored here

        return RemoteEngine(options.url, options.judging, concurrency=options.concurrency)
    # Seconds of import that a run against a service does not pay
    from plumbline.cli.score.local import open_local_engine  # noqa: PLC0415

    return open_local_engine(options.judging, concurrency=options.concurrency)


def _result_files(stack: ExitStack, output: str, form: str | None) -> ResultFiles:
    if output == "-":
        output, form = f"{stack.enter_context(TemporaryDirectory())}/standard-output", form or "jsonl"
    return result_files(Path(output), form)


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
