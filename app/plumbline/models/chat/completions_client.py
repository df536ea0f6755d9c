"""One POST to a provider through the `openai` SDK, with our headers and our bound on the reply: bytes in, bytes out."""

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, lru_cache
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.request import getproxies

import httpx2
import openai
from openai import AsyncOpenAI

from plumbline.ground.errors import FailureReason
from plumbline.models.chat.call_failures import Blame, CallFailure, status_failure
from plumbline.models.chat.endpoints import Endpoint
from plumbline.models.chat.judge_connections import JudgeConnections

MAX_REPLY_BYTES = 8_388_608
_MAX_ERROR_BYTES = 65_536
_CONNECT_SECONDS = 5.0
_MADE_READY_TOGETHER = 1
# What the HTTP client says that it does. The gate opens before anything that another machine can hold up.
_LEFT = ".send_request_body.complete"
_IS_READY = (".send_request_headers.complete", ".connect_tcp.started")
# The SDK adds headers from OPENAI_* variables, which belong to another vendor's account, and facts about this machine.
_HEADERS_TAKEN = frozenset({"content-type", "accept", "authorization", "user-agent", "traceparent"})
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})
_PROXIED = frozenset({"http", "https", "all"})
_ENCODING = b"content-encoding"
_FRAMING_HEADERS = frozenset({_ENCODING, b"content-length", b"transfer-encoding"})

# As the SDK's own, which takes twice as long.
_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


@dataclass(slots=True)
class SendStatus:
    """Whether a request has left: from then on a provider may have read it, whatever comes back."""

    has_left: bool = False
    gate: "_Gate | None" = None

    def note(self, event: str) -> None:
        """Takes in what the HTTP client says that it does."""
        if event.endswith(_LEFT):
            self.has_left = True
        elif event.endswith(_IS_READY):
            self.pass_gate()

    def pass_gate(self) -> None:
        """Lets the next one through the gate, once."""
        if self.gate is not None:
            self.gate.release()
            self.gate = None


class _Gate(asyncio.Semaphore):
    """Requests are made ready one after another. Were all that are due made ready together, turn by turn, all would
    leave late together, and come back together: with 64 under way that costs a tenth of the time."""


# The task that posts is the one in which the HTTP client runs its hooks.
_SEND_STATUS: ContextVar[SendStatus] = ContextVar("send_status")


class CompletionsClient:
    """The connections to one endpoint. It waits as long as its caller lets it: the deadline is not here."""

    def __init__(self, endpoint: Endpoint, *, max_reply_bytes: int = MAX_REPLY_BYTES) -> None:
        self._endpoint = endpoint
        self._max_reply_bytes = max_reply_bytes
        self._client = self._new_client()
        # Absolute: the SDK would put the two together again for every call.
        self._url = f"{self._client.base_url}chat/completions"
        self._gate = _Gate(_MADE_READY_TOGETHER)

    async def post(
        self, parameters: Mapping[str, object], send_status: SendStatus, *, headers: Mapping[str, str] = _NO_HEADERS
    ) -> bytes:
        """The body of a reply with a good status.

        Args:
            parameters: the body of the request.
            send_status: told when the request has left, also when this is cancelled.
            headers: sent besides; of those that carry the context of a trace alone.

        Raises:
            CallFailure: no connection, an error status, or a reply beyond the bound.
        """
        await self._gate.acquire()
        send_status.gate = self._gate
        token = _SEND_STATUS.set(send_status)
        try:
            # The raw response: the SDK builds its models without validation, and its way to give both adds a header.
            response = await self._client.post(
                self._url,
                cast_to=httpx2.Response,
                content=_JSON.encode(parameters).encode(),
                options={"headers": headers},
            )
        except openai.APITimeoutError as error:
            raise CallFailure(
                FailureReason.TIMEOUT,
                f"no connection to {self._endpoint.host} in time",
                is_retryable=True,
                blame=Blame.TRANSPORT,
            ) from error
        except openai.APIConnectionError as error:
            raise _connection_failure(error, self._endpoint) from error
        except openai.APIStatusError as error:
            reply = error.response
            raise status_failure(reply.status_code, reply.headers, reply.content, self._endpoint) from error
        finally:
            _SEND_STATUS.reset(token)
            send_status.pass_gate()
        return response.content

    async def close(self) -> None:
        """Closes the connections."""
        await self._client.close()

    def _new_client(self) -> AsyncOpenAI:
        timeout = openai.Timeout(None, connect=_CONNECT_SECONDS)
        # A proxy of this machine is for the SDK's own connections, which know how to speak to one.
        connections = None if getproxies().keys() & _PROXIED else JudgeConnections(_tls_context())
        # Retries are off: the SDK's own would run past the deadline of the sample. Redirects are off: a redirect
        # would hand the key and the texts to a host that nobody configured.
        return AsyncOpenAI(
            api_key=self._endpoint.api_key,
            base_url=self._endpoint.base_url,
            max_retries=0,
            # Beats an Authorization line in OPENAI_CUSTOM_HEADERS, which would beat `api_key`.
            default_headers={"Authorization": f"Bearer {self._endpoint.api_key}"},
            timeout=timeout,
            http_client=_BoundedHttpClient(
                self._max_reply_bytes,
                connections,
                timeout=timeout,
                verify=_tls_context(),
                follow_redirects=False,
                transport=connections,
            ),
        )


