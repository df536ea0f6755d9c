"""A row of many on the wire, wherever it is written: results of jobs, of `plumbline score`, of a data cluster."""

from pydantic import BaseModel, ConfigDict, Field

from plumbline.schemas.evaluation import EvaluationResult
from plumbline.schemas.problem import RowProblem


class _Wire(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RowResult(_Wire):
    """A row that was scored; `result` is that of a single evaluation, its `id` the row's `custom_id`."""

    custom_id: str
    row: int = Field(ge=0, description="Position among the rows of the file, counted from 0; blank lines are no rows.")
    result: EvaluationResult


class RowError(_Wire):
    """A row that has no result."""

    custom_id: str | None = Field(description="Null where the name itself could not be taken.")
    row: int = Field(ge=0, description="Position among the rows of the file, counted from 0; blank lines are no rows.")
    line: int | None = Field(
        description="Line of the file that it begins in, counted from 1; null where there are no lines."
    )
    error: RowProblem


RowLine = RowResult | RowError
