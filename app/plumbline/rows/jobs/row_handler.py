"""Who scores the rows of a job: handed to the worker, which knows nothing of judges."""

from collections.abc import Callable
from typing import Protocol

from plumbline.rows.jobs.job import Lease
from plumbline.rows.records.record import Record, RecordProblem
from plumbline.rows.scored_row import ScoredRow


class RowHandler(Protocol):
    """Scores rows of one job. Never raises for what a row holds."""

    async def score(self, row: Record | RecordProblem) -> ScoredRow:
        """The row's result or error."""

    def crashed(self, row: Record | RecordProblem, deaths: int) -> ScoredRow:
        """The error of a row that is not tried again, since so many processes ended while they scored it."""


# Raises PlumblineError when the job's options cannot be followed any more.
HandlerOf = Callable[[Lease], RowHandler]
# Why no row of this tenant's jobs may be scored now; None when it may. Asked before rows are begun: it answers at once.
HindranceOf = Callable[[str], str | None]


def nothing_hinders(tenant: str) -> str | None:
    """Rows of everybody may be scored."""
    return None
