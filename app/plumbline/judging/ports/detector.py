"""One exchange with a detector: passages and claims, and how far the passages support each claim."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Passage:
    """A context, its number, and the characters [start, end) of its sentences, in order."""

    number: int
    text: str
    sentences: Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class DetectorFinding:
    """Finding of a detector for one claim.

    `support` in [0, 1]; `is_denied`: the passages say the opposite. `words`: characters [start, end) of each word of
    the claim's text with its own support, of detectors that mark words.
    """

    support: float
    is_denied: bool = False
    words: Sequence[tuple[int, int, float]] = ()


@dataclass(frozen=True, slots=True)
class DetectorReading:
    """The findings, one for each claim. `cut`: share of the claims' characters that the model could not read."""

    findings: Sequence[DetectorFinding]
    cut: float = 0.0
