"""Rows scored by a running service."""

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from contextlib import aclosing, asynccontextmanager
from typing import Final

from plumbline.cli.score.scorers import Budget, Halt
from plumbline.cli.score.written_rows import read_written
from plumbline.client.async_client import AsyncPlumbline
from plumbline.client.failures import AnswerCut, AnswerUnreadable, Busy, NotReached, ServiceFailed, TimedOut
from plumbline.client.flow import DEFAULT_BATCH_SIZE, DEFAULT_IN_FLIGHT
from plumbline.client.row import Row
from plumbline.rows.records.record import Record, RecordProblem
from plumbline.rows.scored_row import ScoredRow, unreadable_row
from plumbline.schemas.evaluation import EvaluationOptions

# Later it may go; anything else that a service says is for the user to mend
_PASSING: Final = (AnswerCut, Busy, NotReached, ServiceFailed, TimedOut)


class ScorerThere:
    """Scores rows by a service. When it cannot be asked any more the run halts: no row is an error for that.

    Args:
        in_flight: rows sent and not yet taken back, at most.
    """

    def __init__(self, client: AsyncPlumbline, options: EvaluationOptions, *, in_flight: int) -> None:
        self._client = client
        self._options = options
        self._in_flight = in_flight

    async def scored(
        self, rows: Iterable[Record | RecordProblem], halt: Halt, budget: Budget
    ) -> AsyncGenerator[ScoredRow, None]:
        """As `ManyScorer` has it.

        Raises:
            ClientError: the service refuses the whole.
        """
        # Rows that are no records stay here, until those before them have come back
        unsent: deque[RecordProblem] = deque()
        answers = self._client.evaluate_many(
            _records(rows, unsent),
            options=self._options,
            in_flight=self._in_flight,
            batch_size=min(DEFAULT_BATCH_SIZE, self._in_flight),
            in_order=True,
        )
        try:
            async with aclosing(answers) as done:
                async for row in done:
                    while unsent and unsent[0].row < row.sample.row:
                        yield unreadable_row(unsent.popleft())
                    scored = _scored(row)
                    budget.pay(scored.usage.cost)
                    yield scored
        except _PASSING as error:
            halt.call(str(error))
            return
        for problem in unsent:
            yield unreadable_row(problem)


@asynccontextmanager
async def scorer_there(
    url: str, options: EvaluationOptions, *, in_flight: int | None = None
) -> AsyncIterator[ScorerThere]:
    """What scores rows at an address; the key is that of `PLUMBLINE_API_KEY`."""
    async with AsyncPlumbline(url) as client:
        yield ScorerThere(client, options, in_flight=in_flight or DEFAULT_IN_FLIGHT)


def _records(rows: Iterable[Record | RecordProblem], unsent: deque[RecordProblem]) -> Iterator[Record]:
    for row in rows:
        if isinstance(row, Record):
            yield row
        else:
            unsent.append(row)


def _scored(row: Row[Record]) -> ScoredRow:
    line = row.to_line(row=row.sample.row)
    written = read_written(line)
    if written is None:
        raise AnswerUnreadable("a row of the answer is not one of this service")
    return written.scored._replace(line=line)