class _BoundedHttpClient(openai.DefaultAsyncHttpxClient):
    """Makes and sends requests as plainly as they are: no cookies, parameters or headers but ours.

    Reads every reply itself, so that no more of it is kept than the bound, whatever it inflates to.
    """

    def __init__(self, max_reply_bytes: int, connections: JudgeConnections | None, **options: Any) -> None:
        super().__init__(**options)
        self._max_reply_bytes = max_reply_bytes
        self._connections = connections
        self._encoding = self.headers["accept-encoding"]

    def build_request(self, method: str, url: httpx2.URL | str, **options: Any) -> httpx2.Request:
        headers = [(name, value) for name, value in options["headers"] if name.lower() in _HEADERS_TAKEN]
        return httpx2.Request(
            method,
            _parsed(str(url)),
            headers=[*headers, ("Accept-Encoding", self._encoding), ("Connection", "keep-alive")],
            content=options["content"],
            extensions={"timeout": options["timeout"].as_dict(), "trace": _note_send_event},
        )

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        stream = await self._begun(request, options)
        headers = [(name, value) for name, value in stream.headers if name not in _FRAMING_HEADERS]
        try:
            content = await self._read(stream.status_code, stream.parts)
        finally:
            await stream.close()
        return httpx2.Response(stream.status_code, headers=headers, content=content, request=request)

    async def _begun(self, request: httpx2.Request, options: Mapping[str, Any]) -> "_Begun":
        if self._connections is None or self.is_closed:
            response = await super().send(request, **{**options, "stream": True})
        else:
            # What the base class does besides is for clients with cookies, hooks, redirects and several transports.
            head, body = await self._connections.exchange(request)
            if not any(name == _ENCODING for name, _ in head.headers):
                return _Begun(head.status_code, head.headers, aiter(body), body.aclose)
            response = httpx2.Response(head.status_code, headers=head.headers, stream=body, request=request)
        headers = [(name.lower(), value) for name, value in response.headers.raw]
        return _Begun(response.status_code, headers, response.aiter_bytes(), response.aclose)

    async def _read(self, status_code: int, stream: AsyncGenerator[bytes, None]) -> bytes:
        is_error = status_code >= HTTPStatus.BAD_REQUEST
        limit = _MAX_ERROR_BYTES if is_error else self._max_reply_bytes
        parts, size = [], 0
        async with aclosing(stream):
            async for part in stream:
                parts.append(part)
                size += len(part)
                if size > limit:
                    if is_error:
                        break
                    raise CallFailure(
                        FailureReason.INVALID_REPLY, f"the provider's reply is too large: over {limit} bytes"
                    )
        return b"".join(parts)[:limit]


class _Begun(NamedTuple):
    """A response whose head has come; names of headers in lower case, parts of the body as they inflate."""

    status_code: int
    headers: Sequence[tuple[bytes, bytes]]
    parts: AsyncGenerator[bytes, None]
    close: Callable[[], Awaitable[None]]


async def _note_send_event(event: str, info: Mapping[str, object]) -> None:
    if (send_status := _SEND_STATUS.get(None)) is not None:
        send_status.note(event)


@lru_cache(maxsize=16)
def _parsed(url: str) -> httpx2.URL:
    return httpx2.URL(url)


@cache
def _tls_context() -> ssl.SSLContext:
    """The machine's certificates, read once for the process: it takes 20 ms."""
    return httpx2.create_ssl_context()


def _connection_failure(error: openai.APIConnectionError, endpoint: Endpoint) -> CallFailure:
    causes = list(_causes(error))
    is_untrusted = any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes)
    name = "certificate not trusted" if is_untrusted else type(causes[min(1, len(causes) - 1)]).__name__
    return CallFailure(
        FailureReason.CONNECTION,
        f"no connection to {endpoint.host} ({name})",
        # A certificate does not get better within the deadline.
        is_retryable=not is_untrusted,
        blame=Blame.CONFIGURATION if is_untrusted else Blame.TRANSPORT,
    )


def _causes(error: BaseException) -> list[BaseException]:
    causes: list[BaseException] = []
    at: BaseException | None = error
    while at is not None and at not in causes:
        causes.append(at)
        at = at.__cause__ or at.__context__
    return causes
