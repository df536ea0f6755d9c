"""The outcome of one row: its line of JSON or its error, and counts over many."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import fields
from enum import StrEnum
from typing import NamedTuple, cast

from plumbline.ground.texts import coded_members
from plumbline.judging.ports.exchange import Usage
from plumbline.rows.records.record import Record, RecordProblem
from plumbline.schemas.batch import BatchSummary, RowError, RowResult, TierCounts
from plumbline.schemas.evaluation import EvaluationResult
from plumbline.schemas.problem import FieldProblem, ProblemKind, RowProblem
from plumbline.schemas.result_parts import UsageItem
from plumbline.schemas.wire import json_line

_USAGE_FIELDS = tuple(each.name for each in fields(Usage))
_UNREADABLE = ProblemKind(422, "invalid-row")


class RowStatus(StrEnum):
    """Final status of a row. The first four have a `result`, the last two an `error`."""

    JUDGED = "judged"
    ABSTAINED = "abstained"
    EMPTY_ANSWER = "empty_answer"
    NOT_JUDGED = "not_judged"
    # the caller's error: it could not be read or is beyond a limit
    INVALID = "invalid"
    # an internal error: a bug, or a crashed worker
    FAILED = "failed"


class ScoredRow(NamedTuple):
    """A finished row.

    `line` is the row of `schemas.batch` as `json_line` encodes it. `tier` is the one that answered; `is_degraded`:
    another failed before it. `passed`: None without a score, and where the tier is unsure.
    """

    row: int
    line: bytes
    status: RowStatus
    tier: str | None
    is_degraded: bool
    usage: Usage
    passed: bool | None = None


class RowLines(NamedTuple):
    """Writers of the line of a row: from custom_id, row number, line number (errors only) and result or problem."""

    result: Callable[[str | None, int, EvaluationResult], bytes]
    error: Callable[[str | None, int, int | None, RowProblem], bytes]


ROW_LINES = RowLines(
    # A record always has an id.
    result=lambda custom_id, row, result: json_line(RowResult(custom_id=cast(str, custom_id), row=row, result=result)),
    error=lambda custom_id, row, line, problem: json_line(
        RowError(custom_id=custom_id, row=row, line=line, error=problem)
    ),
)


def usage_item(usage: Usage) -> UsageItem:
    return UsageItem(**{name: getattr(usage, name) for name in _USAGE_FIELDS})


def failed_row(row: int, line: bytes, status: RowStatus) -> ScoredRow:
    """Return the outcome of a row whose `line` holds an error."""
    return ScoredRow(row, line, status, None, is_degraded=False, usage=Usage())


def error_row(row: Record | RecordProblem, status: RowStatus, problem: RowProblem) -> ScoredRow:
    """Return the outcome of a row of a file that has no result."""
    line = row.line if isinstance(row, RecordProblem) else None
    return failed_row(row.row, ROW_LINES.error(row.custom_id, row.row, line, problem), status)


def unreadable_row(row: RecordProblem) -> ScoredRow:
    return error_row(row, RowStatus.INVALID, row_problem(_UNREADABLE, row.fault))


def row_problem(kind: ProblemKind, detail: str, *, errors: Sequence[FieldProblem] = ()) -> RowProblem:
    said = coded_members("detail", detail)
    return RowProblem(type=kind.urn, title=kind.title, status=kind.status, errors=list(errors), **said)


class RowTally:
    """Counts of outcomes; its clock starts when it is made."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._statuses: Counter[RowStatus] = Counter()
        self._tiers: Counter[str] = Counter()
        self._degraded = self._passed = self._unsure = 0
        self._usage = Usage()

    def add(self, row: ScoredRow) -> None:
        self._statuses[row.status] += 1
        if row.tier is not None:
            self._tiers[row.tier] += 1
        self._degraded += row.is_degraded
        self._passed += row.passed is True
        self._unsure += row.passed is None and row.status is RowStatus.JUDGED
        self._usage = self._usage + row.usage

    def summary(self) -> BatchSummary:
        return BatchSummary(
            rows=self._statuses.total(),
            judged=self._statuses[RowStatus.JUDGED],
            abstained=self._statuses[RowStatus.ABSTAINED],
            empty_answer=self._statuses[RowStatus.EMPTY_ANSWER],
            not_judged=self._statuses[RowStatus.NOT_JUDGED],
            errors=self._statuses[RowStatus.INVALID] + self._statuses[RowStatus.FAILED],
            passed=self._passed,
            unsure=self._unsure,
            tiers=TierCounts(**self._tiers),
            degraded=self._degraded,
            usage=usage_item(self._usage),
            seconds=round(time.monotonic() - self._started, 3),
        )
