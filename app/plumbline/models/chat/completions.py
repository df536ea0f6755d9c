"""Parsing of chat completions: strict where a verdict depends on it, lenient where only a count does."""

import json
import re
from typing import Annotated, Any, Final

from pydantic import AliasChoices, AliasPath, BaseModel, BeforeValidator, Field, ValidationError
from pydantic_core import from_json

from plumbline.ground.errors import FailureReason
from plumbline.ground.texts import CodedText
from plumbline.judging.ports.exchange import ChatReply
from plumbline.models.chat.call_failures import CallFailure, embedded_failure, showable_word
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
        final = _HARMONY_FINAL.search(text)
        return _HARMONY_END.split(text[final.end() :], maxsplit=1)[0].strip() if final else ""
    start = 0
    while thought := _THOUGHT.match(text, start):
        start = thought.end()
    text = text[start:]
    if not text.startswith(_STARTS_OF_A_REPLY):
        before, closing, after = text.partition("</think>")
        if closing and before:
            return after.strip()
    return text


# No model reads or writes more in one call; a count beyond is a fault of the server.
_MOST_TOKENS: Final = 100_000_000
_CUT: Final = frozenset({"length", "max_tokens", "model_length", "max_output_tokens"})
_STOPPED_BY_FILTER: Final = frozenset(
    {"content_filter", "safety", "sensitive", "prohibited_content", "recitation", "blocklist", "guardrail_intervened"}
)
# Gateways wrap a completion into these.
WRAPPERS: Final = ("data", "result", "output", "response", "body")
PROBLEM_FIELDS: Final = ("error", "code", "message", "detail", "base_resp", "errors", "status_code", "error_code")
_OBJECT_START: Final = re.compile(r"\{\s*\"")


def read_reply_text(content: str) -> str:
    """Return what a model replied: without its thoughts, and not as a JSON string in place of the JSON."""
    text = without_thinking(content)
    if text.startswith('"') and text.endswith('"'):
        try:
            said = json.loads(text)
        except ValueError:
            return text
        return said.strip() if isinstance(said, str) else text
    return text


def _join_parts(value: object) -> object:
    """Return the text of a content in parts, of which thoughts are their own; an object as the JSON that it was."""
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    if not isinstance(value, list) or not all(isinstance(part, dict) for part in value):
        return value
    return "".join(part["text"] for part in value if isinstance(part.get("text"), str))


# An invalid thought, model or kind of end is none; no verdict is lost for it.
_TextOrNone = Annotated[str | None, BeforeValidator(lambda value: value if isinstance(value, str) else None)]


class _Message(BaseModel):
    content: Annotated[str | None, BeforeValidator(_join_parts)] = None
    refusal: str | None = None
    reasoning_content: _TextOrNone = None
    reasoning: _TextOrNone = None

    @property
    def thoughts(self) -> str:
        return (self.reasoning_content or self.reasoning or "").strip()


class _Choice(BaseModel):
    message: _Message | None = None
    finish_reason: _TextOrNone = None
    error: object = None

    @property
    def end(self) -> str:
        return (self.finish_reason or "").lower()


# An invalid count is unknown; no verdict is lost for it.
_Count = Annotated[
    int | None, BeforeValidator(lambda count: count if type(count) is int and 0 <= count <= _MOST_TOKENS else None)
]


class TokenCounts(BaseModel, frozen=True):
    """The `usage` field of a reply: counts of the provider, None if missing or implausible."""

    prompt: _Count = Field(None, validation_alias=AliasChoices("prompt_tokens", "input_tokens"))
    completion: _Count = Field(None, validation_alias=AliasChoices("completion_tokens", "output_tokens"))
    cached: _Count = Field(
        None,
        validation_alias=AliasChoices(
            AliasPath("prompt_tokens_details", "cached_tokens"), AliasPath("input_tokens_details", "cached_tokens")
        ),
    )
    thoughts: _Count = Field(None, validation_alias=AliasPath("completion_tokens_details", "reasoning_tokens"))

    @property
    def is_known(self) -> bool:
        return self.prompt is not None or self.completion is not None


NO_TOKENS: Final = TokenCounts()


ReportedTokens = Annotated[TokenCounts, BeforeValidator(lambda said: said if isinstance(said, dict) else NO_TOKENS)]


