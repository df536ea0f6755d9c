"""Rows scored by a running service."""

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from contextlib import aclosing, asynccontextmanager
from typing import Final

from plumbline.cli.score.output import read_written
from plumbline.cli.score.run import Budget, StopSignal
from plumbline.client.async_client import AsyncPlumbline
from plumbline.client.batches import DEFAULT_BATCH_SIZE, DEFAULT_IN_FLIGHT
from plumbline.client.failures import AnswerCut, AnswerUnreadable, Busy, NotReached, ServiceFailed, TimedOut
from plumbline.rows.records.record import Record, RecordProblem
from plumbline.rows.run_identity import Choice, option_identity
from plumbline.rows.scored_row import ScoredRow, unreadable_row
from plumbline.schemas.evaluation import EvaluationOptions

# Temporary failures; anything else that a service answers is for the user to fix
_TEMPORARY: Final = (AnswerCut, Busy, NotReached, ServiceFailed, TimedOut)


class RemoteScorer:
    """`StreamScorer` on a service. A failure of the service stops the run: it makes no row an error."""

    def __init__(self, client: AsyncPlumbline, options: EvaluationOptions, *, concurrency: int) -> None:
        self._client = client
        self._options = options
        self._concurrency = concurrency

    async def scored(
        self, rows: Iterable[Record | RecordProblem], stop: StopSignal, budget: Budget
    ) -> AsyncGenerator[ScoredRow, None]:
        """Yield the scored rows; raise ClientError if the service refuses the whole request."""
        # Unreadable rows stay here until those before them have come back
        unsent: deque[RecordProblem] = deque()
        answers = self._client.evaluate_many(
            _readable(rows, unsent),
            options=self._options,
            in_flight=self._concurrency,
            batch_size=min(DEFAULT_BATCH_SIZE, self._concurrency),
            in_order=True,
        )
        try:
            async with aclosing(answers) as done:
                async for row in done:
                    while unsent and unsent[0].row < row.sample.row:
                        yield unreadable_row(unsent.popleft())
                    line = row.to_line(row=row.sample.row)
                    written = read_written(line)
                    if written is None:
                        raise AnswerUnreadable("a row of the answer is not one of this service")
                    scored = written.scored._replace(line=line)
                    budget.pay(scored.usage.cost)
                    yield scored
        except _TEMPORARY as error:
            stop.set(str(error))
            return
        for problem in unsent:
            yield unreadable_row(problem)


class RemoteEngine:
    """`Engine` on the service at `url`; its key is PLUMBLINE_API_KEY."""

    def __init__(self, url: str, options: EvaluationOptions, *, concurrency: int | None = None) -> None:
        self._url = url
        self._options = options
        self._concurrency = concurrency or DEFAULT_IN_FLIGHT

    def check(self, _: float | None) -> None:
        """Return no warning: prices and thresholds are the service's."""

    def identity(self) -> dict[str, Choice]:
        options = self._options
        own = {"threshold": options.threshold, "deadline": options.deadline_seconds, "service": self._url}
        return {**option_identity(options), **own}

    @asynccontextmanager
    async def scorer(self) -> AsyncIterator[RemoteScorer]:
        async with AsyncPlumbline(self._url) as client:
            yield RemoteScorer(client, self._options, concurrency=self._concurrency)


def _readable(rows: Iterable[Record | RecordProblem], unsent: deque[RecordProblem]) -> Iterator[Record]:
    for row in rows:
        if isinstance(row, Record):
            yield row
        else:
            unsent.append(row)
