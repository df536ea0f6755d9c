"""A job as its store knows it: what was asked for, where it stands, what it has counted and spent."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from plumbline.judging.ports.exchange import Usage
from plumbline.rows.records.record import Record, RecordProblem

Action = Literal["pause", "resume", "cancel"]
Select = Literal["failed", "degraded"]


# A row that was under way in so many processes that ended is not tried again. After the first it is tried alone, so
# that a row is put aside by chance only when two kills in a row fall into the moment when it is.
MAX_STRIKES: Final = 3
# The number of the chunk that stands for reading the upload.
VALIDATION: Final = -1


class JobState(StrEnum):
    """Where a job stands.

    validating -> queued -> running <-> paused -> completed | completed_with_errors; cancelled from any that has not
    ended; failed when its file cannot be read. `retry` takes the first two of the ended ones back to queued.
    """

    VALIDATING = "validating"
    QUEUED = "queued"
    RUNNING = "running"
    PAUSED = "paused"
    COMPLETED = "completed"
    COMPLETED_WITH_ERRORS = "completed_with_errors"
    CANCELLED = "cancelled"
    FAILED = "failed"

    @property
    def is_ended(self) -> bool:
        """Whether nothing happens any more unless somebody asks for it."""
        return self in _ENDED


_ENDED: Final = frozenset({JobState.COMPLETED, JobState.COMPLETED_WITH_ERRORS, JobState.CANCELLED, JobState.FAILED})
# From which states an action is allowed, and which it leads to.
TRANSITIONS: Final[Mapping[Action, Mapping[JobState, JobState]]] = MappingProxyType(
    {
        "pause": dict.fromkeys((JobState.QUEUED, JobState.RUNNING), JobState.PAUSED),
        "resume": {JobState.PAUSED: JobState.QUEUED},
        "cancel": {state: JobState.CANCELLED for state in JobState if state not in _ENDED},
    }
)
# Where an action that is repeated finds its work done.
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
    """Counted from the results, never kept beside them. `by_status`: by `RowStatus`; `by_tier`: by the answering tier.

    `usage` has what replaced results cost too: it never goes down.
    """

    by_status: Mapping[str, int] = field(default_factory=dict)
    by_tier: Mapping[str, int] = field(default_factory=dict)
    degraded: int = 0
    usage: Usage = field(default=Usage())

    @property
    def done(self) -> int:
        """Rows that have a result or an error."""
        return sum(self.by_status.values())


class NewJob(NamedTuple):
    """What a caller submits besides the rows. `options`: JSON that the handler of rows understands.

    `fingerprint`: digest of everything submitted, by which a repeated `idempotency_key` is known to mean the same.
    `max_cost`: the job pauses once it has spent so much; None: no bound.
    """

    tenant: str
    options: bytes
    name: str | None = None
    max_cost: float | None = None
    idempotency_key: str | None = None
    fingerprint: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """One job. Times are seconds since 1970. `total` is None until the file is read; `problem`: why failed or paused.

    `seq` rises with every change of state.
    """

    id: str
    tenant: str
    name: str | None
    options: bytes
    max_cost: float | None
    state: JobState
    seq: int
    total: int | None
    created: float
    started: float | None
    ended: float | None
    problem: str | None
    counts: JobCounts


class StateChange(NamedTuple):
    """One change of a job's state."""

    seq: int
    state: JobState
    at: float
    problem: str | None


class ResultLine(NamedTuple):
    """The line of one row, as `schemas.rows` has it."""

    row: int
    line: bytes


class Lease(NamedTuple):
    """A chunk of rows that one owner may work on until the lease ends.

    `fence` is higher with each lease of the chunk; the store takes nothing from an owner with a lower one. `deaths`:
    how many owners of the chunk ended without a word.
    """

    job_id: str
    tenant: str
    options: bytes
    chunk: int
    fence: int
    deaths: int


class PendingRow(NamedTuple):
    """A row that is to be scored. `strikes`: how many processes ended while it was under way in them."""

    row: Record | RecordProblem
    strikes: int


class Held(StrEnum):
    """What the store says of a lease."""

    # go on
    YES = "yes"
    # the job is paused: end what is begun, then release
    PAUSED = "paused"
    # the job has ended or another owner has the chunk: drop everything
    LOST = "lost"
