"""A chat model behind an OpenAI-compatible API, through the `openai` SDK: one client for the process."""

import re
import ssl
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from typing import Annotated, Any

import httpx2
import openai
from openai import AsyncOpenAI
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from app.backends.providers import Endpoint
from app.errors import FailureReason, TierFailure

_CONNECT_SECONDS = 5.0
# The SDK adds headers from OPENAI_* variables, which belong to another vendor's account, and facts about this machine.
_HEADERS_SENT = frozenset(
    {"host", "content-type", "content-length", "accept", "accept-encoding", "authorization", "connection", "user-agent"}
)
# Error codes and model names are shown to callers; what else a provider writes may hold their text or the key.
_SAFE_WORD = re.compile(r"[A-Za-z0-9_.:/@\-]{1,128}")
_FILTER_CODES = frozenset(
    {"data_inspection_failed", "datainspectionfailed", "content_filter", "content_policy_violation"}
)


@dataclass(frozen=True, slots=True)
class Completion:
    """A complete reply. Token counts are the provider's, None where it gave none."""

    content: str
    model: str
    prompt_tokens: int | None
    completion_tokens: int | None


class OpenAIChatModel:
    """One model at one endpoint."""

    def __init__(self, endpoint: Endpoint, *, max_output_tokens: int, read_seconds: float) -> None:
        self._endpoint = endpoint
        self._max_output_tokens = max_output_tokens
        timeout = openai.Timeout(read_seconds, connect=_CONNECT_SECONDS)
        # Retries are off: the SDK's own would run past the deadline of the sample. Redirects are off: a redirect
        # would hand the key and the texts to a host that nobody configured.
        self._client = AsyncOpenAI(
            api_key=endpoint.api_key,
            base_url=endpoint.base_url,
            max_retries=0,
            # Beats an Authorization line in OPENAI_CUSTOM_HEADERS, which would beat `api_key`.
            default_headers={"Authorization": f"Bearer {endpoint.api_key}"},
            timeout=timeout,
            http_client=openai.DefaultAsyncHttpxClient(
                timeout=timeout,
                verify=_tls_context(),
                follow_redirects=False,
                event_hooks={"request": [_keep_known_headers]},
            ),
        )

    @property
    def model(self) -> str:
        return self._endpoint.model

    def describe(self) -> str:
        """Provider, model and host in one line, without a key."""
        return f"{self._endpoint.provider.name}: {self._endpoint.model} at {self._endpoint.host}"

    async def complete(self, *, system: str, user: str) -> Completion:
        """One complete, non-empty reply.

        Raises:
            TierFailure: the call failed, or its reply is cut, empty, filtered or refused.
        """
        try:
            # The raw response: the SDK builds its models without validation, and its way to give both adds a header.
            response = await self._client.post(
                "/chat/completions", cast_to=httpx2.Response, body=self._parameters(system, user)
            )
        except openai.APITimeoutError as error:
            raise TierFailure(FailureReason.TIMEOUT, "the provider did not answer in time") from error
        except openai.APIConnectionError as error:
            cause = type(error.__cause__ or error).__name__
            raise TierFailure(FailureReason.CONNECTION, f"no connection to {self._endpoint.host} ({cause})") from error
        except openai.APIStatusError as error:
            raise _status_failure(error, self._endpoint) from error
        return _read(response.content, self._endpoint)

    async def close(self) -> None:
        """Closes the connections."""
        await self._client.close()

    def _parameters(self, system: str, user: str) -> dict[str, Any]:
        provider = self._endpoint.provider
        parameters: dict[str, Any] = {
            "model": self._endpoint.model,
            "messages": [{"role": "system", "content": system}, {"role": "user", "content": user}],
            provider.token_limit: self._max_output_tokens,
        }
        if provider.temperature is not None:
            parameters["temperature"] = provider.temperature
        if provider.json_mode:
            parameters["response_format"] = {"type": "json_object"}
        return {**parameters, **provider.extra_body}


@cache
def _tls_context() -> ssl.SSLContext:
    """The machine's certificates, read once for the process: it takes 20 ms."""
    return httpx2.create_ssl_context()


async def _keep_known_headers(request: httpx2.Request) -> None:
    for name in list(request.headers):
        if name.lower() not in _HEADERS_SENT:
            del request.headers[name]


class _Message(BaseModel):
    content: str | None = None
    refusal: str | None = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


# A count that is none is unknown; a verdict is not lost for it.
_Count = Annotated[int | None, BeforeValidator(_count)]


class _Usage(BaseModel):
    prompt_tokens: _Count = None
    completion_tokens: _Count = None


class _Reply(BaseModel):
    """What we read of a chat completion."""

    model_config = ConfigDict(extra="ignore")
    choices: list[_Choice]
    model: str | None = None
    usage: Annotated[_Usage | None, BeforeValidator(lambda value: value if isinstance(value, dict) else None)] = None


def _read(body: bytes, endpoint: Endpoint) -> Completion:
    try:
        reply = _Reply.model_validate_json(body)
    except ValidationError as error:
        raise TierFailure(FailureReason.INVALID_REPLY, "the provider's reply is not a chat completion") from error
    if not reply.choices:
        raise TierFailure(FailureReason.EMPTY_REPLY, "the provider's reply has no choices")
    choice = reply.choices[0]
    if choice.message.refusal:
        raise TierFailure(FailureReason.REFUSED, "the model refused to judge")
    if choice.finish_reason == "content_filter":
        raise TierFailure(FailureReason.CONTENT_FILTERED, "the provider's content filter stopped the reply")
    if choice.finish_reason == "length":
        raise TierFailure(FailureReason.TRUNCATED_REPLY, "the reply was cut at the limit of output tokens")
    if not choice.message.content or not choice.message.content.strip():
        raise TierFailure(FailureReason.EMPTY_REPLY, "the model's reply is empty")
    usage = reply.usage or _Usage()
    model = _shown(reply.model, endpoint) or endpoint.model
    return Completion(choice.message.content, model, usage.prompt_tokens, usage.completion_tokens)


def _status_failure(error: openai.APIStatusError, endpoint: Endpoint) -> TierFailure:
    code = _shown(error.code, endpoint)
    detail = f"HTTP {error.status_code}" + (f" ({code})" if code else "")
    return TierFailure(_reason(error.status_code, code), detail)


def _shown(word: object, endpoint: Endpoint) -> str | None:
    """A provider's own word when callers may see it: short, plain, and without our key."""
    if not isinstance(word, str) or not _SAFE_WORD.fullmatch(word) or endpoint.api_key in word:
        return None
    return word


def _reason(status: int, code: str | None) -> FailureReason:
    if code and code.lower() in _FILTER_CODES:
        return FailureReason.CONTENT_FILTERED
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return FailureReason.UPSTREAM_ERROR
    by_status = {
        401: FailureReason.AUTHENTICATION,
        403: FailureReason.AUTHENTICATION,
        408: FailureReason.TIMEOUT,
        429: FailureReason.RATE_LIMITED,
    }
    return by_status.get(status, FailureReason.REJECTED)
