"""Marks of a quality-latency plot and their places: milliseconds on a logarithmic scale, a measure on a linear one."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from plumbline.extras.lab.results import RECALLS, System
from plumbline.retrieval.tables import label

WIDTH: Final = 460
HEIGHT: Final = 280
_LEFT, _RIGHT, _TOP, _BOTTOM = 46.0, 16.0, 14.0, 34.0
# Room around the outermost marks, as a share of their spread.
_MARGIN: Final = 0.08
_MOST_TICKS: Final = 6
# From a mark to its label: right, left, above, below, the corners; then the same further away.
_NEAR: Final = ((13.0, 0.0), (-13.0, 0.0), (0.0, -14.0), (0.0, 14.0), (10, -10), (-10, -10), (10, 10), (-10, 10))
_SIDES: Final = tuple((times * x, times * y) for times in (1, 2, 3) for x, y in _NEAR)
_LABEL_WIDTH: Final = 13.0
_LABEL_HEIGHT: Final = 12.0


@dataclass(frozen=True, slots=True)
class Mark:
    """One system: the middle of its mark and of its label, the ends of its interval (y), and what is said of it."""

    label: str
    name: str
    x: float
    y: float
    label_x: float
    label_y: float
    low_y: float
    high_y: float
    milliseconds: float
    value: float
    is_blend: bool


@dataclass(frozen=True, slots=True)
class Tick:
    """A line of the grid at `at`, and the number that stands there."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Curve:
    """Interpolated precision of one system at each recall: points, the middle of its label, and what is said of it."""

    label: str
    name: str
    points: tuple[tuple[float, float], ...]
    is_best: bool


@dataclass(frozen=True, slots=True)
class Plot:
    """One plot, in units of its drawing: marks of a measure, or curves of precision by recall.

    frontier: points of the line through the systems that none beats in both.
    """

    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    measure: str = ""
    marks: tuple[Mark, ...] = ()
    frontier: tuple[tuple[float, float], ...] = ()
    curves: tuple[Curve, ...] = ()


def plot_curves(systems: Sequence[System], highlighted: Collection[str]) -> Plot | None:
    """Plot the precision-recall curves; None when no system has one. `highlighted`: systems by name, drawn last."""
    x, y = _Scale(0.0, 1.0, _LEFT, WIDTH - _RIGHT), _Scale(0.0, 1.0, HEIGHT - _BOTTOM, _TOP)
    curves = [
        Curve(
            label(place),
            system.name,
            tuple((x.at(recall), y.at(each)) for recall, each in zip(RECALLS, system.precision_at_recall, strict=True)),
            system.name in highlighted,
        )
        for place, system in enumerate(systems)
        if system.precision_at_recall
    ]
    if not curves:
        return None
    x_ticks, y_ticks = (tuple(Tick(scale.at(step / 5), f"{step / 5:g}") for step in range(6)) for scale in (x, y))
    return Plot(x_ticks, y_ticks, curves=tuple(sorted(curves, key=lambda curve: curve.is_best)))


def plot(systems: Sequence[System], measure: str) -> Plot | None:
    """Plot one measure against the median latency; None when no system has both."""
    seen = [
        (label(place), system, system.latency.p50, mean, system.measures[measure].ci95 or (mean, mean))
        for place, system in enumerate(systems)
        for mean in [system.measures[measure].mean]
        if system.latency is not None and system.latency.p50 > 0 and mean is not None
    ]
    if not seen:
        return None
    x = _Scale.over([math.log10(each[2]) for each in seen], _LEFT, WIDTH - _RIGHT, least_spread=0.3)
    bounds = [bound for each in seen for bound in (each[3], *each[4])]
    y = _Scale.over(bounds, HEIGHT - _BOTTOM, _TOP, least_spread=0.02)
    points = [(x.at(math.log10(latency)), y.at(mean)) for _, _, latency, mean, _ in seen]
    marks = tuple(
        Mark(
            *(letters, system.name, *point, *beside, y.at(low), y.at(high), latency, mean),
            is_blend=bool(system.parts),
        )
        for (letters, system, latency, mean, (low, high)), point, beside in zip(
            seen, points, _label_places(points), strict=True
        )
    )
    return Plot(_latency_ticks(x), _value_ticks(y), measure, marks, _frontier(marks))


def _label_places(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the middle of each label: right of its mark, or the first other side on which nothing stands yet."""
    places: list[tuple[float, float]] = []
    for x, y in points:
        sides = [(x + right, y + down) for right, down in _SIDES]
        taken = [point for point in points if point != (x, y)] + places
        free = (
            (left, top)
            for left, top in sides
            if _LEFT < left < WIDTH
            and 0 < top < HEIGHT - _BOTTOM
            and not any(abs(left - x2) < _LABEL_WIDTH and abs(top - y2) < _LABEL_HEIGHT for x2, y2 in taken)
        )
        places.append(next(free, sides[0]))
    return places


@dataclass(frozen=True, slots=True)
class _Scale:
    low: float
    high: float
    start: float
    end: float

    @classmethod
    def over(cls, values: Sequence[float], start: float, end: float, *, least_spread: float) -> "_Scale":
        middle, spread = (min(values) + max(values)) / 2, max(max(values) - min(values), least_spread)
        half = spread * (0.5 + _MARGIN)
        return cls(middle - half, middle + half, start, end)

    def at(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 2)


def _latency_ticks(scale: _Scale) -> tuple[Tick, ...]:
    first, last = math.floor(scale.low), math.ceil(scale.high)
    every = [step * 10.0**power for power in range(first, last + 1) for step in (1, 2, 5)]
    inside = [value for value in every if scale.low <= math.log10(value) <= scale.high]
    tens = [value for value in inside if math.log10(value).is_integer()]
    chosen = inside if len(inside) <= _MOST_TICKS else tens
    return tuple(Tick(scale.at(math.log10(value)), f"{value:g}") for value in chosen)


def _value_ticks(scale: _Scale) -> tuple[Tick, ...]:
    power = 10.0 ** math.floor(math.log10((scale.high - scale.low) / _MOST_TICKS))
    step = next(power * each for each in (1, 2, 5, 10) if (scale.high - scale.low) / (power * each) <= _MOST_TICKS)
    first, last = math.ceil(scale.low / step), math.floor(scale.high / step)
    return tuple(Tick(scale.at(place * step), f"{place * step:.4g}") for place in range(first, last + 1))


def _frontier(marks: Sequence[Mark]) -> tuple[tuple[float, float], ...]:
    best, points = -math.inf, []
    for mark in sorted(marks, key=lambda each: (each.milliseconds, -each.value)):
        if mark.value > best:
            best = mark.value
            points.append((mark.x, mark.y))
    return tuple(points)
