"""The command line."""

import argparse
import math
from collections.abc import Callable
from typing import TypeAlias

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
