"""The turns of a judged conversation on the wire."""

from typing import Literal

from pydantic import Field

from plumbline.schemas.wire import Share, WireModel


class TurnItem(WireModel):
    """A message of the assistant that was judged; its claims are those of its sentences."""

    message: int = Field(ge=0, description="Its position in `messages`, counted from 0.")
    start: int = Field(ge=0, description="Subtract it from `start` and `end` of a sentence for the place in its text.")
    end: int = Field(ge=0)
    sentences: list[int] = Field(description="Indices into `sentences`.")
    contexts: list[int] = Field(description="Indices of the contexts that were evidence for it.")
    status: Literal["judged", "abstained", "empty_answer", "not_judged"]
    tier: Literal["llm", "detector", "embedding", "lexical"] | None
    faithfulness: Share | None
    lowest_support: Share | None
    unsupported_claims: int | None
    passed: bool | None
    confidence: Share | None
    flags: list[str]
    metrics: dict[str, Share | None] | None = Field(
        default=None, exclude_if=lambda value: value is None, description="Values of the metrics asked for."
    )


class ConversationItem(WireModel):
    """The turns of a conversation. Its `faithfulness` is their mean, and it passes if each of them does."""

    lowest_faithfulness: Share | None = Field(description="That of the worst turn.")
    turns: list[TurnItem]
