"""Settings of one judge: address, key, model, extra headers and fields of its requests, prices."""

import json
import re
from collections.abc import Mapping
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, Field, JsonValue, SecretStr, model_validator
from pydantic_core import PydanticCustomError

_Vendor = Literal["dashscope", "dashscope-intl", "openai", "deepseek", "gemini", "moonshot", "zhipu", "siliconflow"]
ProviderName = Literal[_Vendor, "openrouter", "azure", "vllm", "llamacpp", "sglang", "ollama", "litellm", "generic"]
# What a judge is asked with: a chat completion, OpenAI's decisions, or System One's.
JudgeKind = Literal["chat", "decisions", "systemone"]
# fmt: off
EmbeddingProviderName = Literal[
    "local", "dashscope", "dashscope-intl", "openai", "azure", "vllm", "llamacpp", "ollama", "tei", "generic",
    "local+dashscope", "local+dashscope-intl", "local+openai",
]
# fmt: on
DEFAULT_JUDGE: Final = "default"
_JUDGE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
# They frame the message, or belong to one call.
_OUR_HEADERS: Final = frozenset(
    {"host", "content-length", "content-type", "transfer-encoding", "connection", "accept-encoding", "traceparent"}
    | {"expect", "te", "trailer", "upgrade"}
)
_OUR_FIELDS: Final = frozenset({"model", "messages", "response_format", "stream", "n", "input", "state", "questions"})


def from_json(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise PydanticCustomError("not_json", "expected JSON") from None


def _sendable(headers: Mapping[str, SecretStr]) -> Mapping[str, SecretStr]:
    for name, value in headers.items():
        text = value.get_secret_value()
        if not _HEADER_NAME.fullmatch(name) or not (text.isascii() and text.isprintable()):
            raise PydanticCustomError("header", "a name or value is none that an HTTP header can carry")
        if name.lower() in _OUR_HEADERS:
            raise PydanticCustomError("our_header", f"{name.lower()} is the service's own")
    return headers


def _not_ours(fields: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    if taken := sorted(_OUR_FIELDS & fields.keys()):
        raise PydanticCustomError("our_field", f"{taken[0]} is the service's own")
    return fields


ExtraHeaders = Annotated[Mapping[str, SecretStr], AfterValidator(_sendable)]
ExtraBody = Annotated[Mapping[str, JsonValue], AfterValidator(_not_ours)]


class LlmEndpoint(BaseModel, frozen=True, extra="forbid"):
    """One address of a judge; what is left out is the provider's own, where it has one."""

    provider: ProviderName
    base_url: str | None = None
    api_key: SecretStr | None = None
    model: str | None = None
    api: JudgeKind | None = None
    context_tokens: int | None = Field(default=None, ge=1_024)
    extra_headers: ExtraHeaders = Field(default_factory=dict)
    extra_body: ExtraBody = Field(default_factory=dict)


class ModelPrice(BaseModel, frozen=True, extra="forbid"):
    """Price of a million tokens, in any one currency; cached ones cost as much as others by default."""

    input: float = Field(ge=0, allow_inf_nan=False)
    output: float = Field(ge=0, allow_inf_nan=False)
    cached: float | None = Field(default=None, ge=0, allow_inf_nan=False)


class DecisionBounds(BaseModel, frozen=True, extra="forbid"):
    """Support up to which a sentence fails, and from which it passes, by a decision model alone.

    `share`: of the rows on which they were chosen, those left undecided; None where that is not known.
    """

    fails: float = Field(ge=0, le=1)
    passes: float = Field(ge=0, le=1)
    share: float | None = Field(default=None, ge=0, le=1)

    @model_validator(mode="after")
    def _ascends(self) -> Self:
        if self.fails > self.passes:
            raise PydanticCustomError("not_ascending", "`passes` must not be below `fails`")
        return self


def with_judge_names(
    judges: Mapping[str, tuple[LlmEndpoint, ...]] | None,
) -> Mapping[str, tuple[LlmEndpoint, ...]] | None:
    """Return the judges; raise for a name that none may have, or one without an endpoint."""
    for name, endpoints in (judges or {}).items():
        if name == DEFAULT_JUDGE or not _JUDGE_NAME.fullmatch(name):
            raise PydanticCustomError(
                "judge_name", f"a judge's name has letters, digits and ._- and is not {DEFAULT_JUDGE!r}"
            )
        if not endpoints:
            raise PydanticCustomError("no_endpoint", "a judge needs one endpoint or more")
    return judges
