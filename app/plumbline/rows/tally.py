"""What became of the rows of a batch, counted while they are scored."""

import time
from collections import Counter
from dataclasses import fields

from plumbline.judging.ports.exchange import Usage
from plumbline.rows.scored_row import RowStatus, ScoredRow
from plumbline.schemas.batch import BatchSummary, TierCounts
from plumbline.schemas.evaluation import UsageItem


class Tally:
    """Counts; its clock starts when it is made."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._statuses: Counter[RowStatus] = Counter()
        self._tiers: Counter[str] = Counter()
        self._degraded = 0
        self._usage = Usage()

    def add(self, row: ScoredRow) -> None:
        """Counts a row."""
        self._statuses[row.status] += 1
        if row.tier is not None:
            self._tiers[row.tier] += 1
        self._degraded += row.is_degraded
        self._usage = self._usage + row.usage

    def summary(self) -> BatchSummary:
        """Everything counted up to now."""
        return BatchSummary(
            rows=self._statuses.total(),
            judged=self._statuses[RowStatus.JUDGED],
            abstained=self._statuses[RowStatus.ABSTAINED],
            empty_answer=self._statuses[RowStatus.EMPTY_ANSWER],
            not_judged=self._statuses[RowStatus.NOT_JUDGED],
            errors=self._statuses[RowStatus.INVALID] + self._statuses[RowStatus.FAILED],
            tiers=TierCounts(**self._tiers),
            degraded=self._degraded,
            usage=UsageItem(**{each.name: getattr(self._usage, each.name) for each in fields(Usage)}),
            seconds=round(time.monotonic() - self._started, 3),
        )
