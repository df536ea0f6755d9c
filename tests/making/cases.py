"""Cases of tests that are data: `tests/data/cases/<module>.toml`, which people can review without the code."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parents[1] / "data" / "cases"


@cache
def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))


def load_cases(name: str, key: str, *, inner: type = tuple) -> Any:
    """Return the cases of one test, or a table of them by name.

    Args:
        inner: type of the arrays inside of a case, `tuple` or `list`; cases themselves are tuples.
    """
    found = _read(name)[key]
    if inner is tuple:
        return _freeze(found)
    return (
        tuple(tuple(each) if isinstance(each, list) else each for each in found) if isinstance(found, list) else found
    )


def _freeze(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _freeze(each) for name, each in value.items()}
    return tuple(map(_freeze, value)) if isinstance(value, list) else value
