"""One POST to an OpenAI-compatible API through the SDK: parameters in, the bytes of a reply out."""

import logging
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import httpx2
import msgspec

from plumbline.ground.errors import FailureReason
from plumbline.ground.version import USER_AGENT
from plumbline.models.chat.call_failures import Blame, CallFailure, status_failure
from plumbline.models.chat.endpoints import Endpoint
from plumbline.models.chat.http_client import BoundedClient, ReplyTooLarge, find_proxy, is_untrusted, proxy_place

if TYPE_CHECKING:
    from openai import AsyncOpenAI

MAX_REPLY_BYTES: Final = 8_388_608
# The caller's deadline bounds the wait for a reply.
_TIMEOUT: Final = httpx2.Timeout(None, connect=5.0)
# The only header that a caller may add: the context of a trace.
_TRACE_HEADER: Final = "traceparent"
_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})
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
    """The SDK's client of one endpoint. Retries and the deadline are its caller's; redirects are not followed.

    A redirect would hand the key and the texts to a host that is not in the settings. `on_exchange` is called with each
    response that was read. Raises ConfigurationError for a proxy variable that holds no URL of a proxy.
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
        self._url = join_url(endpoint.base_url, endpoint.path)
        self._proxy = find_proxy(self._url)
        self._http = BoundedClient(timeout=_TIMEOUT, proxy=self._proxy, max_reply_bytes=max_reply_bytes)
        self._api = build_api(endpoint, self._http)

    async def post(
        self,
        parameters: Mapping[str, object],
        send_status: SendStatus,
        *,
        headers: Mapping[str, str] = _NO_HEADERS,
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
            await self._http.drop_connections()
        body = _Body(msgspec.json.encode(parameters), send_status)
        sent = {name: value for name, value in headers.items() if name.lower() == _TRACE_HEADER}
        started = time.monotonic()
        response = await self._response(body, sent)
        if self._on_exchange is not None:
            seconds = time.monotonic() - started
            shown_url = str(self._url.copy_with(query=None))
            self._on_exchange(Exchange(shown_url, parameters, response.status_code, response.content, seconds))
        if response.is_success:
            return response.content
        if self._proxy is not None and response.status_code == httpx2.codes.PROXY_AUTHENTICATION_REQUIRED:
            raise self._proxy_failure("407")
        raise status_failure(response.status_code, response.headers, response.content, self._endpoint)

    async def close(self) -> None:
        """Close the connections."""
        await self._api.close()

    async def _response(self, body: "_Body", headers: Mapping[str, str]) -> httpx2.Response:
        from openai import APIConnectionError, APIStatusError, Omit  # noqa: PLC0415

        sent: dict[str, Any] = {
            **headers,
            "Content-Length": str(len(body.content)),
            "x-stainless-retry-count": Omit(),
            "x-stainless-read-timeout": Omit(),
        }
        try:
            return await self._api.post(
                str(self._url), cast_to=httpx2.Response, content=body, options={"headers": sent}
            )
        except APIStatusError as error:
            return error.response
        except APIConnectionError as error:
            raise self._connection_failure(error.__cause__ or error) from error
        except ReplyTooLarge:
            raise CallFailure(
                FailureReason.INVALID_REPLY, f"the provider's reply is too large: over {self._max_reply_bytes} bytes"
            ) from None

    def _connection_failure(self, error: BaseException) -> CallFailure:
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


def build_api(endpoint: Endpoint, http: httpx2.AsyncClient) -> "AsyncOpenAI":
    """Build the SDK's client of an endpoint, without retries, OPENAI_* variables and headers about this machine."""
    if "openai" not in sys.modules:
        _import_quietly()
    from openai import AsyncOpenAI  # noqa: PLC0415

    class Api(AsyncOpenAI):
        @property
        def default_headers(self) -> dict[str, Any]:
            return headers

    headers = {
        "Accept": "application/json",
        "Content-Type": "application/json",
        "User-Agent": USER_AGENT,
        **dict(endpoint.extra_headers),
    }
    return Api(api_key=endpoint.api_key, base_url=str(join_url(endpoint.base_url, "")), max_retries=0, http_client=http)


def _import_quietly() -> None:
    """Import the SDK, which takes a second, and undo what OPENAI_LOG does to the process's logging."""
    root = logging.getLogger()
    handlers = root.handlers[:]
    import openai  # noqa: F401, PLC0415

    root.handlers[:] = handlers
    logging.getLogger("openai").setLevel(logging.NOTSET)


def join_url(base_url: str, path: str) -> httpx2.URL:
    """Return the address of an operation such as `/embeddings`: the base URL's own path before it, its query kept."""
    url = httpx2.URL(base_url)
    own, mark, query = url.raw_path.partition(b"?")
    raw_path = own.rstrip(b"/") + path.encode() + mark + query
    return url.copy_with(raw_path=raw_path, username=None, password=None, fragment=None)
