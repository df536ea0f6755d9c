"""`plumbline`: one parser, one file a command, and one line with exit code 2 for errors that the user can fix."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any, Final, NoReturn

from plumbline.cli import COMMAND_TABLE
from plumbline.ground.errors import InvalidInput, PlumblineError
from plumbline.ground.phrases import load_data
from plumbline.ground.version import VERSION

_NAME: Final = "plumbline"
_USAGE_ERROR: Final = 2
_NEEDS_SERVICE: Final = "needs the service: pip install 'plumbline-rag[service]'"
_NEEDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "retrieval": "needs numpy and scipy: pip install 'plumbline-rag[retrieval]'",
        "mcp": "needs the MCP SDK: pip install 'plumbline-rag[mcp]'",
    }
)
# By what shows that a command can run, where the base install has it not
_PACKAGES: Final[Mapping[str, str]] = MappingProxyType(
    dict.fromkeys(("serve", "worker", "calibrate", "detectors", "lab", "batch-file", "keys", "doctor"), "fastapi")
    | {"retrieval": "scipy", "mcp": "mcp"}
)
# A process loads the file of its own command alone, which takes up to seconds.
COMMANDS: Final = (
    "serve", "worker", "score", "report", "rate", "calibrate", "detectors", "retrieval", "lab", "batch-file", "keys",
    "doctor", "mcp",
)  # fmt: skip
# Commands before 0.3.
_NEW_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "judge": "doctor judge",
        "prepare": "doctor prepare",
        "choose-threshold": "rate threshold",
        "drift": "rate drift",
        "evaluate": "retrieval evaluate",
        "compare": "retrieval compare",
        "fuse": "retrieval fuse",
    }
)
# They stand where a plain `rate` has a file, so argparse gets them as one word with their command.
_PARTS_OF_RATE: Final = ("threshold", "drift")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0, or 2 with one line on standard error for errors of the user."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        if given and given[0] in _NEW_NAMES:
            raise InvalidInput(f"{given[0]!r} is now 'plumbline {_NEW_NAMES[given[0]]}'")
        options = build_parser(given).parse_args(given)
        code: int = options.run(options)
    except PlumblineError as error:
        sys.stderr.write(f"plumbline: {error}\n")
        return _USAGE_ERROR
    except ModuleNotFoundError as error:
        if not _is_third_party(error):
            raise
        sys.stderr.write(f"plumbline {given[0]} {_NEEDS.get(given[0], _NEEDS_SERVICE)}\n")
        return _USAGE_ERROR
    return code


class Parser(argparse.ArgumentParser):
    """A parser, and one for each of its commands, whose errors are one line and name the option that was meant."""

    def error(self, message: str) -> NoReturn:
        self.exit(
            _USAGE_ERROR, f"{self.prog}: {message}{' See' if message.endswith('?') else '; see'} {self.prog} --help\n"
        )

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if self.prog == _NAME and args[:1] == ["rate"] and args[1:2] and args[1] in _PARTS_OF_RATE:
            args = [" ".join(args[:2]), *args[2:]]
        known, left = super().parse_known_args(args, namespace)
        if left:
            near = get_close_matches(left[0].partition("=")[0], self._option_string_actions, 1)
            self.error(f"unexpected argument {left[0]!r}" + (f", did you mean {near[0]}?" if near else ""))
        return known, left


def build_parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser of the command that the arguments name; if they name none, a list of the commands."""
    parser = Parser(
        prog=_NAME, description="Check whether answers of a RAG application are supported by what it retrieved."
    )
    parser.add_argument("--version", action="version", version=f"plumbline {VERSION}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    named = arguments[0] if arguments else ""
    if named in COMMANDS:
        import_module(f"plumbline.cli.{named.replace('-', '_')}").add_command(commands)
    else:
        table = load_data(COMMAND_TABLE)
        for command in COMMANDS:
            is_there = _is_installed(_PACKAGES.get(command, "argparse"))
            needs = _NEEDS.get(command, _NEEDS_SERVICE)
            commands.add_parser(command, help=table[command]["help"] if is_there else needs)
    return parser


def _is_installed(package: str) -> bool:
    with suppress(ModuleNotFoundError):
        return find_spec(package) is not None
    return False


def _is_third_party(error: ModuleNotFoundError) -> bool:
    return error.name is not None and error.name.partition(".")[0] != "plumbline"


if __name__ == "__main__":
    sys.exit(main())
