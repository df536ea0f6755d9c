"""The growth of CPU seconds as a picture: lines on logarithmic axes, SVG that follows light and dark, no script."""

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Final

from plumbline.rows.report.page import percent_of_scale

_WIDTH: Final = 900
_HEIGHT: Final = 320
_LEFT, _TOP, _PANEL, _GAP, _DEPTH = 58, 40, 220, 66, 220
_LEGEND: Final = 110
# The colours of the report's page.
_STYLE: Final = """
  text { font: 12px system-ui, sans-serif; fill: #566070 }
  .title { font-weight: 600; fill: #171b21 }
  .grid { stroke: #dfe3e9 } .linear { stroke: #98a2b0; stroke-dasharray: 3 4 }
  .line { fill: none; stroke-width: 2.5 }
  .lexical { stroke: #2f9e5b; fill: #2f9e5b } .embedding { stroke: #1b5fc1; fill: #1b5fc1 }
  .llm { stroke: #8261cf; fill: #8261cf }
  text.lexical, text.embedding, text.llm { stroke: none; font-weight: 600 }
  .line.lexical, .line.embedding, .line.llm { fill: none }
  @media (prefers-color-scheme: dark) {
    text { fill: #a3adbb } .title { fill: #e8ebf0 } .grid { stroke: #2b323d } .linear { stroke: #6b7685 }
    .lexical { stroke: #3fae6b; fill: #3fae6b } .embedding { stroke: #86b3ff; fill: #86b3ff }
    .llm { stroke: #9578e0; fill: #9578e0 }
  }
"""


def plot(seconds: Mapping[str, Mapping[str, Sequence[float]]], factors: Sequence[int]) -> str:
    """A panel for each axis with a line for each tier, and dotted what linear growth from its first point would be.

    Args:
        seconds: positive, one for each factor, by tier and axis.
        factors: ascending, the first is 1.
    """
    scale = Scale(factors, [each for axes in seconds.values() for line in axes.values() for each in line])
    marks = [
        mark
        for number, axis in enumerate(next(iter(seconds.values())))
        for mark in _panel(number, axis, {tier: each[axis] for tier, each in seconds.items()}, scale)
    ]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">'
    title = "<title>CPU seconds of a sample by its size, tier by tier, on logarithmic axes</title>"
    foot = [*_legend(list(seconds)), _text(_WIDTH - 24, _HEIGHT - 12, "times the text; dotted: linear", anchor="end")]
    return "\n".join([head, title, f"<style>{_STYLE}</style>", *marks, *foot, "</svg>", ""])


def _legend(tiers: Sequence[str]) -> Iterator[str]:
    for number, tier in enumerate(map(escape, tiers)):
        x = _LEFT + _LEGEND * number
        yield f'<circle class="{tier}" cx="{x}" cy="{_HEIGHT - 16}" r="4"/>'
        yield _text(x + 10, _HEIGHT - 12, tier, name=tier)


class Scale:
    """Where factors and seconds stand in a panel, in the drawing's units."""

    def __init__(self, factors: Sequence[int], seconds: Sequence[float]) -> None:
        self.factors = factors
        self.low, self.high = math.floor(math.log10(min(seconds))), math.ceil(math.log10(max(seconds)))

    def x(self, factor: float) -> float:
        """From the panel's left side."""
        return _PANEL * percent_of_scale(math.log(factor), 0.0, math.log(self.factors[-1])) / 100

    def y(self, seconds: float) -> float:
        """From the top of the drawing."""
        return _TOP + _DEPTH * (1 - percent_of_scale(math.log10(seconds), self.low, self.high - self.low) / 100)


def _panel(number: int, axis: str, lines: Mapping[str, Sequence[float]], scale: Scale) -> Iterator[str]:
    left = _LEFT + number * (_PANEL + _GAP)
    yield _text(left + _PANEL / 2, _TOP - 16, axis, name="title", anchor="middle")
    for power in range(scale.low, scale.high + 1):
        y = scale.y(10.0**power)
        yield _line(left, y, left + _PANEL, y, "grid")
        yield _text(left - 6, y + 4, _seconds(power), anchor="end")
    for factor in scale.factors:
        x = left + scale.x(factor)
        yield _line(x, _TOP, x, _TOP + _DEPTH, "grid")
        yield _text(x, _TOP + _DEPTH + 18, f"{factor}x", anchor="middle")
    for tier, seconds in lines.items():
        yield from _curve(left, escape(tier), seconds, scale)


def _curve(left: float, tier: str, seconds: Sequence[float], scale: Scale) -> Iterator[str]:
    points = [(left + scale.x(factor), scale.y(each)) for factor, each in zip(scale.factors, seconds, strict=True)]
    # As far as the panel goes.
    reached = min(float(scale.factors[-1]), 10.0**scale.high / seconds[0])
    yield _line(*points[0], left + scale.x(reached), scale.y(seconds[0] * reached), "linear")
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    yield f'<polyline class="line {tier}" points="{path}"/>'
    yield from (f'<circle class="{tier}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>' for x, y in points)


def _seconds(power: int) -> str:
    return f"{10**power} s" if power >= 0 else f"{10.0 ** (power + 3):g} ms"


def _line(x1: float, y1: float, x2: float, y2: float, name: str) -> str:
    return f'<line class="{name}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, text: str, *, name: str = "", anchor: str = "start") -> str:
    return f'<text class="{name}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
