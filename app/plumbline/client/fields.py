"""The options of a sample as keyword arguments."""

from typing import Literal, TypedDict

from plumbline.schemas.evaluation import TierName


class OptionFields(TypedDict, total=False):
    """The fields of `EvaluationOptions`, none of them needed; a test holds the two to the same names."""

    tiers: list[TierName] | None
    threshold: float | None
    deadline_seconds: float | None
    judges: list[str] | None
    samples: int
    escalation: str | None
    cache: Literal["use", "bypass"]
    max_cost: float | None
    offset_unit: Literal["code_point", "utf16"]
