"""`plumbline`: one parser, one file a command, and one line with exit code 2 for errors that the user can fix."""

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType

from plumbline.ground.errors import PlumblineError
from plumbline.ground.version import VERSION

_USAGE_ERROR = 2
_NEEDS_SERVICE = "needs the service: pip install 'plumbline-rag[service]'"
_NEEDS_NUMPY = "needs numpy and scipy: pip install 'plumbline-rag[retrieval]'"
# A process loads the file of its own command alone; all of them take some tenths of a second.
_FILE_BY_COMMAND: Mapping[str, str] = MappingProxyType(
    {
        "serve": "serve",
        "score": "score.command",
        "worker": "worker",
        "keys": "keys",
        "judge": "judge",
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
    """Run the command and return its exit code: 0, or 2 with one line on standard error for errors of the user."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        options = _parser(given).parse_args(given)
        code: int = options.run(options)
    except PlumblineError as error:
        sys.stderr.write(f"plumbline: {error}\n")
        return _USAGE_ERROR
    except ModuleNotFoundError as error:
        if not _is_third_party(error):
            raise
        sys.stderr.write(f"plumbline {given[0]} {_needs(_FILE_BY_COMMAND[given[0]])}\n")
        return _USAGE_ERROR
    return code


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="plumbline", description="Check whether answers of a RAG application are supported by what it retrieved."
    )
    parser.add_argument("--version", action="version", version=f"plumbline {VERSION}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for file in _files(arguments):
        try:
            import_module(f"plumbline.cli.{file}").add_command(commands)
        except ModuleNotFoundError as error:
            # The base install has no service: the list of commands marks those that need it.
            if not _is_third_party(error) or (arguments and _FILE_BY_COMMAND.get(arguments[0]) == file):
                raise
            for command in (name for name, place in _FILE_BY_COMMAND.items() if place == file):
                commands.add_parser(command, help=_needs(file))
    return parser


def _needs(file: str) -> str:
    return _NEEDS_NUMPY if file == "retrieval" else _NEEDS_SERVICE


def _is_third_party(error: ModuleNotFoundError) -> bool:
    return error.name is not None and error.name.partition(".")[0] != "plumbline"


def _files(arguments: Sequence[str]) -> Iterable[str]:
    """Return the file of the named command; all files without one."""
    first = arguments[0] if arguments else ""
    if first == "--version":
        return ()
    named = _FILE_BY_COMMAND.get(first)
    return dict.fromkeys(_FILE_BY_COMMAND.values()) if named is None else (named,)


if __name__ == "__main__":
    sys.exit(main())
