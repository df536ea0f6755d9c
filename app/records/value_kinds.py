"""How an error names a value without quoting it."""

from typing import Final

_KIND_BY_TYPE: Final[dict[type, str]] = {
    str: "a string",
    bool: "true or false",
    int: "a number",
    float: "a number",
    list: "a list",
    dict: "an object",
    type(None): "null",
}
_MAX_SHOWN: Final = 40


def kind_of(value: object) -> str:
    """`a string`, `a list`, ...; a type that JSON has not, as Parquet gives it, by its name."""
    return _KIND_BY_TYPE.get(type(value)) or f"a {type(value).__name__}"


def shown(text: str) -> str:
    """A name or an id as an error quotes it: on one line, shortened."""
    return repr(text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…")
