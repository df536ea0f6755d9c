"""What keeps jobs: one durable store is the truth, whatever hands out the work."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from plumbline.rows.jobs.job import Action, Held, Job, Lease, NewJob, PendingRow, ResultLine, Select, StateChange
from plumbline.rows.scored_row import ScoredRow


class Upload(NamedTuple):
    """The rows as they were sent, in a file that the store takes over; `form` and `columns` as of `read_records`."""

    path: Path
    form: str
    columns: str | None = None


class Submission(NamedTuple):
    """A job that was taken, now or before under the same idempotency key."""

    job: Job
    is_new: bool


class JobStore(Protocol):
    """Jobs, their rows, results and leases. Every method may raise StoreUnavailable, and then has changed nothing.

    A job of another tenant is as one that does not exist.
    """

    # --- for those who ask

    def new_upload(self) -> Path:
        """Where an upload may be written, on the file system that keeps it."""

    async def submit(self, new: NewJob, upload: Upload) -> Submission:
        """Keep a job; when this returns it is on disk.

        Raises:
            IdempotencyConflict: the key was used for something else.
        """

    async def get(self, tenant: str, job_id: str) -> Job:
        """One job. Raises JobUnknown."""

    async def jobs(self, tenant: str, *, before: str | None, limit: int) -> list[Job]:
        """The newest jobs first, those that are older than job `before`; unknown `before` raises JobUnknown."""

    async def act(self, tenant: str, job_id: str, action: Action) -> Job:
        """Change the state; a state that the action leads to stays. Raises JobUnknown, JobStateConflict."""

    async def retry(self, tenant: str, job_id: str, select: Select) -> Job:
        """Have the rows scored again that failed (errors of ours, not judged) or were degraded; others stay.

        A row keeps its result until it has another. Raises JobUnknown, JobStateConflict.
        """

    async def delete(self, tenant: str, job_id: str) -> None:
        """Forget the job, its rows and results, whatever its state. Raises JobUnknown."""

    async def results(self, tenant: str, job_id: str, *, after: int, limit: int) -> list[ResultLine]:
        """Lines of rows behind row `after` (-1: from the first), in input order, up to the first row not done yet."""

    async def changes(self, tenant: str, job_id: str, *, after: int) -> list[StateChange]:
        """Changes of state behind the one with this `seq`."""

    # --- for those who work

    def owner(self) -> str:
        """The name under which this process leases chunks; its leases end with the process at the latest."""

    async def lease(self, owner: str) -> Lease | None:
        """A chunk to work on: of the oldest job that has one free. A job that is begun is `running` from then on."""

    async def validate(self, lease: Lease) -> Held:
        """Read the upload and cut it into chunks, for a lease of chunk -1; queues the job, or fails it."""

    async def rows(self, lease: Lease) -> Sequence[PendingRow]:
        """The rows of the chunk that have no result, or are to be scored again, in order."""

    async def begin(self, lease: Lease, rows: Sequence[int]) -> Held:
        """Write down that these rows are about to be scored.

        Each gets a strike when their process ends before they are committed.
        """

    async def renew(self, lease: Lease) -> Held:
        """Prolong the lease."""

    async def commit(self, lease: Lease, rows: Sequence[ScoredRow], *, is_done: bool) -> Held:
        """Keep results, all or none; a row that has one already keeps it. `is_done`: the chunk has no other rows.

        The last chunk of a job completes it.
        """

    async def fail(self, lease: Lease, problem: str) -> Held:
        """End the job, which cannot be done at all; `problem`: one line that says why."""

    async def pause(self, lease: Lease, problem: str) -> Held:
        """Pause the job, whose rows may not be scored now; `problem`: one line that says why. Once, not a chunk."""

    async def release(self, lease: Lease) -> None:
        """Give the chunk back, unfinished, without blame."""

    async def tidy(self) -> bool:
        """Remove some of what forgotten jobs have left; whether there is more."""

    async def close(self) -> None:
        """Close files and connections; leases that are held are given back."""
