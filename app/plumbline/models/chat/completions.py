"""Parsing of chat completions: strict where a verdict depends on it, lenient where only a count does."""

import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import AliasPath, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from plumbline.ground.errors import FailureReason
from plumbline.judging.ports.exchange import ChatReply
from plumbline.models.chat.call_failures import CallFailure, embedded_failure, shown
from plumbline.models.chat.endpoints import Endpoint

# Tags that templates of open models use: DeepSeek, Qwen and most others; Seed-OSS; Magistral.
_THOUGHT = re.compile(
    r"\s*(?:<(?P<tag>think|thinking|thought|reasoning|seed:think)>.*?(?:</(?P=tag)>|\Z)|\[think\].*?(?:\[/think\]|\Z))\s*",
    re.IGNORECASE | re.DOTALL,
)
# OpenAI's harmony form, where the server did not read it: channels, of which `final` is the reply.
_HARMONY_STARTS = ("<|channel|>", "<|start|>")
_HARMONY_FINAL = re.compile(r"<\|channel\|>final[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>")
_HARMONY_END = re.compile(r"<\|(?:end|return)\|>")
_STARTS_OF_A_REPLY = ("{", "[{", "```")


_BOM = "\ufeff"


def without_thinking(content: str) -> str:
    """Remove the model's reasoning from a reply; empty if there is nothing else.

    A closing tag without an opening one ends a thought that the server's template opened; but a text that starts as a
    reply is one, and keeps what it quotes.
    """
    text = content.strip().removeprefix(_BOM).lstrip()
    if text.startswith(_HARMONY_STARTS):
        return _final_channel(text)
    start = 0
    while thought := _THOUGHT.match(text, start):
        start = thought.end()
    text = text[start:]
    if not text.startswith(_STARTS_OF_A_REPLY):
        before, closing, after = text.partition("</think>")
        if closing and before:
            return after.strip()
    return text


def _final_channel(text: str) -> str:
    found = _HARMONY_FINAL.search(text)
    return _HARMONY_END.split(text[found.end() :], maxsplit=1)[0].strip() if found else ""


# No model reads or writes more in one call; a count beyond is a fault of the server.
_MOST_TOKENS = 100_000_000


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Token counts of the provider; None if missing or implausible."""

    prompt: int | None = None
    completion: int | None = None
    cached: int | None = None

    @property
    def is_known(self) -> bool:
        return self.prompt is not None or self.completion is not None


def _joined_parts(value: object) -> object:
    """Return the text of a content in parts; thoughts are parts of their own."""
    if not isinstance(value, list) or not all(isinstance(part, dict) for part in value):
        return value
    return "".join(part["text"] for part in value if isinstance(part.get("text"), str))


class _Message(BaseModel):
    content: Annotated[str | None, BeforeValidator(_joined_parts)] = None
    refusal: str | None = None


class _Choice(BaseModel):
    message: _Message | None = None
    finish_reason: str | None = None
    error: object = None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS else None


def object_or_none(value: object) -> object:
    return value if isinstance(value, dict) else None


def _text_or_none(value: object) -> object:
    return value if isinstance(value, str) else None


# A count that is none is unknown; a verdict is not lost for it.
_Count = Annotated[int | None, BeforeValidator(_count)]


class ReportedUsage(BaseModel):
    """The `usage` field of a reply."""

    prompt_tokens: _Count = None
    completion_tokens: _Count = None
    cached_tokens: _Count = Field(None, validation_alias=AliasPath("prompt_tokens_details", "cached_tokens"))

    @property
    def tokens(self) -> TokenCounts:
        return TokenCounts(self.prompt_tokens, self.completion_tokens, self.cached_tokens)


class Completion(BaseModel):
    """The fields that we read of a chat completion."""

    model_config = ConfigDict(extra="ignore")
    choices: list[_Choice] | None = None
    model: Annotated[str | None, BeforeValidator(_text_or_none)] = None
    usage: Annotated[ReportedUsage | None, BeforeValidator(object_or_none)] = None
    error: object = None

    @property
    def tokens(self) -> TokenCounts:
        return self.usage.tokens if self.usage else TokenCounts()

    @property
    def is_error(self) -> bool:
        """Return True if it is an error sent as a reply, which is not billed."""
        return not self.choices and isinstance(self.error, dict | str) and bool(self.error)

    @property
    def is_truncated(self) -> bool:
        return any(choice.finish_reason == "length" for choice in (self.choices or ())[:1])

    def reply(self, endpoint: Endpoint) -> ChatReply:
        """Return the reply in it; raise CallFailure if it is empty, filtered, refused, or an error."""
        if self.is_error:
            raise embedded_failure(self.error, endpoint)
        if self.choices is None:
            raise _not_a_completion()
        if not self.choices:
            raise CallFailure(FailureReason.EMPTY_REPLY, "the provider's reply has no choices")
        choice = self.choices[0]
        if isinstance(choice.error, dict):
            raise embedded_failure(choice.error, endpoint)
        if choice.message is None:
            raise _not_a_completion()
        if choice.message.refusal:
            raise CallFailure(FailureReason.REFUSED, "the model refused to judge")
        if choice.finish_reason == "content_filter":
            raise CallFailure(FailureReason.CONTENT_FILTERED, "the provider's content filter stopped the reply")
        content = without_thinking(choice.message.content or "")
        if not content:
            cut = ": it was cut before it began" if self.is_truncated else ""
            raise CallFailure(FailureReason.EMPTY_REPLY, f"the model's reply is empty{cut}")
        return ChatReply(content, shown(self.model, endpoint) or endpoint.model, self.is_truncated)


def read_completion(body: bytes) -> Completion:
    """Parse the completion in a reply's body; raise CallFailure if it is none."""
    try:
        return Completion.model_validate_json(body.removeprefix(_BOM.encode()))
    except ValidationError as error:
        raise _not_a_completion() from error


def _not_a_completion() -> CallFailure:
    return CallFailure(FailureReason.INVALID_REPLY, "the provider's reply is not a chat completion")
