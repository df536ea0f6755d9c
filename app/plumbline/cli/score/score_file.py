"""`plumbline score`: input, scorer, output and gates, put together and run."""

import argparse
import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from plumbline.cli.progress import ScoreProgress
from plumbline.cli.score.gates import RunGates
from plumbline.cli.score.options import WHOLE, Shard, check_options, parse_row_options
from plumbline.cli.score.results import RunOutput, digest_of, result_files
from plumbline.cli.score.run import Engine, Run
from plumbline.cli.score.source import open_source
from plumbline.ground.errors import InvalidInput
from plumbline.ground.service_address import URL_VARIABLE, explain_missing_service, find_url
from plumbline.rows.report.building import ReportBuilder
from plumbline.schemas.evaluation import EvaluationOptions

_DONE: Final = 0
_INCOMPLETE: Final = 3


def score_file(given: argparse.Namespace) -> int:
    """Score one file, here or by a service, or estimate the cost; return the exit code; raise InvalidInput."""
    check_options(given)
    shard = WHOLE if given.shard is None else Shard.parse(given.shard)
    judging = parse_row_options(given)
    gates = RunGates(given)
    progress = None if given.quiet else ScoreProgress(sys.stderr, is_json=given.json)
    with ExitStack() as stack:
        target, form = given.output, given.out_format
        if target == "-":
            target, form = f"{stack.enter_context(TemporaryDirectory())}/standard-output", form or "jsonl"
        files = None if given.estimate else result_files(Path(target), form)
        source = open_source(stack, given, form=given.format, limit=given.limit, shard=shard)
        if files is None:
            # Seconds of import, as below
            from plumbline.cli.score.estimate import estimate_lines  # noqa: PLC0415
            from plumbline.cli.score.local import open_local_engine  # noqa: PLC0415

            local = open_local_engine(judging)
            sys.stdout.writelines(f"{line}\n" for line in estimate_lines(source, local))
            return _DONE
        _say(progress, f"{source.path.name}: {source.explanation}")
        url = find_url(given.url)
        engine = _engine(url, judging, given.concurrency)
        if url is not None and given.url is None:
            _say(progress, f"scored by the service at {url} ({URL_VARIABLE}); --url '' scores in this process")
        if (warning := engine.check(given.max_cost)) is not None:
            _say(progress, warning)
        digest = digest_of({**source.identity(), **engine.identity()})
        output = stack.enter_context(RunOutput(files, digest, shard=shard, restart=given.restart))
        builder = ReportBuilder(baseline=gates.baseline, gates=gates.gates)
        run = Run(source, output, builder, progress=progress, language=given.lang)
        if not _score_pending(given, run, engine, progress):
            return _INCOMPLETE
        if given.output == "-" and files.form != "jsonl":
            _write_stdout(files.target.read_bytes())
    report = builder.report()
    if url is not None and (count := report.summary.flags.get("threshold_unreachable", 0)):
        _say(progress, f"{count} rows cannot pass: the threshold is above the highest score of their tier")
    # A shard of a short file may be empty
    is_judged = bool(builder.rows) or shard == WHOLE or gates.is_asked
    code = gates.exit_code(report, is_quiet=given.quiet) if is_judged else _DONE
    if progress is not None:
        progress.close_with(report)
    return code


def _score_pending(given: argparse.Namespace, run: Run, engine: Engine, progress: ScoreProgress | None) -> bool:
    """Score the pending rows, of a complete run those that are worth a retry; return False if some are left."""
    output, name, can_rerun = run.output, run.output.files.target.name, "-" not in (given.output, given.data)
    if output.is_complete:
        if not (count := output.retry()):
            _say(progress, f"{name} is complete; nothing is left to do (--restart scores again)")
            run.count_written_rows()
            return True
        _say(progress, f"{name}: {count} rows without a verdict are scored again")
    is_streamed = given.output == "-" and output.files.form == "jsonl"
    echo = (lambda line: _write_stdout(line + b"\n")) if is_streamed else None
    if (left := run.score_until_signal(engine, max_cost=given.max_cost, echo=echo)) is not None:
        how = "; run the same command again to resume" if can_rerun else ""
        sys.stderr.write(f"plumbline: {left}{how}\n")
        return False
    output.finish()
    if (count := run.counts.to_retry) and can_rerun:
        _say(progress, f"{count} rows have no verdict for now: run the same command again to score these again")
    return True


def _engine(url: str | None, judging: EvaluationOptions, concurrency: int | None) -> Engine:
    if url is not None:
        from plumbline.cli.score.remote import RemoteEngine  # noqa: PLC0415 - not for rows that are scored here

        return RemoteEngine(url, judging, concurrency=concurrency)
    with explain_missing_service():
        # Seconds of import that a run against a service does not pay
        from plumbline.cli.score.local import open_local_engine  # noqa: PLC0415

    return open_local_engine(judging, concurrency=concurrency)


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
