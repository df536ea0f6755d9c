"""Records, the problems of bad rows, and checks of single values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from plumbline.judging.text.sample import ContextLabels, Sample


class Record(NamedTuple):
    """One sample of a file.

    `row` counts from 0 in file order; blank lines and headers are no rows. `custom_id` is the file's, or `row` as
    text. `extra` holds the row's other fields under their own names, as the file gives them.
    """

    row: int
    custom_id: str
    sample: Sample
    extra: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class RecordProblem:
    """The problem of a bad row; `str` gives one line that quotes no passage.

    `line` is the row's first, from 1; None for Parquet, which has no lines. `custom_id` is None where it could not be
    read or is itself the problem.
    """

    row: int
    line: int | None
    custom_id: str | None
    found: str
    expected: str

    def __str__(self) -> str:
        place = f"row {self.row}" if self.line is None else f"row {self.row} (line {self.line})"
        return f"{place}: {self.found}; expected {self.expected}"


class ReadPosition(NamedTuple):
    """A position to resume reading from; plain numbers.

    `row` is the next row. `offset` is in bytes of the uncompressed text after `line` lines; both are 0 for Parquet.
    """

    row: int = 0
    line: int = 0
    offset: int = 0


class BadRow(Exception):
    """A row that cannot be read, with what was found and expected; becomes a `RecordProblem`."""

    def __init__(self, found: str, expected: str) -> None:
        super().__init__(found, expected)
        self.found = found
        self.expected = expected


class RawRow(NamedTuple):
    """A row before its columns are mapped; `after` is the position of the next one."""

    row: int
    line: int | None
    fields: Mapping[str, object] | BadRow
    after: ReadPosition


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


def describe_type(value: object) -> str:
    """Name a value's type in words: `a string`, `a list`; a type that JSON lacks by its Python name."""
    return _KIND_BY_TYPE.get(type(value)) or f"a {type(value).__name__}"


def checked_text(value: object, name: str, expected: str) -> str:
    """Return the value if it is text that UTF-8 can hold.

    Raises:
        BadRow: it is not.
    """
    if not isinstance(value, str):
        raise BadRow(f"{name} is {describe_type(value)}", expected)
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise BadRow(f"{name} holds half of a surrogate pair", "text that UTF-8 can hold") from None
    return value


def shown(text: str) -> str:
    """Quote a name or id for an error: on one line, shortened."""
    return repr(text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…")


def context_fields(sample: Sample) -> list[str | dict[str, str]]:
    """Return the contexts of a sample as a request has them: texts, or objects with a text and its labels."""
    return [context_field(*each) for each in sample.labelled_contexts]


def context_field(text: str, labels: ContextLabels) -> str | dict[str, str]:
    """Return a context as a request has it."""
    title = labels.title if labels.lead else None
    named = {"id": labels.id, "title": title, "source": labels.source, "tool": labels.tool}
    given = {name: label for name, label in named.items() if label}
    return {"text": text[labels.lead :], **given} if given else text
