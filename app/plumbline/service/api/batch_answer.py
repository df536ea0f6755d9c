"""The answer to a batch: each row judged by itself and written as soon as it is, then the summary."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import structlog

from plumbline.ground.concurrency import map_concurrently
from plumbline.judging.scoring import Options, Result, Scorer
from plumbline.rows.evaluation_wire import to_sample, to_wire
from plumbline.rows.row_scorer import row_with_result, row_without_result
from plumbline.rows.scored_row import RowStatus, ScoredRow
from plumbline.rows.tally import Tally
from plumbline.schemas.batch import BatchError, BatchResult
from plumbline.schemas.evaluation import EvaluationOptions, EvaluationRequest
from plumbline.schemas.json_line import json_line
from plumbline.schemas.problem import INTERNAL
from plumbline.service.api.batch_rows import BatchReader, Row

NDJSON = "application/x-ndjson"
JSON = "application/json"

_LOG = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Layout:
    """What stands around the rows and the summary."""

    begin: bytes
    before_next: bytes
    after_each: bytes
    before_summary: bytes
    end: bytes


LAYOUTS = {
    NDJSON: _Layout(b"", b"", b"\n", b'{"summary":', b"}\n"),
    JSON: _Layout(b'{"results":[', b",", b"", b'],"summary":', b"}\n"),
}


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch to judge.

    `slots`: one is held while a sample is judged, over all batches of the service. `check_budget` raises BudgetSpent:
    the rows that are left then are answered with that.
    """

    reader: BatchReader
    samples: list[Any]
    choices: EvaluationOptions
    options: Options
    scorer: Scorer
    slots: asyncio.Semaphore
    at_once: int
    check_budget: Callable[[], None]

    async def pieces(self, media_type: str) -> AsyncGenerator[bytes, None]:
        """The answer, row by row. Rows are judged no further ahead of the reader than `at_once`."""
        layout, tally, is_complete = LAYOUTS[media_type], Tally(), False
        rows = map_concurrently(
            lambda row: self._line(row, tally),
            self.reader.rows(self.samples),
            limit=self.at_once,
            in_order=media_type == JSON,
        )
        try:
            if layout.begin:
                yield layout.begin
            separator = b""
            async with aclosing(rows) as lines:
                async for line in lines:
                    yield separator + line + layout.after_each
                    separator = layout.before_next
            summary = tally.summary().model_dump_json().encode()
            yield layout.before_summary + summary + layout.end
            is_complete = True
        finally:
            counts = tally.summary()
            _LOG.info(
                "batch_ended",
                is_complete=is_complete,
                rows=counts.rows,
                errors=counts.errors,
                not_judged=counts.not_judged,
                degraded=counts.degraded,
                seconds=counts.seconds,
            )

    async def _line(self, row: Row, tally: Tally) -> bytes:
        """The row's result or its error; whatever goes wrong in it is its own."""
        try:
            request, result = await self._judge(row)
            # As for a single result: it can have a megabyte.
            scored = await self.scorer.in_worker(lambda: _scored(row, request, result))
        except Exception as error:
            scored = self._failed(row, error)
        tally.add(scored)
        return scored.line

    def _failed(self, row: Row, error: Exception) -> ScoredRow:
        problem = self.reader.problem(row, error)
        line = json_line(BatchError(custom_id=row.custom_id, index=row.index, error=problem))
        status = RowStatus.FAILED if problem.status >= INTERNAL.status else RowStatus.INVALID
        return row_without_result(row.index, line, status)

    async def _judge(self, row: Row) -> tuple[EvaluationRequest, Result]:
        sample = await self.scorer.in_worker(lambda: self.reader.sample(row))
        # Both parts have been validated.
        request = EvaluationRequest.model_construct(
            id=sample.custom_id,
            question=sample.question,
            contexts=sample.contexts,
            answer=sample.answer,
            reference=sample.reference,
            **dict(self.choices),
        )
        async with self.slots:
            self.check_budget()
            return request, await self.scorer.score(to_sample(request), self.options)


def _scored(row: Row, request: EvaluationRequest, result: Result) -> ScoredRow:
    wire = to_wire(request, result)
    line = json_line(BatchResult(custom_id=row.custom_id, index=row.index, result=wire))
    return row_with_result(row.index, line, wire, result.usage)
