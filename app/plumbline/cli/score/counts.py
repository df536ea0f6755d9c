"""How a run stands: what became of its rows, what they cost, how fast it is and how long it will take."""

import re
import time
from dataclasses import dataclass
from typing import Final

from plumbline.cli.score.written_rows import WrittenRow
from plumbline.rows.scored_row import RowTally, ScoredRow
from plumbline.schemas.batch import BatchSummary

_FAITHFULNESS: Final = re.compile(rb'"faithfulness":([0-9.eE+-]+)')


@dataclass(frozen=True, slots=True)
class Standing:
    """A run at one moment.

    Args:
        counts: of all rows that are written, those of earlier parts of the run included.
        means: mean faithfulness by tier, over the judged rows.
        rows_now: rows of this part alone; `seconds` is its time.
        share: of the file that is done, in [0, 1]; None where that is not known.
    """

    counts: BatchSummary
    means: dict[str, float]
    rows_now: int
    seconds: float
    share: float | None
    share_before: float

    @property
    def rate(self) -> float:
        """Rows a second, of this part."""
        return self.rows_now / self.seconds if self.seconds > 0 else 0.0

    @property
    def eta_seconds(self) -> float | None:
        """At the rate of this part; None where it is not known."""
        if self.share is None or self.share <= self.share_before:
            return None
        return (1.0 - self.share) * self.seconds / (self.share - self.share_before)


class Counts:
    """Counts rows as they are written. The clock starts with the first row that is not of an earlier part."""

    def __init__(self) -> None:
        self._tally = RowTally()
        self._sums: dict[str | None, tuple[float, int]] = {}
        self._rows_now = 0
        self._rows_before = 0
        self._started = time.monotonic()

    @property
    def rows(self) -> int:
        """All rows that are written."""
        return self._rows_before + self._rows_now

    @property
    def cost(self) -> float | None:
        """Of all rows; None while one is not known."""
        return self._tally.summary().usage.cost

    def add_earlier(self, row: WrittenRow) -> None:
        """A row that an earlier part has written."""
        self._add(row.scored, row.faithfulness)
        self._rows_before += 1

    def begin(self) -> None:
        """Starts the clock."""
        self._started = time.monotonic()

    def add(self, scored: ScoredRow) -> None:
        """A row of this part."""
        # Its first mention is the score: in a name before it the quotes are escaped
        found = _FAITHFULNESS.search(scored.line)
        self._add(scored, float(found[1]) if found else None)
        self._rows_now += 1

    def standing(self, share: float | None, share_before: float) -> Standing:
        """How the run stands."""
        return Standing(
            counts=self._tally.summary(),
            means={tier: total / rows for tier, (total, rows) in self._by_tier().items()},
            rows_now=self._rows_now,
            seconds=time.monotonic() - self._started,
            share=share,
            share_before=share_before,
        )

    def _add(self, scored: ScoredRow, faithfulness: float | None) -> None:
        self._tally.add(scored)
        if faithfulness is not None:
            total, rows = self._sums.get(scored.tier, (0.0, 0))
            self._sums[scored.tier] = total + faithfulness, rows + 1

    def _by_tier(self) -> dict[str, tuple[float, int]]:
        """Rows that needed no tier are the largest one's, as in a report."""
        sums = {tier: each for tier, each in self._sums.items() if tier is not None}
        untiered = self._sums.get(None)
        if untiered is not None:
            largest = max(sums, key=lambda tier: sums[tier][1], default="none")
            total, rows = sums.get(largest, (0.0, 0))
            sums[largest] = total + untiered[0], rows + untiered[1]
        return sums
