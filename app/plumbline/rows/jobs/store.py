"""Interface of the stores of jobs: the durable store is the source of truth, whatever delivers the work."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol, runtime_checkable

from plumbline.rows.jobs.job import (
    Action,
    Held,
    Job,
    JobState,
    Lease,
    NewJob,
    PendingRow,
    ResultLine,
    Select,
    StateChange,
)
from plumbline.rows.scored_row import ScoredRow


class Upload(NamedTuple):
    """Uploaded rows in a file that the store takes over; `form` and `columns` as of `RecordReader`."""

    path: Path
    form: str
    columns: str | None = None


class Submission(NamedTuple):
    """An accepted job; `is_new` is False if it was submitted before under the same idempotency key."""

    job: Job
    is_new: bool


class JobStats(NamedTuple):
    """Number of `jobs` by state (every state is a key), of chunks that wait, and of chunks that are leased."""

    jobs: Mapping[JobState, int]
    chunks_waiting: int
    chunks_leased: int


NO_JOBS: Final = JobStats(dict.fromkeys(JobState, 0), 0, 0)


@runtime_checkable
class CountsJobs(Protocol):
    """A store that counts its jobs, of all tenants together."""

    async def job_stats(self) -> JobStats:
        """Return the counts now. Raises StoreUnavailable."""


class JobStore(Protocol):
    """Jobs, their rows, results and leases. Every method may raise StoreUnavailable, and then has changed nothing.

    A job of another tenant is treated as one that does not exist.
    """

    # --- for callers of the API

    def new_upload(self) -> Path:
        """Return a path for an upload; one that no job takes is removed once this process has ended."""

    async def submit(self, new: NewJob, upload: Upload) -> Submission:
        """Store a job durably. Raises IdempotencyConflict: the key was used for another request."""

    async def get(self, tenant: str, job_id: str) -> Job:
        """Return one job. Raises JobUnknown."""

    async def jobs(self, tenant: str, *, before: str | None, limit: int) -> list[Job]:
        """Return the jobs older than job `before`, newest first. Raises JobUnknown for an unknown `before`."""

    async def act(self, tenant: str, job_id: str, action: Action) -> Job:
        """Change the state; idempotent. Raises JobUnknown, JobStateConflict."""

    async def retry(self, tenant: str, job_id: str, select: Select) -> Job:
        """Queue the rows again that failed (internal errors, not judged) or were degraded.

        A row keeps its result until it has a new one. Raises JobUnknown, JobStateConflict.
        """

    async def delete(self, tenant: str, job_id: str) -> None:
        """Delete the job, its rows and results, in any state. Raises JobUnknown."""

    async def results(self, tenant: str, job_id: str, *, after: int, limit: int) -> list[ResultLine]:
        """Return lines of the rows behind row `after` (-1: from the first), in order, up to the first pending row."""

    async def changes(self, tenant: str, job_id: str, *, after: int) -> list[StateChange]:
        """Return the changes of state behind the one with this `seq`."""

    # --- for workers

    def owner(self) -> str:
        """Return the name under which this process leases chunks; its leases end with the process at the latest."""

    async def lease(self, owner: str) -> Lease | None:
        """Lease a free chunk of the oldest job that has one, and set the job `running`; None if there is none."""

    async def validate(self, lease: Lease) -> Held:
        """Read the upload and split it into chunks, for a lease of chunk -1; queue the job, or fail it."""

    async def rows(self, lease: Lease) -> Sequence[PendingRow]:
        """Return the rows of the chunk that are to be scored, in order. Raises InvalidInput: they are lost."""

    async def begin(self, lease: Lease, rows: Sequence[int]) -> Held:
        """Record that these rows are in flight; if the process ends before they are committed, each has one crash."""

    async def renew(self, lease: Lease) -> Held:
        """Extend the lease."""

    async def commit(self, lease: Lease, rows: Sequence[ScoredRow], *, is_done: bool) -> Held:
        """Store results atomically; a row that has one already keeps it. `is_done`: the chunk has no other rows.

        The last chunk of a job completes it.
        """

    async def fail(self, lease: Lease, problem: str) -> Held:
        """Fail the whole job; `problem`: one line with the reason."""

    async def pause(self, lease: Lease, problem: str) -> Held:
        """Pause the job; `problem`: one line with the reason. Idempotent for the chunks of a job."""

    async def release(self, lease: Lease) -> None:
        """Return the chunk unfinished, without counting a crash."""

    async def tidy(self) -> bool:
        """Delete some of the rows of deleted jobs; return True if there are more."""

    async def close(self) -> None:
        """Close files and connections."""
