"""How many jobs and chunks there are in each state, for whoever watches the service; of all callers together."""

from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol, runtime_checkable

from plumbline.rows.jobs.job import JobState
from plumbline.rows.jobs.sql import Sql


class JobCensus(NamedTuple):
    """`jobs` by state, every state named; chunks that wait to be worked on, and that somebody works on."""

    jobs: Mapping[JobState, int]
    chunks_waiting: int
    chunks_leased: int


NO_JOBS: Final = JobCensus(dict.fromkeys(JobState, 0), 0, 0)


@runtime_checkable
class Counted(Protocol):
    """A store that counts its jobs."""

    async def census(self) -> JobCensus:
        """The counts now. Raises StoreUnavailable."""


def take_census(sql: Sql) -> JobCensus:
    """The counts; chunks by the indices of those alone that are free in open jobs or leased."""
    found: dict[str, int] = dict(sql.execute("SELECT state, count(*) FROM job GROUP BY state"))
    (waiting,) = sql.execute(
        "SELECT count(*) FROM job j JOIN chunk c ON c.job = j.number AND c.state = 'free'"
        " WHERE j.state IN ('validating', 'queued', 'running')"
    ).fetchone()
    (leased,) = sql.execute("SELECT count(*) FROM chunk WHERE state = 'leased'").fetchone()
    return JobCensus({state: int(found.get(state.value, 0)) for state in JobState}, int(waiting), int(leased))
