"""What each provider of chat models wants, by name. Addresses and manners only; the client is elsewhere."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Structure = Literal["json_schema", "json_object", "plain"]
TokenLimit = Literal["max_tokens", "max_completion_tokens"]


@dataclass(frozen=True, slots=True)
class Provider:
    """The manners of one provider.

    Args:
        base_url: None where everybody has their own.
        default_model: None where none can be assumed.
        structure: the strictest form of reply that is tried first; what the model refuses is not asked for again.
        temperature: None where models refuse one.
        token_limit: the name of its limit on output tokens.
        thinking_off: fields beyond OpenAI's that keep a model from thinking, sent to this provider alone.
        needs_key: False for servers on one's own machine, which often take none.
        context_tokens: of a request and its reply together, unless the settings say otherwise.
        quota_is_throttle: its `insufficient_quota` passes within the minute; elsewhere it means an unpaid bill.
    """

    name: str
    base_url: str | None = None
    default_model: str | None = None
    structure: Structure = "plain"
    temperature: float | None = 0.0
    token_limit: TokenLimit = "max_tokens"  # noqa: S105 - a parameter's name
    thinking_off: Mapping[str, object] = field(default_factory=dict, hash=False)
    needs_key: bool = True
    context_tokens: int = 32_768
    quota_is_throttle: bool = False


def _dashscope(name: str, base_url: str) -> Provider:
    # Qwen 3.5 and later think unless told not to, and JSON mode and thinking exclude each other there. Schemas work on
    # a short, changing list of models, and degrade silently on others.
    return Provider(
        name,
        base_url,
        "qwen-plus",
        structure="json_object",
        thinking_off={"enable_thinking": False},
        context_tokens=131_072,
        quota_is_throttle=True,
    )


def _openai(name: str, base_url: str | None) -> Provider:
    # Its reasoning models refuse a temperature and count output under the newer name.
    return Provider(
        name,
        base_url,
        structure="json_schema",
        temperature=None,
        token_limit="max_completion_tokens",  # noqa: S106 - a parameter's name
        context_tokens=128_000,
    )


_PROVIDERS = (
    _dashscope("dashscope", "https://dashscope.aliyuncs.com/compatible-mode/v1"),
    _dashscope("dashscope-intl", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1"),
    _openai("openai", "https://api.openai.com/v1"),
    # Its v1 API, https://<resource>.openai.azure.com/openai/v1: the key as a bearer, no api-version.
    _openai("azure", None),
    Provider(
        "vllm",
        structure="json_schema",
        thinking_off={"chat_template_kwargs": {"enable_thinking": False}},
        needs_key=False,
    ),
    Provider(
        "llamacpp",
        structure="json_schema",
        thinking_off={"chat_template_kwargs": {"enable_thinking": False}},
        needs_key=False,
        context_tokens=8_192,
    ),
    # Its compatible API documents JSON mode and takes no `think`; a longer prompt than it was started for is cut
    # without a word.
    Provider(
        "ollama",
        structure="json_object",
        thinking_off={"reasoning_effort": "none"},
        needs_key=False,
        context_tokens=8_192,
    ),
    # Nothing is assumed of a server that is not named: no JSON mode, no field beyond the oldest ones.
    Provider("generic", needs_key=False),
)
PROVIDERS: Mapping[str, Provider] = {provider.name: provider for provider in _PROVIDERS}
