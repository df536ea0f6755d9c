"""Counts of the written rows of a run, those of earlier parts included, for its progress and its summary."""

import time
from typing import TypeVar

from plumbline.judging.ports.exchange import Usage
from plumbline.rows.report.result_lines import ResultRow
from plumbline.rows.scored_row import RowStatus, RowTally, ScoredRow, failed_row
from plumbline.schemas.batch import BatchSummary
from plumbline.schemas.problem import INTERNAL
from plumbline.schemas.report import ReferenceMeans

K = TypeVar("K")


class RunCounts:
    """Counts and means of the written rows.

    Attributes:
        rows_before: rows of earlier parts of the run; `rows_now` are of this part.
        unreachable: rows whose tier cannot reach their threshold.
        share: finished share of the file, in [0, 1], None if unknown; `share_before` at the start of this part.
    """

    def __init__(self) -> None:
        self._tally = RowTally()
        # Sum and number, by tier and by score of a reference
        self._faithfulness: dict[str | None, tuple[float, int]] = {}
        self._references: dict[str, tuple[float, int]] = {}
        self._started = time.monotonic()
        self.rows_before = self.rows_now = self.unreachable = 0
        self.share: float | None = None
        self.share_before = 0.0

    def add(self, row: ResultRow) -> None:
        self._tally.add(outcome_of(row))
        if (result := row.result) is None:
            return
        self.unreachable += "threshold_unreachable" in result.flags
        _add_to_mean(self._faithfulness, result.tier, result.faithfulness)
        for name in ReferenceMeans.model_fields:
            _add_to_mean(self._references, name, result.score(name))

    def start_part(self, share: float | None) -> None:
        """Begin the part of this process; `share` of the file is done before it."""
        self._started = time.monotonic()
        self.share_before, self.share = share or 0.0, share

    def summary(self) -> BatchSummary:
        return self._tally.summary()

    def means(self) -> dict[str, float]:
        """Return the mean faithfulness by tier, over the judged rows."""
        # Rows that needed no tier count for the most frequent one, as in a report
        sums = {tier: each for tier, each in self._faithfulness.items() if tier is not None}
        if (untiered := self._faithfulness.get(None)) is not None:
            largest = max(sums, key=lambda tier: sums[tier][1], default="none")
            total, rows = sums.get(largest, (0.0, 0))
            sums[largest] = total + untiered[0], rows + untiered[1]
        return {tier: total / rows for tier, (total, rows) in sums.items()}

    def reference_means(self) -> dict[str, float]:
        """Return the means of the scores that compare with a reference, over the rows with one."""
        return {name: total / rows for name, (total, rows) in self._references.items()}

    @property
    def seconds(self) -> float:
        """Return the seconds of this part."""
        return time.monotonic() - self._started

    @property
    def rate(self) -> float:
        """Return the rows a second of this part."""
        return self.rows_now / self.seconds if self.seconds > 0 else 0.0

    @property
    def eta_seconds(self) -> float | None:
        """Return the seconds left at the rate of this part; None if unknown."""
        if self.share is None or self.share <= self.share_before:
            return None
        return (1.0 - self.share) * self.seconds / (self.share - self.share_before)


def outcome_of(row: ResultRow) -> ScoredRow:
    """Return the counted outcome of a row of results, with an empty `line`."""
    result, error = row.result, row.error
    if result is None:
        is_ours = error is not None and error.status >= INTERNAL.status
        return failed_row(row.row, b"", RowStatus.FAILED if is_ours else RowStatus.INVALID)
    usage = Usage(**{name: getattr(result.trace.usage, name) for name in result.trace.usage.__struct_fields__})
    is_degraded = "degraded" in result.flags
    return ScoredRow(row.row, b"", RowStatus(result.status), result.tier, is_degraded, usage, passed=result.passed)


def _add_to_mean(sums: dict[K, tuple[float, int]], key: K, value: float | None) -> None:
    if value is not None:
        total, rows = sums.get(key, (0.0, 0))
        sums[key] = total + value, rows + 1
