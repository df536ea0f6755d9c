"""The HTTP client below the SDK: certificates of the environment, a bound on replies, no stale connection."""

import ssl
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from contextvars import ContextVar
from http import HTTPStatus
from http.cookiejar import DefaultCookiePolicy
from typing import Any, Final

import httpx2

from plumbline.ground.tls import tls_context
from plumbline.ground.version import USER_AGENT

_MAX_ERROR_BYTES: Final = 65_536
# An idle connection is kept as long as httpx2 keeps one by default: many servers close theirs soon after.
_KEPT_SECONDS: Final = 5.0
_ONE: Final = httpx2.Limits(max_connections=1, keepalive_expiry=_KEPT_SECONDS)


# Is called once the request of the running task is written: from then on the server may have read it.
ON_WRITTEN: Final[ContextVar[Callable[[], None] | None]] = ContextVar("on_written", default=None)


class ReplyTooLarge(Exception):
    """A reply with a good status is longer than the bound, inflated."""


class BoundedClient(httpx2.AsyncClient):
    """A client that reads every reply whole, up to a bound, and keeps no cookies.

    `max_reply_bytes`: of a reply with a good status; None for none, and for streams. What an error says beyond 64 KiB
    is not read.
    """

    def __init__(
        self, *, timeout: httpx2.Timeout, proxy: httpx2.Proxy | None, max_reply_bytes: int | None = None
    ) -> None:
        self._connections = _Connections(proxy)
        # `trust_env` would read the proxy variables once more, without loopback hosts and networks.
        super().__init__(
            transport=self._connections,
            timeout=timeout,
            trust_env=False,
            headers={"User-Agent": USER_AGENT, "Accept-Encoding": "gzip, deflate"},
        )
        self.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=()))
        self._max_reply_bytes = max_reply_bytes

    async def drop_connections(self) -> None:
        """Use new connections from the next call on; calls under way end on theirs."""
        await self._connections.drop()

    async def send(self, request: httpx2.Request, *, stream: bool = False, **options: Any) -> httpx2.Response:
        """Send a request and return its response, whole unless it is to be streamed; raise ReplyTooLarge."""
        if (on_written := ON_WRITTEN.get()) and isinstance(request.stream, httpx2.AsyncByteStream):
            request.stream = _Watched(request.stream, on_written)
        # This leaves out the redirects, cookies and authentication of httpx2, and takes half the time.
        response = await self._connections.handle_async_request(request)
        response.request = request
        if stream and response.is_success:
            return response
        try:
            body = await self._read(response)
        finally:
            await response.aclose()
        # Inflated already.
        headers = [(name, value) for name, value in response.headers.raw if name.lower() != b"content-encoding"]
        return httpx2.Response(response.status_code, headers=headers, content=body, request=request)

    async def _read(self, response: httpx2.Response) -> bytes:
        is_error = response.status_code >= HTTPStatus.BAD_REQUEST
        limit = _MAX_ERROR_BYTES if is_error else self._max_reply_bytes
        parts, size = [], 0
        async with aclosing(response.aiter_bytes()) as stream:
            async for part in stream:
                parts.append(part)
                size += len(part)
                if limit is not None and size > limit:
                    if is_error:
                        break
                    raise ReplyTooLarge
        return b"".join(parts)[:limit]


class _Connections(httpx2.AsyncBaseTransport):
    """A transport of httpx2 for each connection, the last used one first: its pool walks through all at each call.

    A connection on which more came than one reply is closed: the rest would pass for the reply to the next call.
    """

    def __init__(self, proxy: httpx2.Proxy | None) -> None:
        self._proxy = proxy
        self._is_socks = proxy is not None and proxy.url.scheme.startswith("socks")
        self._idle: deque[tuple[float, httpx2.AsyncHTTPTransport]] = deque()
        self._generation = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        while self._idle and self._idle[0][0] < time.monotonic() - _KEPT_SECONDS:
            await self._idle.popleft()[1].aclose()
        connection, generation = self._take(), self._generation
        send = self._send_through_socks if self._is_socks else httpx2.AsyncHTTPTransport.handle_async_request
        try:
            response = await send(connection, request)
        except BaseException:
            await connection.aclose()
            raise

        async def release(stream: Any) -> None:
            if generation == self._generation and not _has_leftover(stream):
                self._idle.append((time.monotonic(), connection))
            else:
                await connection.aclose()

        response.stream = _Reply(response.stream, release)
        return response

    async def drop(self) -> None:
        self._generation += 1
        while self._idle:
            await self._idle.pop()[1].aclose()

    async def aclose(self) -> None:
        await self.drop()

    def _take(self) -> httpx2.AsyncHTTPTransport:
        if self._idle:
            return self._idle.pop()[1]
        return httpx2.AsyncHTTPTransport(verify=tls_context(), trust_env=False, limits=_ONE, proxy=self._proxy)

    async def _send_through_socks(
        self, connection: httpx2.AsyncHTTPTransport, request: httpx2.Request
    ) -> httpx2.Response:
        """Close the socket to a proxy that refuses, and tell it by an error of httpx2: httpcore2 does neither."""
        opened: list[Any] = []

        async def trace(event: str, info: dict[str, Any]) -> None:
            if event == "socks.connect_tcp.complete":
                opened.append(info["return_value"])

        request.extensions["trace"] = trace
        try:
            return await connection.handle_async_request(request)
        except BaseException as error:
            for sock in opened:
                await sock.aclose()
            if not isinstance(error, Exception) or isinstance(error, httpx2.HTTPError):
                raise
            raise httpx2.ProxyError("no SOCKS answer") from error


class _Watched(httpx2.AsyncByteStream):
    """The body of a request; it tells when it is written, since httpcore2 asks for more then."""

    def __init__(self, stream: httpx2.AsyncByteStream, on_written: Callable[[], None]) -> None:
        self._stream = stream
        self._on_written = on_written

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._stream:
            yield part
        self._on_written()


class _Reply(httpx2.AsyncByteStream):
    def __init__(self, stream: Any, release: Callable[[Any], Awaitable[None]]) -> None:
        self._stream = stream
        self._release = release
        self._is_closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._stream:
            yield part

    async def aclose(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            try:
                await self._stream.aclose()
            finally:
                await self._release(self._stream)


def _has_leftover(stream: Any) -> bool:
    """Return True if bytes behind the reply wait in the parser; httpcore2 looks for them in the socket alone."""
    for name in ("_httpcore_stream", "_stream", "_connection", "_h11_state"):
        stream = getattr(stream, name, None)
    return bool(getattr(stream, "trailing_data", (b"",))[0])


def is_untrusted(error: BaseException | None) -> bool:
    """Return True if a certificate was refused, which no retry changes."""
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        # httpcore2 raises again `from None`.
        error = error.__cause__ or error.__context__
    return error is not None
