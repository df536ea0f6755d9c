"""What a judge is set by: its addresses and its prices, as they stand in the JSON of settings."""

import json
import re
from collections.abc import Mapping
from typing import Final, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr
from pydantic_core import PydanticCustomError

ProviderName = Literal["dashscope", "dashscope-intl", "openai", "azure", "vllm", "llamacpp", "ollama", "generic"]
DEFAULT_JUDGE: Final = "default"
_JUDGE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class LlmEndpoint(BaseModel):
    """One address of a chat model; what is left out is the provider's own, where it has one."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    provider: ProviderName
    base_url: str | None = None
    api_key: SecretStr | None = None
    model: str | None = None
    context_tokens: int | None = Field(default=None, ge=1_024)


class ModelPrice(BaseModel):
    """What a million tokens cost, in any one currency; cached ones cost as much as others unless told."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    input: float = Field(ge=0, allow_inf_nan=False)
    output: float = Field(ge=0, allow_inf_nan=False)
    cached: float | None = Field(default=None, ge=0, allow_inf_nan=False)


def _from_json(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise PydanticCustomError("not_json", "expected JSON") from None


def _with_names(
    judges: Mapping[str, tuple[LlmEndpoint, ...]] | None,
) -> Mapping[str, tuple[LlmEndpoint, ...]] | None:
    for name, endpoints in (judges or {}).items():
        if name == DEFAULT_JUDGE or not _JUDGE_NAME.fullmatch(name):
            raise PydanticCustomError(
                "judge_name", f"a judge's name has letters, digits and ._- and is not {DEFAULT_JUDGE!r}"
            )
        if not endpoints:
            raise PydanticCustomError("no_endpoint", "a judge needs one endpoint or more")
    return judges


FROM_JSON: Final = BeforeValidator(_from_json)
WITH_NAMES: Final = AfterValidator(_with_names)
