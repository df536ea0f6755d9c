"""Chat completions: parameters of a request, without fields that its provider refuses, and parsing of the reply.

Parsing is strict where a verdict depends on it, lenient where only a count does.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

from pydantic import AliasPath, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from plumbline.ground.errors import FailureReason
from plumbline.ground.texts import CodedText
from plumbline.judging.ports.exchange import ChatReply, ChatRequest
from plumbline.models.chat.call_failures import CallFailure, contains_any, embedded_failure, showable_word
from plumbline.models.chat.endpoints import Endpoint, Provider, Structure, TokenLimit

_STRUCTURE_WORDS = ("response_format", "json_schema", "json_object", "json mode", "json_mode", "structured output")
_THINKING_WORDS = ("enable_thinking", "chat_template_kwargs", "reasoning_effort", "thinking")
_REFUSAL_WORDS = (
    "unsupported", "not support", "unrecognized", "unrecognised", "unknown", "extra inputs", "extra fields",
    "not permitted", "not allowed", "unexpected", "instead",
)  # fmt: skip
_NAMING_WORDS = (
    *_STRUCTURE_WORDS, *_THINKING_WORDS, *_REFUSAL_WORDS, "temperature", "max_tokens", "max_completion_tokens",
)  # fmt: skip
# "maximum context length is 8192 tokens" (OpenAI, vLLM), "available context size (8192 tokens)" and "n_ctx": 8192
# (llama.cpp), "range of input length should be [1, 30720]" (DashScope), "213462 tokens > 200000 maximum" (Anthropic).
_WINDOW = re.compile(
    r"(?:context (?:length|window|size)(?: is| of)?(?: only)?:? \(?|(?<!\\)\"n_ctx\": "
    r"|input length should be \[\d{1,9}, |\d tokens > )(\d{3,9})(?!\d)"
)
# No judge is of use with less, and a number that small is more likely another one.
_LEAST_WINDOW = 1_024
_LOOSER: Mapping[Structure, Structure] = {"json_schema": "json_object", "json_object": "plain"}
_OTHER_LIMIT: Mapping[TokenLimit, TokenLimit] = {
    "max_tokens": "max_completion_tokens",
    "max_completion_tokens": "max_tokens",
}


@dataclass(frozen=True, slots=True)
class RequestForm:
    """The optional fields that are sent to a provider."""

    structure: Structure
    token_limit: TokenLimit
    is_limit_renamed: bool = False
    sends_temperature: bool = True
    sends_thinking_off: bool = True
    sends_ids: bool = True

    def parameters(self, request: ChatRequest, endpoint: Endpoint) -> dict[str, object]:
        """Build the body of a request; the endpoint's extra fields come last, and null leaves a field out."""
        provider = endpoint.provider
        system = request.system
        if self.structure == "json_object" and not any("json" in text.lower() for text in (system, request.user)):
            # DashScope refuses JSON mode unless a message has the word.
            system += "\n\nReply with one JSON object."
        parameters: dict[str, object] = {
            "model": endpoint.model,
            "messages": [{"role": "system", "content": system}, {"role": "user", "content": request.user}],
            self.token_limit: request.max_output_tokens,
        }
        temperature = request.temperature
        if temperature is None and provider.takes_temperature:
            temperature = 0.0
        if temperature is not None and self.sends_temperature:
            parameters["temperature"] = temperature
        if self.structure == "json_object":
            parameters["response_format"] = {"type": "json_object"}
        elif self.structure == "json_schema":
            schema = _with_ids(request.schema, request.ids if provider.enumerates_ids and self.sends_ids else {})
            named = {"name": request.schema_name, "strict": True, "schema": schema}
            parameters["response_format"] = {"type": "json_schema", "json_schema": named}
        if self.sends_thinking_off:
            parameters |= provider.thinking_off
        parameters |= endpoint.extra_body
        return {name: value for name, value in parameters.items() if value is not None}

    def without_refused_field(self, complaint: str, sent: Mapping[str, object], provider: Provider) -> "RequestForm":
        """Return the form with one field less, or the same if the complaint names none that was sent.

        Args:
            complaint: what the provider wrote of the request, in lower case.
            sent: the body that it refused. A word of its messages teaches nothing: the provider may quote it.
        """
        quoted = str(sent["messages"]).lower()
        complaint = " ".join(word for word in _NAMING_WORDS if word in complaint and word not in quoted)
        if self.sends_thinking_off and provider.thinking_off and contains_any(complaint, _THINKING_WORDS):
            return replace(self, sends_thinking_off=False)
        if self.structure != "plain" and contains_any(complaint, _STRUCTURE_WORDS):
            if self.structure == "json_schema" and provider.enumerates_ids and self.sends_ids:
                return replace(self, sends_ids=False)
            return replace(self, structure=_LOOSER[self.structure])
        if "temperature" in sent and "temperature" in complaint:
            return replace(self, sends_temperature=False)
        other = _OTHER_LIMIT[self.token_limit]
        is_about_limit = (
            not self.is_limit_renamed and self.token_limit in complaint and contains_any(complaint, _REFUSAL_WORDS)
        )
        # The newer name goes only to servers that asked for it.
        if is_about_limit and (other == "max_tokens" or other in complaint):
            return replace(self, token_limit=other, is_limit_renamed=True)
        return self


