"""Scores rows by batch files: each row's line, and the questions for which there is no reply yet."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from plumbline.extras.provider_batches.correspondence import Correspondence, OpenQuestion
from plumbline.ground.concurrency import map_concurrently
from plumbline.rows.records.record import Record, RecordProblem
from plumbline.rows.scored_row import RowStatus, ScoredRow

_ROWS_AT_ONCE: Final = 16


class AskedRow(NamedTuple):
    """A row as far as its replies go. `open`: questions without one."""

    scored: ScoredRow
    open: list[OpenQuestion]


def asked_rows(
    rows: Iterable[Record | RecordProblem],
    score: Callable[[Record | RecordProblem], Awaitable[ScoredRow]],
    correspondence: Correspondence,
) -> AsyncGenerator[AskedRow, None]:
    """The rows in their order. `score` asks chat models behind the correspondence."""

    async def work(row: Record | RecordProblem) -> AskedRow:
        with correspondence.about(row.row) as letters:
            scored = await score(row)
        return AskedRow(scored, letters.unanswered())

    return map_concurrently(work, rows, limit=_ROWS_AT_ONCE, in_order=True)


@dataclass(slots=True)
class Estimate:
    """What rows will ask, in tokens: rather too many in, and out at most."""

    rows: int = 0
    invalid: int = 0
    decided: int = 0
    unaskable: int = 0
    requests: int = 0
    prompt_tokens: int = 0
    max_output_tokens: int = 0

    def add(self, row: AskedRow) -> None:
        """Counts a row."""
        self.rows += 1
        self.requests += len(row.open)
        self.prompt_tokens += sum(question.prompt_tokens for question in row.open)
        self.max_output_tokens += sum(question.max_output_tokens for question in row.open)
        status = row.scored.status
        self.invalid += status in (RowStatus.INVALID, RowStatus.FAILED)
        if not row.open:
            self.unaskable += status is RowStatus.NOT_JUDGED
            self.decided += status in (RowStatus.JUDGED, RowStatus.ABSTAINED, RowStatus.EMPTY_ANSWER)
