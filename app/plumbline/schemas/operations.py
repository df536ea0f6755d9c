"""What the service says of itself."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from plumbline.schemas.evaluation import TierName


class Health(BaseModel):
    """The process answers."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    status: Literal["ok"] = "ok"


class TierReadiness(BaseModel):
    """One tier: `idle` loads what it needs when first asked."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    state: Literal["ready", "idle", "loading", "unavailable"]
    detail: str


class StoreReadiness(BaseModel):
    """What keeps jobs."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    state: Literal["ready", "idle", "loading", "unavailable"]
    detail: str


class ReadinessReport(BaseModel):
    """Whether to send traffic here. A tier that is unavailable does not make the service unready: the next answers."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    status: Literal["ready", "loading"]
    first_tier: TierName = Field(description="The tier that the next sample goes to first.")
    tiers: dict[TierName, TierReadiness]
    jobs: StoreReadiness | None = Field(
        description="What keeps jobs; null where it says nothing of itself. One that is unavailable is waited for, and "
        "does not make the service unready: single evaluations need none."
    )


class VersionReport(BaseModel):
    """What answers: the version, and what moves scores."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str
    version: str
    prompts: dict[str, str] = Field(description="Prompt by name, version and language, with its SHA-256.")
    calibrations: list[str] = Field(description="Calibrated tier, model and language, with the data's name.")
