"""What scores rows for a run: here in this process, or a service somewhere else."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import Final, Protocol

from plumbline.ground.concurrency import map_concurrently
from plumbline.rows.records.record import Record, RecordProblem
from plumbline.rows.scored_row import ScoredRow

# Rows read ahead of the slowest one under way, as a multiple of those under way: it holds nobody up that long.
_WINDOW: Final = 2


class Halt:
    """Says that no more rows are to be begun, and why; those under way are finished."""

    def __init__(self) -> None:
        self.reason: str | None = None

    def call(self, reason: str) -> None:
        """Begin no more rows; the first reason stands."""
        self.reason = self.reason or reason

    @property
    def is_called(self) -> bool:
        """Whether it was called."""
        return self.reason is not None


class Budget:
    """What a run may spend, earlier parts of it included; having spent it, no more rows are begun.

    Args:
        max_cost: in the currency of the price table; None for no bound.
    """

    def __init__(self, max_cost: float | None, halt: Halt) -> None:
        self._max_cost = max_cost
        self._halt = halt
        self._spent = 0.0

    def pay(self, cost: float | None) -> None:
        """Count what a row, or an earlier part, has cost; None: its price is not known."""
        if self._max_cost is None:
            return
        if cost is None:
            self._halt.call("the price of a call is not known, so its cost cannot be bounded; see PLUMBLINE_LLM_PRICES")
            return
        self._spent += cost
        if self._spent >= self._max_cost:
            self._halt.call(f"{self._spent:.6g} is spent, of {self._max_cost:g}; a higher --max-cost goes on")


class ManyScorer(Protocol):
    """Scores rows, a bounded number at a time."""

    def scored(
        self, rows: Iterable[Record | RecordProblem], halt: Halt, budget: Budget
    ) -> AsyncGenerator[ScoredRow, None]:
        """The scored rows in the order of `rows`, which are taken as there is room for them.

        Once `halt` is called no row is begun; those that were come, and then it ends. It may call `halt` itself, when
        no further row could be scored. Close it when not all is taken.
        """


class OneScorer(Protocol):
    """Scores one row; never raises for what the row holds."""

    async def score(self, row: Record | RecordProblem) -> ScoredRow:
        """The row's result, or its error."""


class ScorerHere:
    """Scores rows in this process.

    Args:
        one: what scores a single row.
        at_once: rows under way at one time.
    """

    def __init__(self, one: OneScorer, *, at_once: int) -> None:
        self._one = one
        self._at_once = at_once

    async def scored(
        self, rows: Iterable[Record | RecordProblem], halt: Halt, budget: Budget
    ) -> AsyncGenerator[ScoredRow, None]:
        """As `ManyScorer` has it."""
        work = self._one_by_one if self._at_once == 1 else self._several
        async with aclosing(work(rows, halt, budget)) as done:
            async for scored in done:
                yield scored

    async def _one_by_one(
        self, rows: Iterable[Record | RecordProblem], halt: Halt, budget: Budget
    ) -> AsyncGenerator[ScoredRow, None]:
        """Without the tasks that several need: a tenth of the time of a short row."""
        for row in rows:
            if halt.is_called:
                return
            scored = await self._one.score(row)
            budget.pay(scored.usage.cost)
            yield scored
            # Signals and who watches have their turn too
            await asyncio.sleep(0)

    async def _several(
        self, rows: Iterable[Record | RecordProblem], halt: Halt, budget: Budget
    ) -> AsyncGenerator[ScoredRow, None]:
        # Waiters are let in as they came: rows are begun in order, and those never begun stand behind all others
        room = asyncio.Semaphore(self._at_once)

        async def score(row: Record | RecordProblem) -> ScoredRow | None:
            async with room:
                if halt.is_called:
                    return None
                scored = await self._one.score(row)
                budget.pay(scored.usage.cost)
                return scored

        work = map_concurrently(score, rows, limit=_WINDOW * self._at_once, in_order=True)
        async with aclosing(work) as done:
            async for scored in done:
                if scored is None:
                    return
                yield scored
