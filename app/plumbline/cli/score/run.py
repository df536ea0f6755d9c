"""Run: rows in, result lines out in the same order, counted, bounded in cost, resumable after any row."""

import asyncio
import contextlib
import signal
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Iterable, Iterator
from contextlib import aclosing
from types import FrameType
from typing import Protocol

from plumbline.cli.progress import RunCounts, ScoreProgress
from plumbline.cli.score.results import RunOutput
from plumbline.cli.score.source import InputSource
from plumbline.ground.concurrency import end_tasks
from plumbline.ground.errors import InvalidInput
from plumbline.rows.jobs.job import ResultLine
from plumbline.rows.records.reading import RecordReader
from plumbline.rows.records.record import Record, RecordProblem
from plumbline.rows.report.building import ReportBuilder
from plumbline.rows.report.result_lines import ResultRow, read_line
from plumbline.schemas.language import render_line
from plumbline.schemas.report import ReportLanguage


class RunLimits:
    """Limits of a run: a signal, a failure, or its cost with that of earlier parts; `reason` tells which ended it.

    Once it `is_stopped` no row starts; rows in flight are finished.
    """

    def __init__(self, max_cost: float | None = None) -> None:
        self._max_cost = max_cost
        self._spent = 0.0
        self.reason: str | None = None

    def stop(self, reason: str) -> None:
        """Start no more rows; the first reason stands."""
        self.reason = self.reason or reason

    @property
    def is_stopped(self) -> bool:
        return self.reason is not None

    def pay(self, cost: float | None) -> None:
        """Add the cost of a row, or of an earlier part; None: its price is unknown."""
        if self._max_cost is None:
            return
        if cost is None:
            self.stop("the price of a call is not known, so its cost cannot be bounded; see PLUMBLINE_LLM_PRICES")
            return
        self._spent += cost
        if self._spent >= self._max_cost:
            self.stop(f"{self._spent:.6g} is spent, of {self._max_cost:g}; raise --max-cost to resume")


class Engine(Protocol):
    """Place that scores rows: this process, or a service."""

    def check(self, max_cost: float | None) -> str | None:
        """Return a warning in one line, if any. Raises ConfigurationError: the cost cannot be bounded."""

    def identity(self) -> dict[str, object]:
        """Return what this place and its options decide of the results."""

    def score_rows(self, rows: Iterable[Record | RecordProblem], limits: RunLimits) -> AsyncGenerator[ResultLine, None]:
        """Yield the results in the order of `rows`, which are consumed as there is room for them.

        Once the limits stop it no row starts; rows in flight are yielded, and then it ends. It may stop itself if no
        further row can be scored. Close it unless all is consumed.
        """


class Run:
    """Scoring of the pending rows of a file; `counts` are of the written rows."""

    def __init__(
        self,
        source: InputSource,
        output: RunOutput,
        builder: ReportBuilder,
        *,
        progress: ScoreProgress | None = None,
        language: ReportLanguage | None = None,
    ) -> None:
        self._source = source
        self.output = output
        self._progress = progress
        self._language = language
        self._share_of = source.share_before()
        self.counts = RunCounts(builder)
        self._taken = 0
        self._is_exhausted = False
        self._damage: str | None = None

    def count_written_rows(self) -> None:
        for line, row in self.output.rows():
            self.counts.add(line, row)

    def score_until_signal(
        self, engine: Engine, *, max_cost: float | None = None, echo: Callable[[bytes], None] | None = None
    ) -> str | None:
        """Write the lines of all pending rows, until a signal or `max_cost` ends it; a second signal ends it at once.

        `echo` gets each line that is written. Returns None if every row is written, else one line on why some are not.
        Raises InvalidInput: the input cannot be read, the lines cannot be written, or are not those of this file.
        """
        limits = RunLimits(max_cost)

        async def work() -> None:
            with self._source.open() as reader:
                self.count_written_rows()
                before = frozenset(self.output.done)
                if before:
                    limits.pay(self.counts.builder.tally.usage().cost)
                reporting = [] if self._progress is None else [asyncio.create_task(self._report(self._progress))]
                try:
                    await self._write(engine.score_rows(self._rows(reader, limits, before), limits), reader, echo)
                finally:
                    await end_tasks(reporting)

        if not _run_interruptibly(work, limits):
            return "stopped at once"
        counts = self.counts
        is_done = self._is_exhausted and self._taken == counts.rows_now
        left = None if is_done else self._damage or limits.reason or "it was stopped"
        if self._progress is not None:
            self._progress.end(counts, left)
        return None if left is None else f"{counts.builder.rows} rows written, more remain: {left}"

    async def _write(
        self,
        scored_rows: AsyncGenerator[ResultLine, None],
        reader: RecordReader,
        echo: Callable[[bytes], None] | None,
    ) -> None:
        async with aclosing(scored_rows) as done:
            async for row, scored in done:
                line = render_line(scored, self._language)
                self.output.write(line, row)
                if echo is not None:
                    echo(line)
                if isinstance(read := read_line(line), ResultRow):
                    self.counts.add(line, read)
                    self.counts.rows_now += 1
                self.counts.share = self._share_of(reader.position)

    def _rows(
        self, reader: RecordReader, limits: RunLimits, before: Collection[int]
    ) -> Iterator[Record | RecordProblem]:
        """Yield the rows that had no line before; damage in the file ends them: those in front have results."""
        limit = self._source.limit
        while not limits.is_stopped:
            try:
                row = None if limit is not None and reader.position.row >= limit else next(reader, None)
            except InvalidInput as error:
                self._damage = str(error)
                return
            if row is None:
                self._is_exhausted = True
                return
            if self._source.shard.has(row.row) and row.row not in before:
                if not self._taken:
                    self.counts.start_part(self._share_of(reader.position) or 0.0)
                self._taken += 1
                yield row

    async def _report(self, progress: ScoreProgress) -> None:
        while True:
            progress.tell(self.counts)
            await asyncio.sleep(progress.every_seconds)


def _run_interruptibly(work: Callable[[], Coroutine[None, None, None]], limits: RunLimits) -> bool:
    """Run `work` in an event loop until a second Ctrl-C or SIGTERM, which returns False; the first one stops it."""

    async def attend() -> None:
        task = asyncio.current_task()
        with _signals(limits, asyncio.get_running_loop(), lambda: task is not None and task.cancel()):
            await work()

    try:
        asyncio.run(attend())
    except asyncio.CancelledError:
        return False
    return True


@contextlib.contextmanager
def _signals(limits: RunLimits, loop: asyncio.AbstractEventLoop, cancel: Callable[[], object]) -> Iterator[None]:
    def interrupt() -> None:
        if limits.is_stopped:
            cancel()
            return
        limits.stop("interrupted")
        sys.stderr.write("plumbline: finishing the rows in flight, then stopping; interrupt again to stop at once\n")

    def handle(_: int, __: FrameType | None) -> None:
        loop.call_soon_threadsafe(interrupt)

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
