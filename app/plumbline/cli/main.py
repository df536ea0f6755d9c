"""`plumbline`: one parser, a command a file, and one line with exit code 2 for whatever the user can fix."""

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType

from plumbline import __version__
from plumbline.ground.errors import PlumblineError

_USAGE_ERROR = 2
# A process loads the file of its own command alone; all of them take some tenths of a second.
_FILE_BY_COMMAND: Mapping[str, str] = MappingProxyType(
    {
        "serve": "serve",
        "score": "score.command",
        "worker": "worker",
        "keys": "keys",
        "prepare": "prepare",
        "calibrate": "calibrate",
        "evaluate": "retrieval",
        "compare": "retrieval",
        "fuse": "retrieval",
        "batch-file": "batch_file",
        "report": "report",
        "lab": "lab",
    }
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code: 0, or 2 with one line on standard error for what the user can fix."""
    given = sys.argv[1:] if arguments is None else arguments
    options = _parser(given).parse_args(given)
    try:
        code: int = options.run(options)
    except PlumblineError as error:
        sys.stderr.write(f"plumbline: {error}\n")
        return _USAGE_ERROR
    return code


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="plumbline", description="Is what a RAG app says true to what it retrieved?")
    parser.add_argument("--version", action="version", version=f"plumbline {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for file in _files(arguments):
        import_module(f"plumbline.cli.{file}").add_command(commands)
    return parser


def _files(arguments: Sequence[str]) -> Iterable[str]:
    """The files of the command that is named, or of all when none is."""
    first = arguments[0] if arguments else ""
    if first == "--version":
        return ()
    named = _FILE_BY_COMMAND.get(first)
    return dict.fromkeys(_FILE_BY_COMMAND.values()) if named is None else (named,)


if __name__ == "__main__":
    sys.exit(main())
