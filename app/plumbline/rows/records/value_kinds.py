"""What a value of a row is: how an error names it without quoting it, and whether it is text."""

from typing import Final

from plumbline.rows.records.record import BadRow

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


def checked_text(value: object, name: str, expected: str) -> str:
    """The value, if it is text that UTF-8 can hold.

    Raises:
        BadRow: it is not.
    """
    if not isinstance(value, str):
        raise BadRow(f"{name} is {kind_of(value)}", expected)
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise BadRow(f"{name} holds half of a surrogate pair", "text that UTF-8 can hold") from None
    return value


def shown(text: str) -> str:
    """A name or an id as an error quotes it: on one line, shortened."""
    return repr(text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…")
