"""The command line."""

import argparse
import math
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from plumbline.ground.settings import Settings

# To which each file adds its commands; argparse has no public name for it
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def number_type(kind: Callable[[str], float], is_right: Callable[[float], bool], wanted: str) -> Callable[[str], float]:
    """Return a `type` of argparse for finite numbers; `wanted` ends its message: "expected a number above 0"."""

    def read(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and is_right(value)):
            raise argparse.ArgumentTypeError(f"expected {wanted}")
        return value

    return read


def start_logging() -> "Settings":
    """Return the settings of this process, whose level its logs have; raises as `load_settings`."""
    # Tenths of a second that commands without settings do not pay
    from plumbline.ground.settings import load_settings  # noqa: PLC0415
    from plumbline.ground.telemetry import configure_logging  # noqa: PLC0415

    settings = load_settings()
    configure_logging(settings.log_level)
    return settings


def print_lines(lines: Iterable[str]) -> None:
    sys.stdout.writelines(f"{line}\n" for line in lines)


def print_json(value: object) -> None:
    """Print one line of JSON."""
    import msgspec  # noqa: PLC0415 - not for the list of commands

    print_lines([msgspec.json.encode(value).decode()])
