"""Run: rows in, result lines out in the same order, counted, bounded in cost, resumable after any row."""

import asyncio
import contextlib
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterable, Iterator
from contextlib import aclosing
from types import FrameType
from typing import NamedTuple, Protocol, TypeVar

from plumbline.cli.progress import ScoreProgress, Standing
from plumbline.cli.score.output import Journal, outcome_of
from plumbline.cli.score.source import InputSource
from plumbline.ground.concurrency import end_tasks
from plumbline.ground.errors import InvalidInput
from plumbline.rows.records.reading import RecordReader
from plumbline.rows.records.record import ReadPosition, Record, RecordProblem
from plumbline.rows.report.result_lines import ResultRow, read_line
from plumbline.rows.run_identity import Choice
from plumbline.rows.scored_row import RowTally, ScoredRow
from plumbline.schemas.language import translate_json
from plumbline.schemas.report import ReferenceMeans, ReportLanguage

K = TypeVar("K")


class StopSignal:
    """Request to start no more rows, with its reason; rows in flight are finished."""

    def __init__(self) -> None:
        self.reason: str | None = None

    def set(self, reason: str) -> None:
        """Start no more rows; the first reason stands."""
        self.reason = self.reason or reason

    @property
    def is_set(self) -> bool:
        return self.reason is not None


class Budget:
    """Bound on the cost of a run, its earlier parts included; sets the stop signal once it is spent.

    Args:
        max_cost: in the currency of the price table; None: unbounded.
    """

    def __init__(self, max_cost: float | None, stop: StopSignal) -> None:
        self._max_cost = max_cost
        self._stop = stop
        self._spent = 0.0

    def pay(self, cost: float | None) -> None:
        """Add the cost of a row, or of an earlier part; None: its price is unknown."""
        if self._max_cost is None:
            return
        if cost is None:
            self._stop.set("the price of a call is not known, so its cost cannot be bounded; see PLUMBLINE_LLM_PRICES")
            return
        self._spent += cost
        if self._spent >= self._max_cost:
            self._stop.set(f"{self._spent:.6g} is spent, of {self._max_cost:g}; raise --max-cost to resume")


class Engine(Protocol):
    """Place that scores rows: this process, or a service."""

    def check(self, max_cost: float | None) -> str | None:
        """Return a warning in one line, if any. Raises ConfigurationError: the cost cannot be bounded."""

    def identity(self) -> dict[str, Choice]:
        """Return the part of the run's identity that this place decides."""

    def scored(
        self, rows: Iterable[Record | RecordProblem], stop: StopSignal, budget: Budget
    ) -> AsyncGenerator[ScoredRow, None]:
        """Yield the scored rows in the order of `rows`, which are consumed as there is room for them.

        Once `stop` is set no row starts; rows in flight are yielded, and then it ends. It may set `stop` itself if no
        further row can be scored. Close it unless all is consumed.
        """


class RunEnd(NamedTuple):
    """End of a run: `left` is None if every row is written, else one line on why some are not.

    `unreachable`: rows whose threshold is above the highest score of their tier.
    """

    left: str | None
    unreachable: int = 0


class RunCounts:
    """Counts of the written rows, those of earlier parts of the run included."""

    def __init__(self) -> None:
        self._tally = RowTally()
        # Sum and number, by tier and by score of a reference
        self._faithfulness: dict[str | None, tuple[float, int]] = {}
        self._references: dict[str, tuple[float, int]] = {}
        self._unreachable = 0
        self.rows_before = self.rows_now = 0
        # Of this part
        self.started = time.monotonic()

    @property
    def cost(self) -> float | None:
        """Return the cost of all rows; None if one is unknown."""
        return self._tally.summary().usage.cost

    def add(self, row: ResultRow) -> None:
        self._tally.add(outcome_of(row))
        if (result := row.result) is None:
            return
        self._unreachable += "threshold_unreachable" in result.flags
        _add_to_mean(self._faithfulness, result.tier, result.faithfulness)
        for name in ReferenceMeans.model_fields:
            _add_to_mean(self._references, name, result.reference_score(name))

    def standing(self, share: float | None, share_before: float) -> Standing:
        """Return the counts at this moment; `share` of the input that is done, and that was before this part."""
        # Rows that needed no tier count for the most frequent one, as in a report
        sums = {tier: each for tier, each in self._faithfulness.items() if tier is not None}
        if (untiered := self._faithfulness.get(None)) is not None:
            largest = max(sums, key=lambda tier: sums[tier][1], default="none")
            total, rows = sums.get(largest, (0.0, 0))
            sums[largest] = total + untiered[0], rows + untiered[1]
        return Standing(
            counts=self._tally.summary(),
            means={tier: total / rows for tier, (total, rows) in sums.items()},
            reference_means={name: total / rows for name, (total, rows) in self._references.items()},
            unreachable=self._unreachable,
            rows_now=self.rows_now,
            seconds=time.monotonic() - self.started,
            share=share,
            share_before=share_before,
        )


def _add_to_mean(sums: dict[K, tuple[float, int]], key: K, value: float | None) -> None:
    if value is not None:
        total, rows = sums.get(key, (0.0, 0))
        sums[key] = total + value, rows + 1


