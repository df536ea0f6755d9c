"""The rows of a JSON body as they were written: what is wrong with one is told of it alone, by whoever reads rows."""

import json
import re
from collections.abc import Iterator
from typing import Final

_SPACE: Final = re.compile(r"[ \t\n\r]*+")
# Values are only walked over; a number of many digits is no reason to stop.
_DECODER: Final = json.JSONDecoder(parse_int=str, parse_float=str)


def row_texts(text: str, field: str) -> Iterator[str]:
    """The items of a list that is a field of an object, each in one line.

    Args:
        text: JSON that can be read, an object with this field once.
    """
    at = _behind(text, _behind(text, 0) + 1)
    while text[at] != "}":
        name, at = _DECODER.raw_decode(text, at)
        at = _behind(text, _behind(text, at) + 1)
        if name == field:
            yield from _items(text, at)
            return
        at = _behind(text, _DECODER.raw_decode(text, at)[1])
        at = _behind(text, at + 1) if text[at] == "," else at


def _items(text: str, at: int) -> Iterator[str]:
    while text[at] != "]":
        start = _behind(text, at + 1)
        if text[start] == "]":
            return
        _, end = _DECODER.raw_decode(text, start)
        # JSON has no end of a line inside a string
        yield text[start:end].replace("\n", " ").replace("\r", " ")
        at = _behind(text, end)


def _behind(text: str, at: int) -> int:
    """The place behind white space."""
    match = _SPACE.match(text, at)
    return match.end() if match else at
