"""What a row of a data file becomes: a record, or the problem that kept it from being one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from plumbline.judging.text.sample import Sample


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
    """Why a row is no record; `str` gives one line, with no passage of the caller's in it.

    `line` counts from 1 and is where the row begins; None for Parquet, which has no lines. `custom_id` is None where
    it could not be read or is itself the problem.
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
    """Where reading goes on: plain numbers, to be kept in a file.

    `row` is the next row. `offset` is in bytes of the uncompressed text, `line` the lines before it; both are 0 for
    Parquet, which finds a row by its row groups.
    """

    row: int = 0
    line: int = 0
    offset: int = 0


class BadRow(Exception):
    """A row that cannot be read: what was found, what was expected; becomes a `RecordProblem`."""

    def __init__(self, found: str, expected: str) -> None:
        super().__init__(found, expected)
        self.found = found
        self.expected = expected


class RawRow(NamedTuple):
    """A row before its columns are looked up. `after` is where the next one begins."""

    row: int
    line: int | None
    fields: Mapping[str, object] | BadRow
    after: ReadPosition