class Run:
    """Scoring of the pending rows of a file; `echo` gets each line that is written."""

    def __init__(
        self,
        source: InputSource,
        journal: Journal,
        *,
        progress: ScoreProgress | None = None,
        echo: Callable[[bytes], None] | None = None,
        language: ReportLanguage = "en",
    ) -> None:
        self._source = source
        self._journal = journal
        self._progress = progress
        self._echo = echo
        self._language: ReportLanguage = language
        self._written_to = ReadPosition()
        self._share_of = source.share_before()
        self._share_before = 0.0
        self._counts = RunCounts()
        # Position behind each row in flight, in order
        self._positions: deque[ReadPosition] = deque()
        self._is_exhausted = False
        self._damage: str | None = None

    def score_until_signal(
        self,
        scored: Callable[[Iterable[Record | RecordProblem], StopSignal, Budget], AsyncGenerator[ScoredRow, None]],
        *,
        max_cost: float | None = None,
    ) -> RunEnd:
        """Write the lines of all pending rows, until a signal or `max_cost` ends it; a second signal ends it at once.

        Raises:
            InvalidInput: the input cannot be read, the lines cannot be written, or are not those of this file.
        """
        stop = StopSignal()
        budget = Budget(max_cost, stop)

        async def work() -> None:
            with self._reader() as reader:
                if self._counts.rows_before:
                    budget.pay(self._counts.cost)
                async with self._reported():
                    await self._write(scored(self._rows(reader, stop), stop, budget))

        if not _run_interruptibly(work, stop):
            return RunEnd("stopped at once")
        standing = self._standing()
        left = None if self._is_exhausted and not self._positions else self._damage or stop.reason or "it was stopped"
        if self._progress is not None:
            self._progress.end(standing, left)
        more = None if left is None else f"{standing.counts.rows} rows written, more remain: {left}"
        return RunEnd(more, standing.unreachable)

    async def _write(self, scored_rows: AsyncGenerator[ScoredRow, None]) -> None:
        async with aclosing(scored_rows) as done:
            async for scored in done:
                line = translate_json(scored.line, self._language)
                self._journal.write(line)
                if self._echo is not None:
                    self._echo(line)
                read = read_line(scored.line)
                if isinstance(read, ResultRow):
                    self._counts.add(read)
                self._counts.rows_now += 1
                self._written_to = self._positions.popleft()

    def _reader(self) -> RecordReader:
        """Return a reader that stands behind the last row that has a line."""
        shard = self._source.shard
        for row in self._journal.written(shard):
            self._counts.add(row)
            self._counts.rows_before += 1
        before = shard.file_row(self._counts.rows_before - 1) + 1 if self._counts.rows_before else 0
        reader = self._source.open()
        try:
            while reader.position.row < before:
                if next(reader, None) is None:
                    detail = f"has fewer rows than the {self._counts.rows_before} that have results"
                    raise InvalidInput(detail, place=reader.name)
        except BaseException:
            reader.close()
            raise
        self._written_to = reader.position
        self._share_before = self._share_of(reader.position) or 0.0
        return reader

    def _rows(self, reader: RecordReader, stop: StopSignal) -> Iterator[Record | RecordProblem]:
        """Yield the pending rows; damage in the file ends them, since those before it have results all the same."""
        self._counts.started = time.monotonic()
        while not stop.is_set:
            if self._source.limit is not None and reader.position.row >= self._source.limit:
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
            if self._source.shard.has(row.row):
                self._positions.append(reader.position)
                yield row

    @contextlib.asynccontextmanager
    async def _reported(self) -> AsyncIterator[None]:
        reporting = [] if self._progress is None else [asyncio.create_task(self._report(self._progress))]
        try:
            yield
        finally:
            await end_tasks(reporting)

    async def _report(self, progress: ScoreProgress) -> None:
        while True:
            progress.tell(self._standing())
            await asyncio.sleep(progress.every_seconds)

    def _standing(self) -> Standing:
        return self._counts.standing(self._share_of(self._written_to), self._share_before)


def _run_interruptibly(work: Callable[[], Coroutine[None, None, None]], stop: StopSignal) -> bool:
    """Run `work` in an event loop; return False if it was cancelled.

    The first Ctrl-C or SIGTERM sets `stop`, a graceful shutdown; the second one cancels the work.
    """

    async def attended() -> None:
        task = asyncio.current_task()
        with _signals(stop, asyncio.get_running_loop(), lambda: task is not None and task.cancel()):
            await work()

    try:
        asyncio.run(attended())
    except asyncio.CancelledError:
        return False
    return True


@contextlib.contextmanager
def _signals(stop: StopSignal, loop: asyncio.AbstractEventLoop, cancel: Callable[[], object]) -> Iterator[None]:
    def interrupted() -> None:
        if stop.is_set:
            cancel()
            return
        stop.set("interrupted")
        sys.stderr.write("plumbline: finishing the rows in flight, then stopping; interrupt again to stop at once\n")

    def handle(_: int, __: FrameType | None) -> None:
        loop.call_soon_threadsafe(interrupted)

    if threading.current_thread() is not threading.main_thread():
        # Signals are the main thread's
        yield
        return
    before = {each: signal.signal(each, handle) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
