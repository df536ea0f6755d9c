"""The run itself: rows in, lines out in the same order, and where it stands kept as it goes."""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, Protocol

from plumbline.cli.score.counts import Counts, Standing
from plumbline.cli.score.scorers import Budget, Halt, ManyScorer
from plumbline.cli.score.written_rows import WrittenRow
from plumbline.ground.errors import InvalidInput
from plumbline.rows.records.reading import RecordReader
from plumbline.rows.records.record import ReadPosition, Record, RecordProblem
from plumbline.rows.scored_row import ScoredRow

_SAVE_SECONDS: Final = 2.0


class Lines(Protocol):
    """Where lines go, and those that are there."""

    def written(self) -> Iterator[WrittenRow]:
        """Those of earlier parts."""

    def write(self, line: bytes) -> None:
        """One more."""


class Watcher(Protocol):
    """Who is told how a run stands."""

    every_seconds: float

    def tell(self, standing: Standing) -> None:
        """How it stands now."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended: `left` is None when every row is written, else one line on why some are not."""

    standing: Standing
    left: str | None


class Run:
    """Scores what is left of a file.

    Args:
        open_reader: a reader from a position on, which knows the given custom_ids.
        lines: where the results go.
        start: a position at or before the first row that has no line.
        save: keeps a position.
        share_of: how much of the file stands before a position, in [0, 1]; None where that is not known.
        limit: rows to score, counted from the first of the file.
    """

    def __init__(
        self,
        *,
        open_reader: Callable[[ReadPosition, Iterator[str]], RecordReader],
        lines: Lines,
        start: ReadPosition,
        save: Callable[[ReadPosition], None],
        share_of: Callable[[ReadPosition], float | None],
        limit: int | None = None,
        watcher: Watcher | None = None,
    ) -> None:
        self._open_reader = open_reader
        self._lines = lines
        self._written_to = start
        self._save = save
        self._share_of = share_of
        self._limit = limit
        self._watcher = watcher
        self._counts = Counts()
        self._share_before = 0.0
        # Behind each row that is under way, in order
        self._positions: deque[ReadPosition] = deque()
        self._is_exhausted = False
        self._damage: str | None = None

    async def score(self, scorer: ManyScorer, halt: Halt, budget: Budget) -> Ending:
        """Writes the lines of all rows that are left, or of those that were begun when `halt` was called.

        Raises:
            InvalidInput: the input cannot be read, the lines cannot be written, or are not those of this file.
        """
        with self._reader() as reader:
            if self._counts.rows:
                budget.pay(self._counts.cost)
            async with self._watched():
                await self._write(scorer.scored(self._rows(reader, halt), halt, budget))
        left = None if self._is_exhausted and not self._positions else self._damage or halt.reason or "it was stopped"
        return Ending(self._standing(), left)

    async def _write(self, scored_rows: AsyncGenerator[ScoredRow, None]) -> None:
        saved_at = time.monotonic()
        try:
            async with aclosing(scored_rows) as done:
                async for scored in done:
                    self._lines.write(scored.line)
                    self._counts.add(scored)
                    self._written_to = self._positions.popleft()
                    if time.monotonic() - saved_at > _SAVE_SECONDS:
                        self._save(self._written_to)
                        saved_at = time.monotonic()
        finally:
            self._save(self._written_to)

    def _reader(self) -> RecordReader:
        """A reader that stands behind the last row that has a line."""
        start = self._written_to
        rows = self._lines.written()
        ids = (row.custom_id for row in self._counted(rows) if row.custom_id is not None)
        reader = self._open_reader(start, ids)
        try:
            if start.row > self._counts.rows:
                # The disk kept less than was written
                reader.close()
                reader = self._open_reader(ReadPosition(), iter(()))
            self._skip(reader)
        except BaseException:
            reader.close()
            raise
        return reader

    def _counted(self, rows: Iterator[WrittenRow]) -> Iterator[WrittenRow]:
        for row in rows:
            self._counts.add_earlier(row)
            yield row

    def _skip(self, reader: RecordReader) -> None:
        while reader.position.row < self._counts.rows:
            if next(reader, None) is None:
                raise InvalidInput(f"has fewer rows than the {self._counts.rows} that have results", place=reader.name)
        self._written_to = reader.position
        self._share_before = self._share_of(reader.position) or 0.0

    def _rows(self, reader: RecordReader, halt: Halt) -> Iterator[Record | RecordProblem]:
        """The rows that are left; damage in the file ends them, as those before it have results all the same."""
        while not halt.is_called:
            if self._limit is not None and reader.position.row >= self._limit:
                self._is_exhausted = True
                return
            try:
                row = next(reader)
            except StopIteration:
                self._is_exhausted = True
                return
            except InvalidInput as error:
                self._damage = str(error)
                return
            self._positions.append(reader.position)
            yield row

    @contextlib.asynccontextmanager
    async def _watched(self) -> AsyncIterator[None]:
        self._counts.begin()
        watching = asyncio.create_task(self._watch()) if self._watcher is not None else None
        try:
            yield
        finally:
            if watching is not None:
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)

    async def _watch(self) -> None:
        while self._watcher is not None:
            self._watcher.tell(self._standing())
            await asyncio.sleep(self._watcher.every_seconds)

    def _standing(self) -> Standing:
        return self._counts.standing(self._share_of(self._written_to), self._share_before)