class LearntForm:
    """The request form that a model accepts, shared by all callers of this model at this address."""

    def __init__(self, provider: Provider) -> None:
        # Window of the model where the provider said that it is smaller than the settings have it.
        self.context_tokens: int | None = None
        self.form = RequestForm(provider.structure, provider.token_limit)
        self._accepted: set[str] = set()

    def accept(self, form: RequestForm, sent: Mapping[str, object], *, refused: Mapping[str, object] | None) -> None:
        """Learn from an answered request of this form and body.

        `refused`: the body with which the call began, if that was refused. A field that was once accepted stays.
        """
        self._accepted |= _marks(sent)
        if refused is not None and self._accepted.isdisjoint(_marks(refused) - _marks(sent)):
            self.form = form

    def learn_window(self, complaint: str, sent: Mapping[str, object]) -> None:
        """Learn the context window from the refusal of a request that was too long; its messages teach nothing."""
        quoted = str(sent["messages"])
        named = [int(match[1]) for match in _WINDOW.finditer(complaint) if match[1] not in quoted]
        if named and min(named) >= _LEAST_WINDOW:
            self.context_tokens = min(named)


def _with_ids(schema: Any, ids: Mapping[str, Sequence[object]]) -> Any:
    """Return the schema with the values enumerated that these members may have, or the items of their lists."""
    if isinstance(schema, list | tuple):
        return [_with_ids(each, ids) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    made = {name: _with_ids(value, ids) for name, value in schema.items()}
    for name in ids.keys() & made.get("properties", {}).keys():
        member = made["properties"][name]
        member.get("items", member)["enum"] = list(ids[name])
    return made


def _marks(sent: Mapping[str, object]) -> set[str]:
    """Return the names of the fields, and the kind of `response_format`."""
    kind = sent.get("response_format")
    return {*sent, *([str(kind["type"])] if isinstance(kind, dict) else [])}


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
_MOST_TOKENS = 100_000_000


def _join_parts(value: object) -> object:
    """Return the text of a content in parts; thoughts are parts of their own."""
    if not isinstance(value, list) or not all(isinstance(part, dict) for part in value):
        return value
    return "".join(part["text"] for part in value if isinstance(part.get("text"), str))


class _Message(BaseModel):
    content: Annotated[str | None, BeforeValidator(_join_parts)] = None
    refusal: str | None = None


class _Choice(BaseModel):
    message: _Message | None = None
    finish_reason: str | None = None
    error: object = None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS else None


# An invalid count is unknown; no verdict is lost for it.
_Count = Annotated[int | None, BeforeValidator(_count)]


class TokenCounts(BaseModel):
    """The `usage` field of a reply: counts of the provider, None if missing or implausible."""

    model_config = ConfigDict(frozen=True)
    prompt: _Count = Field(None, validation_alias="prompt_tokens")
    completion: _Count = Field(None, validation_alias="completion_tokens")
    cached: _Count = Field(None, validation_alias=AliasPath("prompt_tokens_details", "cached_tokens"))

    @property
    def is_known(self) -> bool:
        return self.prompt is not None or self.completion is not None


NO_TOKENS: Final = TokenCounts()


def _counts_or_none(value: object) -> object:
    return value if isinstance(value, dict) else NO_TOKENS


ReportedTokens = Annotated[TokenCounts, BeforeValidator(_counts_or_none)]


class Completion(BaseModel):
    """The fields that we read of a chat completion."""

    model_config = ConfigDict(extra="ignore")
    choices: list[_Choice] | None = None
    model: Annotated[str | None, BeforeValidator(lambda value: value if isinstance(value, str) else None)] = None
    tokens: ReportedTokens = Field(NO_TOKENS, validation_alias="usage")
    error: object = None

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
            raise CallFailure(FailureReason.EMPTY_REPLY, CodedText("reply_without_choices"))
        choice = self.choices[0]
        if isinstance(choice.error, dict):
            raise embedded_failure(choice.error, endpoint)
        if choice.message is None:
            raise _not_a_completion()
        if choice.message.refusal:
            raise CallFailure(FailureReason.REFUSED, CodedText("model_refused"))
        if choice.finish_reason == "content_filter":
            raise CallFailure(FailureReason.CONTENT_FILTERED, CodedText("reply_filtered"))
        content = without_thinking(choice.message.content or "")
        if not content:
            raise CallFailure(
                FailureReason.EMPTY_REPLY,
                CodedText("reply_cut_empty") if self.is_truncated else CodedText("reply_empty"),
            )
        return ChatReply(content, showable_word(self.model, endpoint) or endpoint.model, self.is_truncated)


def read_completion(body: bytes) -> Completion:
    """Parse the completion in a reply's body; raise CallFailure if it is none."""
    try:
        return Completion.model_validate_json(body.removeprefix(_BOM.encode()))
    except ValidationError as error:
        raise _not_a_completion() from error


def _not_a_completion() -> CallFailure:
    return CallFailure(FailureReason.INVALID_REPLY, CodedText("reply_no_completion"))
