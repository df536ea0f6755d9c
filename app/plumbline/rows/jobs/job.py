"""Jobs, leases and states as plain values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from plumbline.judging.ports.exchange import Usage
from plumbline.rows.records.record import Record, RecordProblem

Action = Literal["pause", "resume", "cancel"]
RetryChoice = Literal["failed", "degraded"]

# A row that was in flight in this many crashed processes is quarantined. After the first crash it is scored alone, so
# that chance quarantines a row only when two kills in a row hit the moment in which it is in flight.
MAX_CRASHES: Final = 3


class JobState(StrEnum):
    """State of a job.

    queued -> running <-> paused -> completed | completed_with_errors; cancelled from any that has not ended; failed
    when its file cannot be read. `retry` returns completed jobs to queued.
    """

    QUEUED = "queued"
    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"
    COMPLETED_WITH_ERRORS = "completed_with_errors"
    CANCELLED = "cancelled"
    FAILED = "failed"

    @property
    def is_ended(self) -> bool:
        return self in _ENDED


_ENDED: Final = frozenset({JobState.COMPLETED, JobState.COMPLETED_WITH_ERRORS, JobState.CANCELLED, JobState.FAILED})
# Allowed source states of an action, and their targets.
TRANSITIONS: Final[Mapping[Action, Mapping[JobState, JobState]]] = MappingProxyType(
    {
        "pause": dict.fromkeys((JobState.QUEUED, JobState.RUNNING), JobState.PAUSED),
        "resume": {JobState.PAUSED: JobState.QUEUED},
        "cancel": {state: JobState.CANCELLED for state in JobState if state not in _ENDED},
    }
)
# States in which a repeated action has nothing to do.
ALREADY: Final[Mapping[Action, frozenset[JobState]]] = MappingProxyType(
    {
        "pause": frozenset({JobState.PAUSED}),
        "resume": frozenset({JobState.QUEUED, JobState.RUNNING}),
        "cancel": frozenset({JobState.CANCELLED}),
    }
)
RETRIABLE: Final = frozenset({JobState.COMPLETED, JobState.COMPLETED_WITH_ERRORS})


@dataclass(frozen=True, slots=True)
class JobCounts:
    """Counts over the results of a job by status, tier and decision; `usage` with that of replaced results."""

    by_status: Mapping[str, int] = field(default_factory=dict)
    by_tier: Mapping[str, int] = field(default_factory=dict)
    degraded: int = 0
    passed: int = 0
    not_passed: int = 0
    usage: Usage = field(default=Usage())

    @property
    def done(self) -> int:
        """Return the number of rows that have a result or an error."""
        return sum(self.by_status.values())


class NewJob(NamedTuple):
    """A submission without its rows. `options`: JSON that the row handler understands.

    `fingerprint`: digest of the whole request; a repeated `idempotency_key` must have the same one.
    `max_cost`: the job pauses once it has spent this much; None: unbounded. `versions`: JSON object of what decides on
    its scores, such as the judge's model, by name.
    """

    tenant: str
    options: bytes
    name: str | None = None
    max_cost: float | None = None
    idempotency_key: str | None = None
    fingerprint: str = ""
    versions: str | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """A job. Times are in seconds since 1970; `total` is None if no row could be read."""

    id: str
    tenant: str
    name: str | None
    options: bytes
    max_cost: float | None
    state: JobState
    total: int | None
    created: float
    started: float | None
    ended: float | None
    problem: str | None
    counts: JobCounts
    versions: str | None = None


class ResultLine(NamedTuple):
    row: int
    line: bytes


class RowFilter(NamedTuple):
    """Rows wanted, by their status, tier and decision, of which there is none where the tier is unsure; None: any."""

    status: str | None = None
    tier: str | None = None
    passed: bool | Literal["unsure"] | None = None


class Lease(NamedTuple):
    """Right of one owner to work on a chunk of rows until the lease expires.

    The store rejects writes with a lower `fence` than the last; `owner_crashes` are those of owners before.
    """

    job_id: str
    tenant: str
    options: bytes
    chunk: int
    fence: int
    owner_crashes: int


class PendingRow(NamedTuple):
    """A row to score. `crash_count`: number of processes that ended while it was in flight."""

    row: Record | RecordProblem
    crash_count: int


class LeaseStatus(StrEnum):
    VALID = "valid"
    # The job is paused: finish rows in flight, then release.
    PAUSED = "paused"
    # The job has ended or another owner has the chunk: discard everything.
    LOST = "lost"


class JobStats(NamedTuple):
    """Number of `jobs` by state (every state is a key), of chunks that wait, and of chunks that are leased."""

    jobs: Mapping[JobState, int]
    chunks_waiting: int
    chunks_leased: int


NO_JOBS: Final = JobStats(dict.fromkeys(JobState, 0), 0, 0)
