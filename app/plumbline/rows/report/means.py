"""Means of any number of values in memory that has a bound, each with a seeded bootstrap interval."""

import math
from collections.abc import Iterable
from typing import Final, Self

import numpy as np

from plumbline.schemas.report import LEVEL, ScoreMean

# A value is taken as the mean of its part: what that hides of the spread is at most a thousandth of the scale.
PARTS: Final = 1_000
RESAMPLES: Final = 2_000
SEED: Final = 0
_ROWS_AT_ONCE: Final = 250
_FEWEST: Final = 2

METHOD: Final = (
    f"percentile bootstrap of the mean, {LEVEL:.0%}, {RESAMPLES:,} resamples, seed {SEED}; rows are drawn with "
    f"replacement from their histogram of {PARTS:,} parts, each part at the mean of its values"
)


class MeanTally:
    """Counts and sums of values in `[low, low + width]`, by 1,000 equal parts."""

    def __init__(self, *, low: float = 0.0, width: float = 1.0) -> None:
        self._low = low
        self._width = width
        self._scale = PARTS / width
        self._counts = [0] * (PARTS + 1)
        self._sums = [0.0] * (PARTS + 1)

    def add(self, value: float) -> None:
        """Counts a value."""
        part = int((value - self._low) * self._scale)
        self._counts[part] += 1
        self._sums[part] += value

    @classmethod
    def merged(cls, tallies: Iterable["MeanTally"]) -> Self:
        """All values of tallies over one range together."""
        merged = cls()
        for tally in tallies:
            merged._low, merged._width = tally._low, tally._width
            merged._counts = [a + b for a, b in zip(merged._counts, tally._counts, strict=True)]
            merged._sums = [a + b for a, b in zip(merged._sums, tally._sums, strict=True)]
        return merged

    def mean(self) -> ScoreMean:
        """The mean and its interval."""
        rows = sum(self._counts)
        if not rows:
            return ScoreMean(mean=None, low=None, high=None, rows=0)
        mean = self._inside(math.fsum(self._sums) / rows)
        low, high = self._interval(rows) if rows >= _FEWEST else (None, None)
        return ScoreMean(mean=mean, low=low, high=high, rows=rows)

    def _interval(self, rows: int) -> tuple[float, float]:
        """Percentile interval after Efron & Tibshirani 1993, chapter 13.

        Drawing n rows with replacement is one draw of a multinomial over their values: its cost does not grow with n.
        """
        counts = np.array(self._counts)
        filled = counts > 0
        counts, sums = counts[filled], np.array(self._sums)[filled]
        rng = np.random.default_rng(SEED)
        values = sums / counts
        means = np.concatenate(
            [
                rng.multinomial(rows, counts / rows, size=_ROWS_AT_ONCE) @ values / rows
                for _ in range(RESAMPLES // _ROWS_AT_ONCE)
            ]
        )
        low, high = np.quantile(means, [(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0])
        # Rounding of a mean of equal values could put it outside of them.
        return self._inside(float(np.clip(low, values.min(), None))), self._inside(
            float(np.clip(high, None, values.max()))
        )

    def _inside(self, value: float) -> float:
        return min(max(value, self._low), self._low + self._width)


def complement(mean: ScoreMean) -> ScoreMean:
    """The mean of `1 - value`, with its interval."""
    if mean.mean is None:
        return mean
    low = None if mean.high is None else 1.0 - mean.high
    high = None if mean.low is None else 1.0 - mean.low
    return ScoreMean(mean=1.0 - mean.mean, low=low, high=high, rows=mean.rows)
