"""One POST to an OpenAI-compatible API, with our headers and a bound on the reply: bytes in, bytes out."""

import ssl
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, closing
from functools import cache
from http import HTTPStatus
from types import MappingProxyType
from typing import NamedTuple

import h11
import httpx2
import msgspec

from plumbline.ground.connections import (
    ConnectError,
    ConnectionLimits,
    ConnectTimeout,
    HttpConnections,
    HttpResponse,
    SendStatus,
)
from plumbline.ground.errors import FailureReason
from plumbline.ground.proxies import DEFAULT_PORTS, ProxyError, find_proxy
from plumbline.ground.version import USER_AGENT
from plumbline.models.chat.call_failures import Blame, CallFailure, status_failure
from plumbline.models.chat.endpoints import Endpoint

MAX_REPLY_BYTES = 8_388_608
_MAX_ERROR_BYTES = 65_536
# An idle connection is kept as long as a pool of httpx2 keeps it: many servers close theirs soon after. The caller's
# deadline bounds the wait for a reply.
_LIMITS = ConnectionLimits(connect_seconds=5.0, read_seconds=None, kept_seconds=5.0)
# The only header that a caller may add: the context of a trace.
_TRACE_HEADER = "traceparent"
_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class Exchange(NamedTuple):
    """One request and its response, for who checks a judge with texts of ours: both hold what no log may hold."""

    url: str
    sent: Mapping[str, object]
    status: int
    body: bytes
    seconds: float


class CompletionsClient:
    """The connections to one endpoint. Retries and the deadline are its caller's; redirects are not followed.

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
        url = join_url(endpoint.base_url, endpoint.path)
        host, port = url.raw_host.decode("ascii"), url.port or DEFAULT_PORTS[url.scheme]
        self._proxy = proxy = find_proxy(url.scheme, host, port)
        self._connections = HttpConnections(
            host,
            port,
            limits=_LIMITS,
            tls=_tls_context() if url.scheme == "https" else None,
            proxy=proxy,
            proxy_tls=_tls_context() if proxy is not None and proxy.scheme == "https" else None,
        )
        self._target = url.raw_path
        self._shown_url = str(url.copy_with(query=None))
        self._headers = [
            ("Host", url.netloc.decode("ascii")),
            ("Accept", "application/json"),
            ("Content-Type", "application/json"),
            ("Authorization", f"Bearer {endpoint.api_key}"),
            ("User-Agent", USER_AGENT),
            ("Accept-Encoding", "gzip, deflate"),
            ("Connection", "keep-alive"),
        ]
        replaced = {name.lower() for name, _ in endpoint.extra_headers}
        self._headers = [each for each in self._headers if each[0].lower() not in replaced]
        self._headers += endpoint.extra_headers
        if proxy is not None and not proxy.is_socks and url.scheme == "http":
            # An HTTP proxy forwards http requests whose target is the whole URL (RFC 9112, 3.2.2).
            self._target = b"http://" + url.netloc + url.raw_path
            if proxy.authorization:
                self._headers.append(("Proxy-Authorization", proxy.authorization))

    async def post(
        self, parameters: Mapping[str, object], send_status: SendStatus, *, headers: Mapping[str, str] = _NO_HEADERS
    ) -> bytes:
        """Return the body of a reply with a good status.

        Args:
            send_status: updated when the request has left, also if the call is cancelled afterwards.
            headers: sent too, as far as they carry the context of a trace.

        Raises:
            CallFailure: no connection, an error status, or a reply beyond the bound.
        """
        content = msgspec.json.encode(parameters)
        sent = [*self._headers, ("Content-Length", str(len(content)))]
        sent += [(name, value) for name, value in headers.items() if name.lower() == _TRACE_HEADER]
        head = h11.Request(method="POST", target=self._target, headers=sent)
        started = time.monotonic()
        try:
            with closing(await self._connections.send(head, (content,), send_status)) as response:
                body = await self._read(response)
        except (OSError, httpx2.DecodingError) as error:
            raise self._connection_failure(error) from error
        if self._on_exchange is not None:
            seconds = time.monotonic() - started
            self._on_exchange(Exchange(self._shown_url, parameters, response.status, body, seconds))
        if response.status < HTTPStatus.MULTIPLE_CHOICES:
            return body
        if self._proxy is not None and response.status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
            raise self._proxy_failure(ProxyError("HTTP 407", is_denied=True))
        raise status_failure(response.status, response.headers, body, self._endpoint)

    def close(self) -> None:
        """Close the connections."""
        self._connections.close()

    async def _read(self, response: HttpResponse) -> bytes:
        is_error = response.status >= HTTPStatus.BAD_REQUEST
        limit = _MAX_ERROR_BYTES if is_error else self._max_reply_bytes
        parts, size = [], 0
        async with aclosing(_decoded(response)) as stream:
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

    def _connection_failure(self, error: Exception) -> CallFailure:
        host, cause = self._endpoint.host, error.__cause__
        if isinstance(cause, ProxyError):
            return self._proxy_failure(cause)
        way = f" through the proxy {self._proxy.place}" if self._proxy else ""
        if isinstance(error, ConnectTimeout):
            return CallFailure(
                FailureReason.TIMEOUT, f"no connection to {host}{way} in time", is_retryable=True, blame=Blame.TRANSPORT
            )
        if not isinstance(error, ConnectError):
            return CallFailure(
                FailureReason.CONNECTION,
                f"connected to {host}{way}, but no whole response came ({type(error).__name__})",
                is_retryable=True,
                blame=Blame.TRANSPORT,
            )
        is_untrusted = isinstance(cause, ssl.SSLCertVerificationError)
        name = "certificate not trusted" if is_untrusted else type(error).__name__
        return CallFailure(
            FailureReason.CONNECTION,
            f"no connection to {host}{way} ({name})",
            # A certificate does not get better within the deadline.
            is_retryable=not is_untrusted,
            blame=Blame.CONFIGURATION if is_untrusted else Blame.TRANSPORT,
        )

    def _proxy_failure(self, error: ProxyError) -> CallFailure:
        place = self._proxy.place if self._proxy else ""
        reason = f"{error}: wrong or missing credentials" if error.is_denied else str(error)
        return CallFailure(
            FailureReason.CONNECTION,
            f"no connection to {self._endpoint.host}: the proxy {place} refused it ({reason})",
            is_retryable=not error.is_denied,
            blame=Blame.CONFIGURATION if error.is_denied else Blame.TRANSPORT,
        )


def join_url(base_url: str, path: str) -> httpx2.URL:
    """Return the address of an operation such as `/embeddings`: the base URL's own path before it, its query kept."""
    url = httpx2.URL(base_url)
    own, mark, query = url.raw_path.partition(b"?")
    raw_path = own.rstrip(b"/") + path.encode() + mark + query
    return url.copy_with(raw_path=raw_path, username=None, password=None, fragment=None)


def _decoded(response: HttpResponse) -> AsyncGenerator[bytes, None]:
    """Yield the body without its content encoding, as it inflates."""
    if not any(name == b"content-encoding" for name, _ in response.raw_headers):
        return response.body()
    return httpx2.Response(response.status, headers=response.raw_headers, content=response.body()).aiter_bytes()


@cache
def _tls_context() -> ssl.SSLContext:
    """Read the machine's certificates once for the process: it takes 20 ms."""
    return httpx2.create_ssl_context()
