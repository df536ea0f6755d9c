"""Health, readiness and version on the wire."""

from typing import Literal

from pydantic import Field

from plumbline.schemas.result_parts import TierName
from plumbline.schemas.wire import WireModel

_DETAIL = "Empty for callers from other machines without a key of the scope `admin`."


class Health(WireModel):
    """The process answers."""

    status: Literal["ok"] = "ok"


class Readiness(WireModel):
    """Readiness of one part: `idle` loads what it needs when first asked."""

    state: Literal["ready", "idle", "loading", "unavailable"]
    detail: str = Field(description=_DETAIL)


class ReadinessReport(WireModel):
    """Readiness for traffic. An unavailable tier does not make the service unready: the next tier answers."""

    status: Literal["ready", "loading"]
    first_tier: TierName = Field(description="The tier that the next sample goes to first.")
    tiers: dict[TierName, Readiness]
    jobs: Readiness | None = Field(
        description="What keeps jobs; null where it says nothing of itself. One that is unavailable is waited for, and "
        "does not make the service unready: single evaluations need none."
    )


class VersionReport(WireModel):
    """Version of the service, and everything that changes scores."""

    name: str
    version: str
    prompts: dict[str, str] = Field(description="Prompt by name, version and language, with its SHA-256.")
    calibrations: list[str] = Field(description="Calibrated tier, model and language, with the data's name.")
