"""Rows that have no result: what is written and counted of them. Light: nothing that scores is needed for it."""

from plumbline.judging.ports.exchange import Usage
from plumbline.rows.records.record import Record, RecordProblem
from plumbline.rows.scored_row import RowStatus, ScoredRow
from plumbline.schemas.json_line import json_line
from plumbline.schemas.problem import ProblemKind, RowProblem
from plumbline.schemas.rows import RowError

UNREADABLE = ProblemKind(422, "invalid-row", "The row cannot be read")

_NOTHING_USED = Usage()


def row_without_result(row: int, line: bytes, status: RowStatus) -> ScoredRow:
    """What is counted of a row that has an error."""
    return ScoredRow(row, line, status, None, is_degraded=False, usage=_NOTHING_USED)


def error_row(row: Record | RecordProblem, status: RowStatus, problem: RowProblem) -> ScoredRow:
    """A row that has no result."""
    line = row.line if isinstance(row, RecordProblem) else None
    error = RowError(custom_id=row.custom_id, row=row.row, line=line, error=problem)
    return row_without_result(row.row, json_line(error), status)


def unreadable_row(row: RecordProblem) -> ScoredRow:
    """A row of a file that is no record."""
    detail = f"{row.found}; expected {row.expected}"
    problem = RowProblem(type=UNREADABLE.urn, title=UNREADABLE.title, status=UNREADABLE.status, detail=detail)
    return error_row(row, RowStatus.INVALID, problem)
