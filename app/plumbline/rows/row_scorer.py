"""Scores one row of many: validated by itself, judged on THE path, written as a line; what goes wrong is its own."""

from collections.abc import Collection
from typing import Any, NamedTuple

from pydantic import ValidationError

from plumbline.ground.settings import Settings
from plumbline.ground.telemetry import log_failure
from plumbline.judging.ports.exchange import Usage
from plumbline.judging.scoring import Scorer
from plumbline.rows.evaluation_wire import request_limits, to_options, to_sample, to_wire
from plumbline.rows.records.record import Record, RecordProblem
from plumbline.rows.row_errors import error_row, row_without_result, unreadable_row
from plumbline.rows.scored_row import RowStatus, ScoredRow
from plumbline.schemas.batch import BatchSample, bounded_sample
from plumbline.schemas.evaluation import EvaluationOptions, EvaluationRequest, EvaluationResult
from plumbline.schemas.json_line import json_line
from plumbline.schemas.problem import FAILURE_DETAIL, INTERNAL, VALIDATION, FieldProblem, ProblemKind, RowProblem
from plumbline.schemas.rows import RowResult

__all__ = ["RowChoices", "RowScorer", "crashed_row", "error_row", "row_with_result", "row_without_result"]

WORKER_CRASHED = ProblemKind(500, "worker-crashed", "The row ended the process that scored it")

_MAX_FIELD_PROBLEMS = 20


class RowChoices(NamedTuple):
    """What holds for every row: the caller's options, and whose rows they are."""

    options: EvaluationOptions
    tenant: str = ""


class RowScorer:
    """Scores rows with one choice of options, within the limits of one service. Never raises for what a row holds.

    Args:
        judge_names: those that options may name.

    Raises:
        InvalidInput: the options name a judge that there is not.
    """

    def __init__(
        self, scorer: Scorer, settings: Settings, choices: RowChoices, *, judge_names: Collection[str] = ()
    ) -> None:
        self._scorer = scorer
        self._choices = choices.options
        self._sample = bounded_sample(request_limits(settings))
        self._options = to_options(
            choices.options,
            threshold=settings.threshold,
            deadline_seconds=settings.deadline_seconds,
            judge_names=judge_names,
            tenant=choices.tenant,
            max_cost=settings.llm_max_cost,
            place="/options",
            can_wait=True,
        )

    async def score(self, row: Record | RecordProblem) -> ScoredRow:
        """The row's result, or its error: what was wrong with it, or that something failed on our side."""
        if isinstance(row, RecordProblem):
            return unreadable_row(row)
        try:
            request = self._request(row)
        except ValidationError as error:
            return error_row(row, RowStatus.INVALID, _invalid(error))
        try:
            result = await self._scorer.score(to_sample(request), self._options)
            wire = to_wire(request, result)
            line = json_line(RowResult(custom_id=row.custom_id, row=row.row, result=wire))
        except Exception as error:
            log_failure(error, "row_failed", row=row.row)
            return error_row(row, RowStatus.FAILED, _problem(INTERNAL, FAILURE_DETAIL))
        return row_with_result(row.row, line, wire, result.usage)

    def _request(self, row: Record) -> EvaluationRequest:
        fields: dict[str, Any] = {
            "question": row.sample.question,
            "contexts": list(row.sample.contexts),
            "answer": row.sample.answer,
            "reference": row.sample.reference,
        }
        sample: BatchSample = self._sample.model_validate({"custom_id": row.custom_id, **fields})
        # Both parts have been validated.
        return EvaluationRequest.model_construct(id=sample.custom_id, **fields, **dict(self._choices))


def row_with_result(row: int, line: bytes, result: EvaluationResult, usage: Usage) -> ScoredRow:
    """What is counted of a row that has a result."""
    return ScoredRow(row, line, RowStatus(result.status), result.tier, "degraded" in result.flags, usage)


def crashed_row(row: Record | RecordProblem, crash_count: int) -> ScoredRow:
    """A row that is not tried again: each time a process scored it, that process ended."""
    detail = f"{crash_count} processes ended while they scored this row; it is not tried again"
    return error_row(row, RowStatus.FAILED, _problem(WORKER_CRASHED, detail))


def _invalid(error: ValidationError) -> RowProblem:
    found = error.errors(include_url=False, include_input=False)
    problems = [FieldProblem(pointer=_pointer(each["loc"]), detail=each["msg"]) for each in found[:_MAX_FIELD_PROBLEMS]]
    detail = f"{len(found)} problem{'' if len(found) == 1 else 's'} in the row"
    return _problem(VALIDATION, detail).model_copy(update={"errors": problems})


def _pointer(location: tuple[int | str, ...]) -> str:
    # Fields of ours and indices: nothing in them needs an escape.
    return "".join(f"/{part}" for part in location)


def _problem(kind: ProblemKind, detail: str) -> RowProblem:
    return RowProblem(type=kind.urn, title=kind.title, status=kind.status, detail=detail)
