"""The command line."""

import argparse
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from plumbline.ground.phrases import load_data

if TYPE_CHECKING:
    from plumbline.ground.settings import Settings

# To which each file adds its commands; argparse has no public name for it
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"

Run: TypeAlias = Callable[[argparse.Namespace], int]
COMMAND_TABLE: Final = "cli/commands"
_TEXTS: Final = ("help", "description", "epilog")
_BOUNDS: Final = ("least", "above", "most", "below")
_TYPES: Final[Mapping[str, Any]] = MappingProxyType({"int": int, "float": float, "path": Path})


def build_command(
    commands: Commands, name: str, run: Run | Mapping[str, Run], **named: object
) -> dict[str, argparse.ArgumentParser]:
    """Add a command of `commands.toml` with its parts, and return the parser of each part; "" is the command's own.

    `run`: the command, or each of its parts by name; `named`: types, choices and lists that `commands.toml` names.
    """
    runs = {"": run} if callable(run) else run
    table = load_data(COMMAND_TABLE)[name]
    parsers = {"": _add_parser(commands, name, table, named)}
    if parts := table.get("parts"):
        actions = parsers[""].add_subparsers(required="" not in runs, metavar=table["metavar"])
        parsers |= {part: _add_parser(actions, part, content, named) for part, content in parts.items()}
    for part, start in runs.items():
        parsers[part].set_defaults(run=start)
    return parsers


def add_options(parser: "argparse._ActionsContainer", options: Mapping[str, Mapping[str, Any]], **named: Any) -> None:
    """Add the options of one table; `@name` stands for those of `shared.name`."""
    for flags, given in options.items():
        if flags.startswith("@"):
            add_options(parser, load_data(COMMAND_TABLE)["shared"][flags[1:]], **named)
            continue
        keywords = {key: value for key, value in given.items() if key not in _BOUNDS}
        if "type" in given:
            kind = keywords["type"] = _TYPES.get(given["type"]) or named[given["type"]]
            if bounds := {key: given[key] for key in _BOUNDS if key in given}:
                keywords["type"] = _number_type(kind, bounds)
        if isinstance(given.get("choices"), str):
            keywords["choices"] = named[given["choices"]]
        if "help" in given:
            keywords["help"] = _fill(given["help"], named)
        parser.add_argument(*flags.split(), **keywords)


def _add_parser(
    commands: Commands, name: str, table: Mapping[str, Any], named: Mapping[str, Any]
) -> argparse.ArgumentParser:
    texts: dict[str, Any] = {key: _fill(table[key], named) for key in _TEXTS if key in table}
    parser = commands.add_parser(name, **texts)
    add_options(parser, table.get("options", {}), **named)
    for title, group in table.get("groups", {}).items():
        add_options(parser.add_argument_group(title, group["description"]), group["options"], **named)
    return parser


def _fill(text: str, named: Mapping[str, Any]) -> str:
    return text.format_map({name: ", ".join(value) for name, value in named.items() if not callable(value)})


def _number_type(kind: Callable[[str], float], bounds: Mapping[str, float]) -> Callable[[str], float]:
    """Return a `type` of argparse for finite numbers within bounds: `least` and `most`, or `above` and `below`."""
    noun = "a whole number" if kind is int else "a number"
    low, high = bounds.keys() & {"least", "above"}, bounds.keys() & {"most", "below"}
    words = {"least": "from {:,}", "most": "to {:,}", "above": "above {:,}", "below": "and below {:,}"}
    if not high:
        words["least"] = "of {:,} or more"
    wanted = " ".join([noun, *(words[name].format(bounds[name]) for name in (*low, *high))])

    def read(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        is_inside = bounds.get("above", -math.inf) < value < bounds.get("below", math.inf)
        if not (is_inside and bounds.get("least", value) <= value <= bounds.get("most", value)):
            raise argparse.ArgumentTypeError(f"found {text!r}; expected {wanted}")
        return value

    return read


def start_logging() -> "Settings":
    """Return the settings of this process, whose level its logs have; raises as `load_settings`."""
    from plumbline.ground.settings import load_settings  # noqa: PLC0415 - tenths of a second
    from plumbline.ground.telemetry import configure_logging  # noqa: PLC0415

    settings = load_settings()
    configure_logging(settings.log_level)
    return settings


def print_lines(lines: Iterable[str]) -> None:
    sys.stdout.writelines(f"{line}\n" for line in lines)


def print_json(value: object) -> None:
    import msgspec  # noqa: PLC0415 - not for the list of commands

    print_lines([msgspec.json.encode(value).decode()])
