"""Conversations on the wire: chat messages in place of question, contexts and answer."""

from typing import Any, Literal

from pydantic import Field

from plumbline.schemas.evaluation import ContextValue, EvaluationOptions, NamedSample
from plumbline.schemas.wire import WireModel


class ConversationTexts(WireModel, strict=True):
    """The texts of a conversation, in place of question, contexts and answer."""

    messages: list[dict[str, Any]] = Field(
        min_length=1,
        max_length=2_000,
        description="Chat messages with their tool calls and results, as OpenAI, Anthropic or LangChain write them. "
        "Each message of the assistant is judged by what tools returned before it, and by the `contexts` of the "
        "messages so far: a list as of a sample, in any message.",
    )
    contexts: list[ContextValue] = Field(
        default=[], description="Passages known from the beginning, evidence for every turn."
    )
    evidence_roles: list[Literal["user", "system"]] = Field(
        default=[], description="`user`, `system`: what they say is evidence for what follows. Default: it is none."
    )
    turn_contexts: Literal["so_far", "this_turn"] = Field(
        default="so_far",
        description="`so_far`: all that was returned before an answer is evidence for it. `this_turn`: what came after "
        "the user's last message.",
    )
    reference: str | None = Field(default=None, description="A correct last answer.")


class ConversationRequest(EvaluationOptions, ConversationTexts, NamedSample):
    """A conversation to judge, turn by turn. Only messages are needed."""


def is_conversation(value: object) -> bool:
    return isinstance(value, ConversationTexts) or (isinstance(value, dict) and "messages" in value)
