"""Scorer of the rows of a batch, a job and `plumbline score`: a record in, a line out."""

from collections.abc import Callable, Collection
from typing import Final

from pydantic import ValidationError

from plumbline.ground.settings import Settings
from plumbline.ground.telemetry import log_failure
from plumbline.ground.texts import CodedText, Language, coded_members
from plumbline.judging.scoring import Scorer
from plumbline.judging.text.offload import is_small
from plumbline.judging.text.sample import Sample
from plumbline.rows.evaluation_wire import build_options, request_limits, to_wire
from plumbline.rows.records.record import Record, RecordProblem
from plumbline.rows.scored_row import (
    ROW_LINES,
    RowLines,
    RowStatus,
    ScoredRow,
    error_row,
    failed_row,
    row_problem,
    unreadable_row,
)
from plumbline.schemas.batch import bounded_sample
from plumbline.schemas.evaluation import CONTEXT_TAGS, EvaluationOptions
from plumbline.schemas.language import render_problem
from plumbline.schemas.problem import (
    FAILURE_DETAIL,
    INTERNAL,
    MOST_FIELD_PROBLEMS,
    VALIDATION,
    FieldProblem,
    ProblemKind,
    RowProblem,
    count_problems,
    describe_invalid,
)

WORKER_CRASHED: Final = ProblemKind(500, "worker-crashed")


class RowScorer:
    """Scores rows with one set of options; never raises for a bad row, but InvalidInput for an unknown judge."""

    def __init__(
        self,
        scorer: Scorer,
        settings: Settings,
        options: EvaluationOptions,
        *,
        judge_names: Collection[str] = (),
        tenant: str = "",
        lines: RowLines = ROW_LINES,
        language: Language | None = None,
    ) -> None:
        self._scorer = scorer
        self._lines = lines
        self._language = language
        self._offset_unit = options.offset_unit
        self._sample = bounded_sample(request_limits(settings))
        self._options = build_options(
            options, settings, judge_names=judge_names, tenant=tenant, place="/options", can_wait=True
        )

    async def score(self, row: Record | RecordProblem) -> ScoredRow:
        """Return the row's result, or its error: invalid input, or a failure of ours."""
        if isinstance(row, RecordProblem):
            return unreadable_row(row)
        try:
            self._sample.model_validate(
                {
                    "custom_id": row.custom_id,
                    "question": row.sample.question,
                    "contexts": list(row.sample.contexts),
                    "answer": row.sample.answer,
                    "reference": row.sample.reference,
                }
            )
        except ValidationError as error:
            return error_row(row, RowStatus.INVALID, _invalid(error))
        return await self.score_valid(row.row, row.custom_id, row.sample)

    async def score_valid(self, row: int, custom_id: str | None, sample: Sample) -> ScoredRow:
        """Return the result of a sample that is within the limits, or the error of a failure of ours."""
        try:
            result = await self._scorer.score(sample, self._options)

            def write() -> ScoredRow:
                wire = to_wire(
                    result, sample, sample_id=custom_id, offset_unit=self._offset_unit, language=self._language
                )
                line = self._lines.result(custom_id, row, wire)
                is_degraded = "degraded" in wire.flags
                return ScoredRow(
                    row, line, RowStatus(wire.status), wire.tier, is_degraded, result.usage, passed=wire.passed
                )

            # the line of a long answer can have a megabyte
            return await self._scorer.offload(write, inline=is_small(sample))
        except Exception as error:
            log_failure(error, "row_failed", row=row)
            return self.refuse(row, custom_id, row_problem(INTERNAL, FAILURE_DETAIL))

    def refuse(self, row: int, custom_id: str | None, problem: RowProblem) -> ScoredRow:
        status = RowStatus.FAILED if problem.status >= INTERNAL.status else RowStatus.INVALID
        if self._language is not None:
            render_problem(document := problem.model_dump(), self._language)
            problem = RowProblem.model_validate(document)
        return failed_row(row, self._lines.error(custom_id, row, None, problem), status)

    def report_crash(self, row: Record | RecordProblem, crash_count: int) -> ScoredRow:
        """Return the error of a row that is not retried: that many processes ended while they scored it."""
        detail = CodedText("row_ends_processes", count=crash_count)
        return error_row(row, RowStatus.FAILED, row_problem(WORKER_CRASHED, detail))


def job_row_scorers(
    scorer: Scorer, settings: Settings, *, judge_names: Collection[str]
) -> Callable[[str, bytes], RowScorer]:
    """Return a function that builds the scorer of a job's rows from tenant and options; raises as `RowScorer`."""
    patient = settings.model_copy(update={"deadline_seconds": settings.row_deadline_seconds})

    def build(tenant: str, options: bytes) -> RowScorer:
        parsed = EvaluationOptions.model_validate_json(options)
        return RowScorer(scorer, patient, parsed, judge_names=judge_names, tenant=tenant)

    return build


def _invalid(error: ValidationError) -> RowProblem:
    found = error.errors(include_url=False, include_input=False)
    problems = [
        # Our field names and indices need no escaping.
        FieldProblem(
            pointer="".join(f"/{part}" for part in each["loc"] if part not in CONTEXT_TAGS),
            **coded_members("detail", describe_invalid(each)),
        )
        for each in found[:MOST_FIELD_PROBLEMS]
    ]
    return row_problem(VALIDATION, count_problems(len(found), CodedText("whole_row")), errors=problems)
