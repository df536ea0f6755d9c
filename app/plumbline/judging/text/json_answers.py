"""Answers in JSON, read as their members: `{"width_cm": 40, "foldable": false}` says "width cm: 40. no foldable"."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

_MAX_CHARACTERS = 20_000
_WORD_BREAK = re.compile(r"[_\s-]+|(?<=[a-z0-9])(?=[A-Z])")


def read_members(text: str, name_of: Callable[[str], str] = str) -> str | None:
    """Return the members of a JSON object or array as one text, a sentence each; None if the text is neither.

    A member is its name and its value; one that is true is its name, one that is false is denied, null is left out.
    `name_of` may shorten a name, or leave it out.
    """
    stripped = text.strip()
    if len(stripped) > _MAX_CHARACTERS or stripped[:1] + stripped[-1:] not in ("{}", "[]"):
        return None
    try:
        value: Any = json.loads(stripped, parse_float=str, parse_int=str)
    except (ValueError, RecursionError):
        return None
    members = [_spoken(name, leaf, name_of) for name, leaf in _leaves("", value)]
    return ". ".join(member for member in members if member) or None


def _leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield each value that is no object and no array, with the name of the member that holds it."""
    waiting = [(name, value)]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, Mapping):
            waiting.extend(reversed(list(value.items())))
        elif isinstance(value, list):
            waiting.extend((name, each) for each in reversed(value))
        else:
            yield name, value


def _spoken(name: str, value: Any, name_of: Callable[[str], str]) -> str:
    words = " ".join(filter(None, _WORD_BREAK.split(name)))
    if value is None:
        return ""
    if isinstance(value, bool):
        return words if value else f"no {words}"
    shown = name_of(words) if words else ""
    return f"{shown}: {value}" if shown else str(value)
