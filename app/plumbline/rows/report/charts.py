"""Where the marks of the page's small charts stand."""

from collections.abc import Sequence
from typing import Final, NamedTuple

_CHART_WIDTH: Final = 360
_BASE: Final = 145
_HEIGHT: Final = 125
_GAP: Final = 2.0
# A bar with rows in it must not vanish beside one with a million.
_LEAST_HEIGHT: Final = 1.5


class Column(NamedTuple):
    """A bar of the histogram, in the units of its drawing; `low` and `high` bound the scores in it."""

    x: float
    y: float
    width: float
    height: float
    low: str
    high: str
    rows: int


class Part(NamedTuple):
    """A part of a stacked bar, in hundredths of its width."""

    name: str
    x: float
    width: float


def columns(histogram: Sequence[int]) -> list[Column]:
    """The bars that are not empty, left to right."""
    step, most = _CHART_WIDTH / len(histogram), max(histogram)
    return [
        Column(
            x=round(place * step + _GAP / 2, 2),
            y=round(_BASE - height, 2),
            width=round(step - _GAP, 2),
            height=round(height, 2),
            low=f"{place / len(histogram):.2f}",
            high=f"{(place + 1) / len(histogram):.2f}",
            rows=count,
        )
        for place, count in enumerate(histogram)
        if count
        for height in [max(_LEAST_HEIGHT, _HEIGHT * count / most)]
    ]


def parts(counts: Sequence[tuple[str, int]]) -> list[Part]:
    """The parts of a stacked bar in the order given; none where all counts are 0."""
    total = sum(count for _, count in counts)
    found, x = [], 0.0
    for name, count in counts:
        if count:
            width = 100.0 * count / total
            found.append(Part(name, round(x, 3), round(width, 3)))
            x += width
    return found


def place(value: float, low: float, width: float) -> float:
    """Where a value stands between the ends of a scale, in percent."""
    return round(100.0 * (value - low) / width, 2)
