"""Rows scored by a running service."""

from collections import deque
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing
from typing import Final

from plumbline.cli.score.run import RunLimits
from plumbline.client.async_client import AsyncPlumbline
from plumbline.client.batches import DEFAULT_BATCH_SIZE, DEFAULT_IN_FLIGHT
from plumbline.client.failures import AnswerCut, AnswerUnreadable, Busy, NotReached, ServiceFailed, TimedOut
from plumbline.rows.jobs.job import ResultLine
from plumbline.rows.records.record import Record, RecordProblem
from plumbline.rows.report.result_lines import read_line
from plumbline.rows.scored_row import unreadable_row
from plumbline.schemas.evaluation import EvaluationOptions

# Temporary failures; anything else that a service answers is for the user to fix
_TEMPORARY: Final = (AnswerCut, Busy, NotReached, ServiceFailed, TimedOut)


class RemoteEngine:
    """`Engine` on the service at `url`; its key is PLUMBLINE_API_KEY. Raises ConfigurationError."""

    def __init__(self, url: str, options: EvaluationOptions, *, concurrency: int | None = None) -> None:
        self._url = url
        self._client = AsyncPlumbline(url)
        self._options = options
        self._concurrency = concurrency or DEFAULT_IN_FLIGHT

    def check(self, _: float | None) -> None:
        """Return no warning: prices and thresholds are the service's."""

    def identity(self) -> dict[str, object]:
        return {"service": self._url, "options": self._options.model_dump(mode="json")}

    async def score_rows(
        self, rows: Iterable[Record | RecordProblem], limits: RunLimits
    ) -> AsyncGenerator[ResultLine, None]:
        """Yield the results. A failure of the service stops the run (ClientError): it makes no row an error."""
        # Unreadable rows stay here until those before them have come back
        unsent: deque[RecordProblem] = deque()
        async with self._client as client:
            answers = client.evaluate_many(
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
                            yield _line_of(unsent.popleft())
                        line = row.to_line(row=row.sample.row)
                        read = read_line(line)
                        if isinstance(read, str):
                            raise AnswerUnreadable("a row of the answer is not one of this service")
                        limits.pay(read.cost)
                        yield ResultLine(read.row, line)
            except _TEMPORARY as error:
                limits.stop(str(error))
                return
        for problem in unsent:
            yield _line_of(problem)


def _line_of(problem: RecordProblem) -> ResultLine:
    return ResultLine(problem.row, unreadable_row(problem).line)


def _readable(rows: Iterable[Record | RecordProblem], unsent: deque[RecordProblem]) -> Iterator[Record]:
    for row in rows:
        if isinstance(row, Record):
            yield row
        else:
            unsent.append(row)
