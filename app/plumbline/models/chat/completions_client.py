"""One POST to an OpenAI-compatible API through the SDK: parameters in, the bytes of a reply out."""

import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import httpx2
import msgspec

from plumbline.ground.errors import FailureReason
from plumbline.models.chat.api_client import NO_HEADERS, ApiClient, join_url
from plumbline.models.chat.call_failures import Blame, CallFailure, status_failure
from plumbline.models.chat.endpoints import Endpoint
from plumbline.models.chat.http_client import ReplyTooLarge, is_untrusted, proxy_place

MAX_REPLY_BYTES: Final = 8_388_608
# The caller's deadline bounds the wait for a reply. 256 first connections of a busy process take more than 5 s.
_TIMEOUT: Final = httpx2.Timeout(None, connect=10.0)
# The only header that a caller may add: the context of a trace.
_TRACE_HEADER: Final = "traceparent"
# What SOCKS proxies and httpcore2 say of credentials.
_DENIALS: Final = ("407", "username", "authentication", "acceptable")


class Exchange(NamedTuple):
    """One request and its response, for who checks a judge with texts of ours: both hold what no log may hold."""

    url: str
    sent: Mapping[str, object]
    status: int
    body: bytes
    seconds: float


@dataclass(slots=True)
class SendStatus:
    """`has_left`: the whole request was written; from then on the server may have read it, and bill it."""

    has_left: bool = False


class CompletionsClient:
    """POSTs to one endpoint, as `ApiClient`. Retries and the deadline are its caller's.

    `on_exchange` is called with each response that was read.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        max_reply_bytes: int = MAX_REPLY_BYTES,
        on_exchange: Callable[[Exchange], None] | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._on_exchange = on_exchange
        self._max_reply_bytes = max_reply_bytes
        self._api = ApiClient(endpoint, timeout=_TIMEOUT, max_reply_bytes=max_reply_bytes)
        self._proxy = self._api.proxy

    async def post(
        self,
        parameters: Mapping[str, object],
        send_status: SendStatus,
        *,
        headers: Mapping[str, str] = NO_HEADERS,
        is_fresh: bool = False,
    ) -> bytes:
        """Return the body of a reply with a good status.

        Args:
            send_status: updated when the request has left, also if the call is cancelled afterwards.
            headers: sent too, as far as they carry the context of a trace.
            is_fresh: use a new connection, as all later calls do then.

        Raises:
            CallFailure: no connection, an error status, or a reply beyond the bound.
        """
        if is_fresh:
            await self.drop_connections()
        body = _Body(msgspec.json.encode(parameters), send_status)
        sent = {name: value for name, value in headers.items() if name.lower() == _TRACE_HEADER}
        sent["Content-Length"] = str(len(body.content))
        started = time.monotonic()
        try:
            response = await self._api.send("post", self._endpoint.path, headers=sent, content=body)
        except httpx2.HTTPError as error:
            raise self._connection_failure(error) from error
        except ReplyTooLarge:
            raise CallFailure(
                FailureReason.INVALID_REPLY, f"the provider's reply is too large: over {self._max_reply_bytes} bytes"
            ) from None
        if self._on_exchange is not None:
            seconds = time.monotonic() - started
            shown_url = str(join_url(self._endpoint.base_url, self._endpoint.path).copy_with(query=None))
            self._on_exchange(Exchange(shown_url, parameters, response.status_code, response.content, seconds))
        if response.is_success:
            return response.content
        if self._proxy is not None and response.status_code == httpx2.codes.PROXY_AUTHENTICATION_REQUIRED:
            raise self._proxy_failure("407")
        raise status_failure(response.status_code, response.headers, response.content, self._endpoint)

    async def drop_connections(self) -> None:
        """Use new connections from the next call on; calls under way end on theirs."""
        await self._api.drop_connections()

    async def close(self) -> None:
        """Close the connections."""
        await self._api.close()

    def _connection_failure(self, error: httpx2.HTTPError) -> CallFailure:
        host = self._endpoint.host
        if isinstance(error, httpx2.ProxyError):
            return self._proxy_failure(str(error))
        way = f" through the proxy {proxy_place(self._proxy)}" if self._proxy else ""
        if isinstance(error, httpx2.ConnectTimeout):
            return CallFailure(
                FailureReason.TIMEOUT, f"no connection to {host}{way} in time", is_retryable=True, blame=Blame.TRANSPORT
            )
        if not isinstance(error, httpx2.ConnectError):
            return CallFailure(
                FailureReason.CONNECTION,
                f"connected to {host}{way}, but no whole response came ({type(error).__name__})",
                is_retryable=True,
                blame=Blame.TRANSPORT,
            )
        is_refused = is_untrusted(error)
        name = "certificate not trusted" if is_refused else type(error).__name__
        return CallFailure(
            FailureReason.CONNECTION,
            f"no connection to {host}{way} ({name})",
            # A certificate does not get better within the deadline.
            is_retryable=not is_refused,
            blame=Blame.CONFIGURATION if is_refused else Blame.TRANSPORT,
        )

    def _proxy_failure(self, reason: str) -> CallFailure:
        place = proxy_place(self._proxy) if self._proxy else ""
        is_denied = any(word in reason.lower() for word in _DENIALS)
        shown = f"HTTP {reason[:3]}" if reason[:3].isdecimal() else reason.rpartition(": ")[2].rstrip(".")
        return CallFailure(
            FailureReason.CONNECTION,
            f"no connection to {self._endpoint.host}: the proxy {place} refused it "
            f"({shown}{': wrong or missing credentials' if is_denied else ''})",
            is_retryable=not is_denied,
            blame=Blame.CONFIGURATION if is_denied else Blame.TRANSPORT,
        )


class _Body:
    """The bytes of a request, which says when they were written: httpcore2 asks for more once they were."""

    def __init__(self, content: bytes, send_status: SendStatus) -> None:
        self.content = content
        self._send_status = send_status

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self.content
        self._send_status.has_left = True
