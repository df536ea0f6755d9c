"""How fast a worker works, and how soon it looks up."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pace:
    """How a worker works. Seconds and counts.

    concurrency: rows under way at one time. chunks: chunks leased at one time; two, so that the slow last rows of one
    leave nothing idle. group_rows, group_seconds: results wait for others so long, at most. poll_seconds: how soon
    work that another process has brought is seen. renew_seconds: far below the lease.
    """

    concurrency: int = 64
    chunks: int = 2
    group_rows: int = 64
    group_seconds: float = 0.25
    poll_seconds: float = 0.5
    renew_seconds: float = 1.0
