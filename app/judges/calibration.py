"""Calibration: from a tier's raw similarity to support in [0, 1], with parameters fitted on human labels."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic_core import PydanticCustomError

from app.errors import CalibrationError
from app.generation.words import Language
from app.judges.tier import TierName

# Where nothing was fitted: the middle of the range of a cosine or a share, and a slope that reaches .02 and .98 at
# its ends. A convention, not a measurement; results made with it carry the flag `uncalibrated`.
_DEFAULT_MIDPOINT = 0.5
_DEFAULT_SLOPE = 8.0
# Support of a sentence that stands in a context word for word. Not 1: people also reject copies that miss the question.
VERBATIM_SUPPORT = 0.98


class Source(BaseModel):
    """Where the parameters come from."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    data: str
    rows: int = Field(ge=1)
    date: str
    command: str
    auroc: float | None = Field(default=None, ge=0, le=1)


class Calibration(BaseModel):
    """Parameters of one tier, model and language.

    support = gate * 1 / (1 + exp(-slope * (raw - midpoint))): Platt scaling (Platt 1999) of seed 4's sigmoid, and
    a gate that rises from 0 at `floor` to 1 half-way to `midpoint`. `floor` is the similarity that unrelated texts
    reach (95th percentile): labelled answers are all on topic, so that their sigmoid alone gives unrelated text too
    much.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    tier: TierName
    model: str
    language: Language
    midpoint: float = Field(allow_inf_nan=False)
    floor: float = Field(default=0.0, allow_inf_nan=False)
    slope: float = Field(gt=0, allow_inf_nan=False)
    reliability: tuple[tuple[float, float], ...] = ()
    source: Source | None = None

    @field_validator("reliability")
    @classmethod
    def _reliability_is_a_curve(cls, points: tuple[tuple[float, float], ...]) -> tuple[tuple[float, float], ...]:
        if not all(0 <= share <= 1 for _, share in points):
            raise PydanticCustomError("not_shares", "the second number of each pair must be in [0, 1]")
        if not all(x0 < x1 for (x0, _), (x1, _) in pairwise(points)):
            raise PydanticCustomError("not_ascending", "the first numbers of the pairs must ascend")
        return points

    @property
    def is_fitted(self) -> bool:
        return self.source is not None

    def support(self, raw: float) -> float:
        """Support in [0, 1] of a raw similarity; 0.5 at the midpoint."""
        return self._gate(raw) * sigmoid(self.slope * (raw - self.midpoint))

    def _gate(self, raw: float) -> float:
        open_from = (self.floor + self.midpoint) / 2
        if raw >= open_from:
            return 1.0
        return (raw - self.floor) / (open_from - self.floor) if raw > self.floor else 0.0


class CalibrationFile(BaseModel):
    """The file: a version and its entries."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    version: int = Field(ge=1, le=1)
    entries: tuple[Calibration, ...]


@dataclass(frozen=True, slots=True)
class CalibrationTable:
    """All calibrations that a process knows."""

    entries: Sequence[Calibration]

    def find(self, *, tier: TierName, model: str, language: Language) -> Calibration:
        """The fitted entry, or documented defaults with `is_fitted` False."""
        for entry in self.entries:
            if (entry.tier, entry.model, entry.language) == (tier, model, language):
                return entry
        return Calibration(tier=tier, model=model, language=language, midpoint=_DEFAULT_MIDPOINT, slope=_DEFAULT_SLOPE)


def load_calibrations(path: Path | None) -> CalibrationTable:
    """The table of a file, or the built-in one.

    Raises:
        CalibrationError: the file cannot be read, or an entry is malformed; the message names file and field.
    """
    name = str(path) if path else "built-in calibration"
    try:
        raw = path.read_bytes() if path else files("app.judges").joinpath("calibration.json").read_bytes()
        return CalibrationTable(CalibrationFile.model_validate_json(raw).entries)
    except OSError as error:
        raise CalibrationError(f"{name}: cannot be read ({error.strerror})") from error
    except ValidationError as error:
        raise CalibrationError(f"{name}: {_first_problem(error)}") from error


def sigmoid(x: float) -> float:
    """The logistic function, without overflow for large |x|."""
    if x >= 0:
        return 1.0 / (1.0 + math.exp(-x))
    power = math.exp(x)
    return power / (1.0 + power)


def _first_problem(error: ValidationError) -> str:
    first: Any = error.errors(include_input=False, include_url=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    return f"{place}: {first['msg']}" if place else str(first["msg"])
