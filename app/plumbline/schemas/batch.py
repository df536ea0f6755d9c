"""Many samples on the wire: batches, and the rows of jobs and of `plumbline score`."""

from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import Field, create_model

from plumbline.schemas.conversation import ConversationTexts
from plumbline.schemas.evaluation import (
    MAX_ID_CHARACTERS,
    EvaluationOptions,
    EvaluationResult,
    RequestLimits,
    SampleTexts,
    bounded_texts,
)
from plumbline.schemas.problem import RowProblem
from plumbline.schemas.result_parts import UsageItem
from plumbline.schemas.wire import WireModel

Format = Literal["ndjson", "array"]


class _NamedRow(WireModel, strict=True):
    custom_id: str | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_ID_CHARACTERS,
        description="Your name for the sample, once in a batch; repeated with its result and as the result's `id`.",
    )


# The fields of the last base come first.
class BatchSample(SampleTexts, _NamedRow):
    """One sample of a batch. Only contexts and answer are needed."""


class BatchConversation(ConversationTexts, _NamedRow):
    """A conversation as a sample of a batch. Only messages are needed."""


class BatchRequest(WireModel, strict=True):
    """Samples to judge with one choice of options. A sample that does not validate does not affect the others."""

    samples: list[Any]
    options: EvaluationOptions = Field(
        default=EvaluationOptions(), description="As in a single evaluation, for each sample on its own."
    )
    format: Format | None = Field(
        default=None,
        description="`array`: one JSON object with the results in the order of the samples. `ndjson`: a line for each "
        "sample as soon as it is judged, the summary as last line. Default: what the `Accept` header prefers, and "
        "`array` where it takes both alike.",
    )


@lru_cache(maxsize=16)
def bounded_batch(sample: Any, max_samples: int) -> type[BatchRequest]:
    """Return the request model with the limits of one service; `sample`: the type of its samples."""
    description = "The samples; an invalid one gets an error of its own."
    bounded = Annotated[
        list[sample],
        Field(min_length=1, max_length=max_samples, description=description),
    ]
    return create_model("BatchRequest", __base__=BatchRequest, __doc__=BatchRequest.__doc__, samples=(bounded, ...))


@lru_cache(maxsize=16)
def bounded_sample(limits: RequestLimits) -> type[BatchSample]:
    fields = bounded_texts(limits)
    return create_model("BatchSample", __base__=BatchSample, __doc__=BatchSample.__doc__, **fields)


class BatchResult(WireModel):
    """A sample that was read; `result` is that of a single evaluation."""

    custom_id: str | None
    index: int = Field(ge=0, description="Position in `samples`, counted from 0.")
    result: EvaluationResult


class BatchError(WireModel):
    """A sample that has no result."""

    custom_id: str | None = Field(description="Null also where the name itself could not be taken.")
    index: int = Field(ge=0, description="Position in `samples`, counted from 0.")
    error: RowProblem


class TierCounts(WireModel):
    """Number of samples answered by each tier. Scores of different tiers are not comparable."""

    llm: int = 0
    detector: int = Field(default=0, exclude_if=lambda count: not count, description="Left out without any.")
    embedding: int = 0
    lexical: int = 0


class BatchSummary(WireModel, json_schema_serialization_defaults_required=True):
    """Counts over all samples: rows = judged + abstained + empty_answer + not_judged + errors."""

    rows: int
    judged: int
    abstained: int
    empty_answer: int
    not_judged: int
    errors: int = Field(description="Samples that have an `error` in place of a `result`.")
    passed: int = Field(default=0, description="Judged samples that passed.")
    unsure: int = Field(default=0, description="Judged samples of which `passed` is null.")
    tiers: TierCounts
    degraded: int = Field(description="Samples that a lower tier answered after one had failed.")
    usage: UsageItem = Field(description="Of all results together; `cost` is null when one of them is not known.")
    seconds: float = Field(ge=0)


class BatchResults(WireModel):
    """The whole answer as one object, results in the order of the samples."""

    results: list[BatchResult | BatchError]
    summary: BatchSummary


class RowResult(WireModel):
    """A row that was scored; `result` is that of a single evaluation, its `id` the row's `custom_id`."""

    custom_id: str
    row: int = Field(ge=0, description="Position among the rows of the file, counted from 0; blank lines are no rows.")
    result: EvaluationResult


class RowError(WireModel):
    """A row that has no result."""

    custom_id: str | None = Field(description="Null where the name itself could not be taken.")
    row: int = Field(ge=0, description="Position among the rows of the file, counted from 0; blank lines are no rows.")
    line: int | None = Field(
        description="Line of the file that it begins in, counted from 1; null where there are no lines."
    )
    error: RowProblem
