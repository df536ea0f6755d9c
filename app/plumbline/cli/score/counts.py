"""Counts of the written rows of a run, those of earlier parts included, and the time that this part takes."""

import time

from plumbline.rows.report.building import ReportBuilder
from plumbline.rows.report.result_lines import ResultRow
from plumbline.rows.report.tallies import RowTally


class RunCounts:
    """Report on the written rows as it grows, and the pace of this part of the run.

    Attributes:
        rows_before: rows of earlier parts of the run; `rows_now` are of this part.
        to_retry: rows without a verdict for a reason that may have passed.
        share: finished share of the file, in [0, 1], None if unknown; `share_before` at the start of this part.
    """

    def __init__(self, builder: ReportBuilder) -> None:
        self.builder = builder
        self._started = time.monotonic()
        self.rows_before = self.rows_now = self.to_retry = 0
        self.share: float | None = None
        self.share_before = 0.0

    def add(self, line: bytes, row: ResultRow, *, is_new: bool) -> None:
        """Count a row and its line; one that is not new is of an earlier part."""
        self.builder.add_row(row, size=len(line))
        self.to_retry += row.may_be_retried
        self.rows_now += is_new
        self.rows_before += not is_new

    def start_part(self, share: float | None) -> None:
        """Begin the part of this process; `share` of the file is done before it."""
        self._started = time.monotonic()
        self.share_before, self.share = share or 0.0, share

    @property
    def tally(self) -> RowTally:
        """The counts by status and tier."""
        return self.builder.tally

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
