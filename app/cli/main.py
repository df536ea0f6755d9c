"""`plumbline`: one parser, a command a file, and one line with exit code 2 for whatever the user can fix."""

import argparse
import sys
from collections.abc import Sequence

from app import __version__
from app.cli import batch_file, calibrate, keys, prepare, report, retrieval, score, serve, worker
from app.errors import PlumblineError

_USAGE_ERROR = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code: 0, or 2 with one line on standard error for what the user can fix."""
    options = _parser().parse_args(arguments)
    try:
        code: int = options.run(options)
    except PlumblineError as error:
        sys.stderr.write(f"plumbline: {error}\n")
        return _USAGE_ERROR
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="plumbline", description="Is what a RAG app says true to what it retrieved?")
    parser.add_argument("--version", action="version", version=f"plumbline {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    serve.add_command(commands)
    score.add_command(commands)
    worker.add_command(commands)
    keys.add_command(commands)
    prepare.add_command(commands)
    calibrate.add_command(commands)
    retrieval.add_commands(commands)
    batch_file.add_command(commands)
    report.add_command(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())
