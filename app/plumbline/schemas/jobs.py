"""Jobs on the wire: many rows kept on disk and scored in the background."""

from datetime import datetime
from typing import Any, Final, Literal
from urllib.parse import quote

from pydantic import Field

from plumbline.schemas.batch import TierCounts
from plumbline.schemas.evaluation import EvaluationOptions
from plumbline.schemas.result_parts import UsageItem
from plumbline.schemas.wire import WireModel

JobStatus = Literal["queued", "running", "paused", "completed", "completed_with_errors", "cancelled", "failed"]
ResultsFormat = Literal["ndjson", "csv"]
JOBS_PATH: Final = "/v1/jobs"


class JobChoices(WireModel, strict=True):
    """Options of the whole job; for an upload, the JSON in the part or query parameter `choices`."""

    name: str | None = Field(default=None, min_length=1, max_length=200)
    options: EvaluationOptions = Field(
        default=EvaluationOptions(), description="As in a single evaluation, for each row on its own."
    )
    max_cost: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="Maximum cost of the job, in the currency of the service's price table; then the job pauses.",
    )
    columns: str | None = Field(
        default=None,
        description="Name of a known form of rows: `plumbline`, `ragas`, `ragas_old`, `openai_batch`, `seed_3`, "
        "`lettucedetect`, `deepeval`, `langchain`, `langchain_chain`, `llamaindex`, "
        "`dify`, `ragflow`, `fastgpt`, `mlflow`, `databricks`, `bedrock`, `promptfoo`, `halubench`, `halueval`, "
        "`phoenix`, `langfuse`, `openai_evals`, `chat`, `huggingface`. Default: found from the names of the columns.",
    )


class JobRequest(JobChoices):
    """Rows and choices in one JSON body; larger files are sent as they are."""

    rows: list[Any] = Field(min_length=1, description="Samples; one that cannot be read gets an error of its own.")


class RequestCounts(WireModel):
    """Progress of a job: `completed` rows have a result, `failed` rows an error; the rest are waiting."""

    total: int | None = Field(description="Null if no row could be read.")
    completed: int
    failed: int


class JobOutcomes(WireModel):
    """Outcomes of the finished rows."""

    judged: int
    abstained: int
    empty_answer: int
    not_judged: int
    invalid: int = Field(description="Rows that could not be read or are beyond a limit; a retry does not help.")
    failed: int = Field(description="Rows that failed because of an internal error.")
    degraded: int = Field(description="Rows that a lower tier answered after one had failed.")
    passed: int = Field(default=0, description="Rows whose answer passed.")
    not_passed: int = Field(
        default=0,
        description="Rows whose answer did not pass. Judged rows of which `passed` is null, unsure, count as neither.",
    )
    tiers: TierCounts


class JobLinks(WireModel):
    """Paths of what belongs to the job."""

    self: str
    results: str
    report: str


class JobInfo(WireModel):
    """One job. Times are UTC."""

    id: str
    name: str | None
    status: JobStatus
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    request_counts: RequestCounts
    outcomes: JobOutcomes
    usage: UsageItem = Field(description="Of all rows, retries included; it never decreases.")
    max_cost: float | None
    rows_per_second: float | None = Field(description="Since the start of the job; null before.")
    eta_seconds: float | None = Field(description="Estimated from that rate; null if unknown.")
    problem: str | None = Field(description="Reason why the job failed or the service paused it.")
    options: EvaluationOptions
    links: JobLinks


class JobList(WireModel):
    """The caller's jobs, newest first; `next` is the path of the next page, null on the last."""

    jobs: list[JobInfo]
    next: str | None


def job_path(job_id: str) -> str:
    return f"{JOBS_PATH}/{quote(job_id, safe='')}"


class RetryRequest(WireModel, strict=True):
    """The rows to score again."""

    select: Literal["failed", "degraded"] = Field(
        description="`failed`: internal errors, and rows that no tier could judge. `degraded`: rows that a lower tier "
        "answered, in an outage for example. A row keeps its result until it has another."
    )
