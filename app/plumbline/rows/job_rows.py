"""The rows of a job, scored like all others: what `jobs` asks for, made of what `rows` has."""

from collections.abc import Callable, Collection
from functools import lru_cache
from typing import Final

from plumbline.ground.settings import Settings
from plumbline.judging.scoring import Scorer
from plumbline.rows.records.record import Record, RecordProblem
from plumbline.rows.row_scorer import RowChoices, RowScorer, crashed_row
from plumbline.rows.scored_row import ScoredRow
from plumbline.schemas.evaluation import EvaluationOptions

# Models with the limits of the service are made anew for each; a job's chunks share theirs.
_KEPT: Final = 64


class JobRows(RowScorer):
    """Scores the rows of jobs that have these choices."""

    def crashed(self, row: Record | RecordProblem, crash_count: int) -> ScoredRow:
        """The error of a row that so many processes did not outlive."""
        return crashed_row(row, crash_count)


def job_rows(scorer: Scorer, settings: Settings, *, judge_names: Collection[str]) -> Callable[[str, bytes], JobRows]:
    """For a tenant and a job's options (JSON of `EvaluationOptions`): who scores its rows.

    What it returns raises:
        InvalidInput: the options name a judge that there is not any more.
    """

    patient = settings.model_copy(update={"deadline_seconds": settings.row_deadline_seconds})

    @lru_cache(maxsize=_KEPT)
    def rows_of(tenant: str, options: bytes) -> JobRows:
        choices = RowChoices(EvaluationOptions.model_validate_json(options), tenant)
        return JobRows(scorer, patient, choices, judge_names=judge_names)

    return rows_of
