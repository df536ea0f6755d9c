"""The answer to a batch: each row judged by itself and written as soon as it is, then the summary."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import structlog

from plumbline.ground.concurrency import map_concurrently
from plumbline.judging.scoring import Scorer
from plumbline.rows.row_scorer import RowScorer
from plumbline.rows.scored_row import RowLines, RowTally, ScoredRow
from plumbline.schemas.batch import BatchError, BatchResult
from plumbline.schemas.json_line import json_line
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


BATCH_LINES = RowLines(
    result=lambda custom_id, row, result: json_line(BatchResult(custom_id=custom_id, index=row, result=result)),
    error=lambda custom_id, row, _, problem: json_line(BatchError(custom_id=custom_id, index=row, error=problem)),
)


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch to judge.

    Args:
        rows: scores them, with `BATCH_LINES`.
        slots: one is held while a sample is judged, over all batches of the service.
        check_budget: raises BudgetSpent; the remaining rows then get that as their error.
    """

    reader: BatchReader
    samples: list[Any]
    rows: RowScorer
    scorer: Scorer
    slots: asyncio.Semaphore
    limit: int
    check_budget: Callable[[], None]

    async def pieces(self, media_type: str) -> AsyncGenerator[bytes, None]:
        """Yield the answer row by row; at most `limit` rows are judged ahead of the reader."""
        layout, tally, is_complete = LAYOUTS[media_type], RowTally(), False
        rows = map_concurrently(
            self._score, self.reader.rows(self.samples), limit=self.limit, in_order=media_type == JSON
        )
        try:
            if layout.begin:
                yield layout.begin
            separator = b""
            async with aclosing(rows) as scored:
                async for row in scored:
                    tally.add(row)
                    yield separator + row.line + layout.after_each
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

    async def _score(self, row: Row) -> ScoredRow:
        try:
            sample = await self.scorer.offload(lambda: self.reader.sample(row))
            async with self.slots:
                self.check_budget()
                return await self.rows.score_valid(row.index, row.custom_id, sample)
        except Exception as error:
            return self.rows.refuse(row.index, row.custom_id, self.reader.problem(row, error))
