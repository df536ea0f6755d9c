"""JSON bodies of retrieval requests as msgspec messages."""

import json
import math
import re
from typing import Any, TypeVar

import msgspec

from plumbline.ground.errors import InvalidInput, MalformedBody

T = TypeVar("T")

MAX_DIGITS = 64
MAX_NAME_CHARACTERS = 64
_PATH_PART = re.compile(r"\.([^.\[]++)|\[([^\[\]]*+)\]")
# A larger body is named without its keys: finding them reads it several times, and holds the interpreter meanwhile.
_MOST_SEARCHED = 1_000_000
_MOST_SHOWN = 80
_PLACE = re.compile(r" - at `(?:key in )?\$(.*)`$")


def printable(name: object) -> str:
    """Return a caller's name in printable ASCII and at most 64 characters."""
    text = ascii(str(name)[: MAX_NAME_CHARACTERS + 1])[1:-1]
    return text if len(text) <= MAX_NAME_CHARACTERS else text[: MAX_NAME_CHARACTERS - 3] + "..."


def decode_message(body: bytes, message: type[T]) -> T:
    """Decode and validate the msgspec message in a JSON body.

    Raises:
        MalformedBody: not JSON in UTF-8.
        InvalidInput: not this message; the place is a path such as `/runs/0/results`.
    """
    if not body.strip():
        raise MalformedBody("the body is empty; send a JSON object")
    try:
        return msgspec.json.decode(body, type=message)
    except msgspec.ValidationError as error:
        said = str(error)
        found = _PLACE.search(said)
        # `.runs[0].results[...]` becomes `/runs/0/results/q1`
        path = [name or index for name, index in _PATH_PART.findall(found[1])] if found else []
        if "..." in path and len(body) <= _MOST_SEARCHED:
            path = _find_keys(body, message, path)
        place = "".join(f"/{printable(part)[:_MOST_SHOWN]}" for part in path)
        raise InvalidInput(_PLACE.sub("", said), place=place) from None
    except msgspec.DecodeError as error:
        raise MalformedBody(f"the body is not JSON: {error}") from None
    except (UnicodeDecodeError, RecursionError):
        raise MalformedBody("the body cannot be read as JSON") from None


def _find_keys(body: bytes, message: type[Any], path: list[str]) -> list[str]:
    """Return the path with the keys that msgspec leaves out, found by halving the objects that hold them."""
    # numbers out of range stay text, which no number converts from
    root = json.loads(body, parse_float=_finite_or_text, parse_int=_finite_or_text)
    container, named = root, []
    for part in path:
        if isinstance(container, list):
            container = container[int(part)]
        elif part != "...":
            container = container[part]
        else:
            items = list(container.items())
            while len(items) > 1:
                half = items[: len(items) // 2]
                container.clear()
                container.update(half)
                items = items[len(half) :] if _converts(root, message) else half
            container.clear()
            container.update(items)
            container = items[0][1]
            named.append(items[0][0])
            continue
        named.append(part)
    return named


def _finite_or_text(digits: str) -> int | float | str:
    if digits.lstrip("-").isdigit() and len(digits) <= MAX_DIGITS:
        return int(digits)
    return float(digits) if math.isfinite(float(digits)) else digits


def _converts(value: object, message: type[Any]) -> bool:
    try:
        msgspec.convert(value, message, str_keys=True)
    except msgspec.ValidationError:
        return False
    return True
