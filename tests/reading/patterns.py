"""Every regular expression that the package keeps, and what Python's parser makes of one."""

import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping
from typing import Any

import plumbline

# Without type stubs
op: Any = importlib.import_module("re._constants")
parser: Any = importlib.import_module("re._parser")

REPEATS = frozenset({op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT})


def kept_patterns() -> Iterator[tuple[str, str, re.Pattern[str]]]:
    """Yield module, name and pattern of each; a module whose extra is not installed is left out."""
    for module_name in _modules():
        try:
            module = importlib.import_module(module_name)
        except ImportError:
            continue
        for name, value in vars(module).items():
            for pattern in _patterns(value):
                yield module_name, name, pattern


def _modules() -> list[str]:
    # Not `__main__`, which would run
    names = [module.name for module in pkgutil.walk_packages(plumbline.__path__, "plumbline.")]
    return [name for name in names if not name.endswith("__main__")]


def _patterns(value: object) -> Iterator[re.Pattern[str]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, Mapping):
        yield from _patterns(list(value.values()))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _patterns(each)
