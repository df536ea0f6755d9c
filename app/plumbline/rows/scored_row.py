"""What became of one row of many: the line that is kept of it, and what is counted of it."""

from enum import StrEnum
from typing import NamedTuple

from plumbline.judging.ports.exchange import Usage


class RowStatus(StrEnum):
    """How a row ended. The first four have a `result`, the last two an `error`."""

    JUDGED = "judged"
    ABSTAINED = "abstained"
    EMPTY_ANSWER = "empty_answer"
    NOT_JUDGED = "not_judged"
    # the caller's: it could not be read or is beyond a limit
    INVALID = "invalid"
    # ours: a bug, or a worker that it took down
    FAILED = "failed"


class ScoredRow(NamedTuple):
    """One row, done.

    `line` is the row as `schemas.rows` has it: JSON in UTF-8, in one line by whatever ends of lines a reader knows,
    the end itself not included. `tier` is the one that answered, `is_degraded` says that another failed before it.
    """

    row: int
    line: bytes
    status: RowStatus
    tier: str | None
    is_degraded: bool
    usage: Usage
