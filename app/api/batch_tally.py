"""What became of the samples of a batch, counted while they are answered."""

import time
from collections import Counter
from dataclasses import fields

from app.exchange import Usage
from app.schemas.batch import BatchSummary, TierCounts
from app.schemas.evaluation import UsageItem
from app.scoring import Result, Status


class Tally:
    """Counts; its clock starts when it is made."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._statuses: Counter[Status] = Counter()
        self._tiers: Counter[str] = Counter()
        self._degraded = 0
        self._errors = 0
        self._usage = Usage()

    def add_result(self, result: Result) -> None:
        """Counts a sample that has a result."""
        self._statuses[result.status] += 1
        if result.tier is not None:
            self._tiers[result.tier.value] += 1
        self._degraded += "degraded" in result.flags
        self._usage = _sum(self._usage, result.usage)

    def add_error(self) -> None:
        """Counts a sample that has none."""
        self._errors += 1

    def summary(self) -> BatchSummary:
        """Everything counted up to now."""
        return BatchSummary(
            rows=self._statuses.total() + self._errors,
            judged=self._statuses[Status.JUDGED],
            abstained=self._statuses[Status.ABSTAINED],
            empty_answer=self._statuses[Status.EMPTY_ANSWER],
            not_judged=self._statuses[Status.NOT_JUDGED],
            errors=self._errors,
            tiers=TierCounts(**self._tiers),
            degraded=self._degraded,
            usage=UsageItem(**{each.name: getattr(self._usage, each.name) for each in fields(Usage)}),
            seconds=round(time.monotonic() - self._started, 3),
        )


def _sum(one: Usage, other: Usage) -> Usage:
    return Usage(
        calls=one.calls + other.calls,
        unmetered_calls=one.unmetered_calls + other.unmetered_calls,
        prompt_tokens=one.prompt_tokens + other.prompt_tokens,
        completion_tokens=one.completion_tokens + other.completion_tokens,
        cached_tokens=one.cached_tokens + other.cached_tokens,
        cost=None if one.cost is None or other.cost is None else one.cost + other.cost,
    )
