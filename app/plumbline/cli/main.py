"""`plumbline`: one parser, one file a command, and one line with exit code 2 for errors that the user can fix."""

import argparse
import sys
from collections.abc import Sequence
from contextlib import suppress
from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, NoReturn

from plumbline.cli import COMMAND_TABLE
from plumbline.ground.errors import InvalidInput, PlumblineError
from plumbline.ground.phrases import load_data
from plumbline.ground.version import VERSION

_NAME: Final = "plumbline"
_USAGE_ERROR: Final = 2
_TABLE: Final = load_data(COMMAND_TABLE)
_NAMES: Final = _TABLE["names"]
# A process loads the file of its own command alone, which takes up to seconds.
COMMANDS: Final[tuple[str, ...]] = tuple(_NAMES["commands"])
# They stand where a plain `rate` has a file, so argparse gets them as one word with their command.
_PARTS_OF_RATE: Final = ("threshold", "drift")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code: 0, or 2 with one line on standard error for errors of the user."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        if given and (new_name := _NAMES["renamed"].get(given[0])):
            raise InvalidInput(f"{given[0]!r} is now 'plumbline {new_name}'")
        options = build_parser(given).parse_args(given)
        code: int = options.run(options)
    except PlumblineError as error:
        sys.stderr.write(f"plumbline: {error}\n")
        return _USAGE_ERROR
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "plumbline":
            raise
        sys.stderr.write(f"plumbline {given[0]} {_explain_missing(given[0])}\n")
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
        for command in COMMANDS:
            is_there = _is_installed(_TABLE[command].get("needs", "argparse"))
            commands.add_parser(command, help=_TABLE[command]["help"] if is_there else _explain_missing(command))
    return parser


def _is_installed(package: str) -> bool:
    with suppress(ModuleNotFoundError):
        return find_spec(package) is not None
    return False


def _explain_missing(command: str) -> str:
    text: str = _NAMES["missing"][_TABLE[command].get("needs", "fastapi")]
    return text


if __name__ == "__main__":
    sys.exit(main())