class Completion(BaseModel):
    """The fields that we read of a chat completion; `error` is a problem that came in its place."""

    choices: list[_Choice] | None = None
    model: _TextOrNone = None
    tokens: ReportedTokens = Field(NO_TOKENS, validation_alias="usage")
    error: object = None

    @property
    def is_truncated(self) -> bool:
        return any(choice.end in _CUT for choice in (self.choices or ())[:1])

    def reply(self, endpoint: Endpoint) -> ChatReply:
        """Return the reply in it; raise CallFailure if it is empty, filtered, refused, or an error.

        Some servers take a reply for a thought where the model was kept from thinking: one among thoughts is read, too.
        """
        if not self.choices and self.error:
            raise embedded_failure(self.error, endpoint)
        if self.choices is None:
            raise _not_a_completion()
        if not self.choices:
            raise CallFailure(FailureReason.EMPTY_REPLY, CodedText("reply_without_choices"))
        choice = self.choices[0]
        if choice.error or choice.end == "error":
            raise embedded_failure(choice.error, endpoint)
        if choice.end in _STOPPED_BY_FILTER:
            raise CallFailure(FailureReason.CONTENT_FILTERED, CodedText("reply_filtered"))
        message = choice.message
        if message is None:
            raise _not_a_completion()
        if message.refusal:
            raise CallFailure(FailureReason.REFUSED, CodedText("model_refused"))
        said, is_cut = message.content or "", self.is_truncated
        content = read_reply_text(said)
        if not content and not is_cut and _OBJECT_START.search(message.thoughts):
            content = read_reply_text(message.thoughts)
        if not content:
            reason = FailureReason.TRUNCATED_REPLY if is_cut else FailureReason.EMPTY_REPLY
            raise CallFailure(reason, CodedText("reply_cut_empty") if is_cut else CodedText("reply_empty"))
        model = showable_word(self.model, endpoint) or endpoint.model
        has_thoughts = bool(message.thoughts or self.tokens.thoughts) or len(content) < len(said.strip())
        return ChatReply(content, model, is_cut, has_thoughts)


def read_completion(body: bytes) -> Completion:
    """Parse the completion in a reply's body, also where it came as a stream; raise CallFailure if it is none."""
    text = body.removeprefix(_BOM.encode())
    try:
        loaded = from_json(text)
        loaded = from_json(loaded) if isinstance(loaded, str) else loaded
    except ValueError:
        loaded = _join_chunks(text)
    for name in WRAPPERS if isinstance(loaded, dict) and "choices" not in loaded else ():
        if isinstance(inner := loaded.get(name), dict) and "choices" in inner:
            loaded = inner
    if isinstance(loaded, dict) and isinstance(message := loaded.get("message"), dict) and "choices" not in loaded:
        # Ollama's own API, which some gateways pass on.
        loaded["choices"] = [{"message": message, "finish_reason": loaded.get("done_reason")}]
    is_problem = isinstance(loaded, dict) and any(loaded.get(name) for name in PROBLEM_FIELDS)
    if isinstance(loaded, list) or (is_problem and not loaded.get("choices")):
        return Completion(error=loaded)
    try:
        return Completion.model_validate(loaded)
    except ValidationError as error:
        raise _not_a_completion() from error


def _join_chunks(body: bytes) -> Any:
    """Return the completion whose chunks a body has line by line, as events or bare; None if there are none."""
    message = {"content": "", "reasoning_content": ""}
    joined: dict[str, Any] = {}
    for line in body.splitlines():
        try:
            chunk = from_json(line.removeprefix(b"data:").strip())
        except ValueError:
            continue
        if not isinstance(chunk, dict):
            continue
        if chunk.get("error"):
            return chunk
        choices = chunk.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
        said = choice.get("delta") or choice.get("message") or {}
        for name, texts in (("content", ("content",)), ("reasoning_content", ("reasoning_content", "reasoning"))):
            message[name] += next((said[each] for each in texts if isinstance(said.get(each), str)), "")
        ended = {"finish_reason": choice.get("finish_reason") or joined.get("finish_reason")}
        joined |= {**{name: chunk[name] for name in ("model", "usage") if chunk.get(name)}, **ended}
    return {**joined, "choices": [{"message": message, **joined}]} if joined else None


def _not_a_completion() -> CallFailure:
    return CallFailure(FailureReason.INVALID_REPLY, CodedText("reply_no_completion"))
