"""Requests to one service over httpx2 and asyncio: its address and key, errors of the connection, and retries."""

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple

from plumbline.client.failures import (
    AnswerCut,
    AnswerUnreadable,
    ClientClosed,
    ClientError,
    NotReached,
    Retries,
    RetryState,
    TimedOut,
    failure_of,
)
from plumbline.ground.errors import ConfigurationError
from plumbline.ground.proxies import find_proxy
from plumbline.ground.service_address import KEY_VARIABLE, URL_VARIABLE, find_key, find_url
from plumbline.ground.tls import tls_context
from plumbline.ground.version import USER_AGENT

if TYPE_CHECKING:
    import httpx2

CONNECT_SECONDS: Final = 5.0
JSON_HEADERS: Final[Mapping[str, str]] = {"content-type": "application/json"}
_KEPT_CONNECTIONS: Final = 32
# The service closes idle connections after 5 s; one that is used at that moment would be cut.
_KEPT_SECONDS: Final = 3.0


@dataclass(frozen=True, slots=True)
class RequestSpec:
    """One request. `is_repeatable`: it may arrive twice; otherwise it is sent again only when it has not left.

    With a `file` (name, file, content type) and `fields` it is a form; each attempt reads the file from its beginning.
    """

    method: str
    path: str
    params: Mapping[str, str | int | list[str]] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = None
    is_repeatable: bool = True
    fields: Mapping[str, str] | None = None
    file: tuple[str, IO[bytes], str] | None = None

    def arguments(self) -> dict[str, Any]:
        arguments = {"params": self.params, "headers": self.headers, "content": self.content, "data": self.fields}
        files = None if self.file is None else {"file": self.file}
        return {"method": self.method, "url": self.path, "files": files, **arguments}


class Reply(NamedTuple):
    """A response whose head has arrived; its body is read once, in parts."""

    status: int
    headers: Mapping[str, str]
    parts: AsyncGenerator[bytes, None]


class Connection:
    """One service; arguments as of `AsyncPlumbline`. Redirects are not followed: the key goes nowhere else.

    Each event loop has connections of its own, which it closes at its end.
    """

    def __init__(self, base_url: str | None, *, api_key: str | None, timeout: float, retries: Retries) -> None:
        import httpx2  # noqa: PLC0415 - a tenth of a second of import, which only a request pays

        self.retries = retries
        self._is_closed = False
        self._uploads: set[_Sockets] = set()
        self._clients: dict[asyncio.AbstractEventLoop, tuple[httpx2.AsyncClient, AsyncGenerator[None, None]]] = {}
        url = _checked_url(base_url)
        self._place = url.netloc.decode("ascii")
        self._options: dict[str, Any] = {
            "base_url": url,
            "headers": {"user-agent": USER_AGENT, **_key_header(api_key)},
            "timeout": httpx2.Timeout(timeout, connect=min(timeout, CONNECT_SECONDS), pool=None),
            "limits": httpx2.Limits(max_keepalive_connections=_KEPT_CONNECTIONS, keepalive_expiry=_KEPT_SECONDS),
            # Over plain HTTP no certificate is looked at; reading them all would take 20 ms.
            "verify": tls_context() if url.scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
            "proxy": find_proxy(url),
            "trust_env": False,
        }
        try:
            httpx2.Client(**self._options).close()
        except ImportError:
            raise ConfigurationError("ALL_PROXY: SOCKS needs pip install 'httpx2[socks]'") from None

    def reopen(self) -> None:
        """Take requests, also after `close`."""
        self._is_closed = False

    async def answer(self, spec: RequestSpec) -> bytes:
        """Return the whole body of a success; raise the failure of the last attempt."""
        state = RetryState(self.retries)
        while True:
            try:
                async with self.stream(spec) as reply:
                    return b"".join([part async for part in reply.parts])
            except ClientError as failure:
                if not spec.is_repeatable and not isinstance(failure, NotReached):
                    raise
                await self.sleep(state.wait_after(failure))

    @asynccontextmanager
    async def stream(self, spec: RequestSpec) -> AsyncIterator[Reply]:
        """Send a request once and give the reply of a success; any failure, also of reading it, is a ClientError."""
        if self._is_closed:
            raise ClientClosed("the client is closed")
        with self._mapped_errors():
            async with self._exchange(spec) as reply:
                if not 200 <= reply.status < 300:  # noqa: PLR2004 - the successes of HTTP
                    body = b"".join([part async for part in reply.parts])
                    raise failure_of(reply.status, reply.headers, body, spec.path)
                yield reply

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        """Close the connections of this event loop; requests under way fail."""
        self._is_closed = True
        for sockets in self._uploads:
            sockets.end()
        if (opened := self._clients.get(asyncio.get_running_loop())) is not None:
            await opened[1].aclose()

    @asynccontextmanager
    async def _exchange(self, spec: RequestSpec) -> AsyncIterator[Reply]:
        """Send a request; closing the context lets go of the response."""
        import httpx2  # noqa: PLC0415 - as above

        if spec.file is not None:
            yield await self._upload(spec)
            return
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            client = httpx2.AsyncClient(**self._options)
            self._clients[loop] = client, (kept := self._keep(loop, client))
            await anext(kept)
        exchange = self._clients[loop][0].stream(**spec.arguments())
        async with exchange as response, aclosing(response.aiter_bytes()) as parts:
            yield Reply(response.status_code, response.headers, parts)

    async def _keep(self, loop: asyncio.AbstractEventLoop, client: "httpx2.AsyncClient") -> AsyncGenerator[None, None]:
        """Close the client when the loop ends, which closes every async generator that is left in it."""
        try:
            yield
        finally:
            del self._clients[loop]
            await client.aclose()

    async def _upload(self, spec: RequestSpec) -> Reply:
        """Send a file from a thread: asyncio would lose an early refusal, and stand still while the file is read."""
        import httpx2  # noqa: PLC0415 - as above

        sockets = _Sockets()

        def send() -> httpx2.Response:
            with httpx2.Client(**self._options) as client:
                return client.request(**spec.arguments(), extensions={"trace": sockets.add})

        self._uploads.add(sockets)
        try:
            response = await asyncio.to_thread(send)
        finally:
            self._uploads.discard(sockets)
            sockets.end()
        return Reply(response.status_code, response.headers, _yield_once(response.content))

    @contextmanager
    def _mapped_errors(self) -> Iterator[None]:
        import httpx2  # noqa: PLC0415 - as above

        place = self._place
        try:
            yield
        except (httpx2.HTTPError, httpx2.StreamError, RuntimeError) as error:
            if self._is_closed:
                raise ClientClosed("the client was closed") from None
            if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.ProxyError):
                raise NotReached(f"{place} cannot be reached: {error or type(error).__name__}") from error
            if isinstance(error, httpx2.TimeoutException):
                raise TimedOut(f"{place} did not answer in time") from error
            if isinstance(error, httpx2.DecodingError):
                raise AnswerUnreadable(f"the answer of {place} is damaged: {error}") from error
            if isinstance(error, httpx2.HTTPError):
                raise AnswerCut(f"the connection to {place} ended before the answer did: {error}") from error
            raise


class _Sockets:
    """The sockets of a blocking client, as httpx2 traces them: nothing else ends a thread that waits for bytes."""

    def __init__(self) -> None:
        self._is_ended = False
        self._sockets: list[socket.socket] = []

    def add(self, event: str, info: Mapping[str, Any]) -> None:
        if event.endswith((".connect_tcp.complete", ".start_tls.complete")):
            self._sockets.append(info["return_value"].get_extra_info("socket"))
            if self._is_ended:
                self.end()

    def end(self) -> None:
        self._is_ended = True
        for each in self._sockets:
            # The methods of a TLS socket would take its state away under the thread
            with suppress(OSError):
                socket.socket.shutdown(each, socket.SHUT_RDWR)


async def _yield_once(content: bytes) -> AsyncGenerator[bytes, None]:
    yield content


async def lines_of(reply: Reply) -> AsyncGenerator[bytes, None]:
    """Yield the lines of a body that are not blank, without their ends; raise AnswerCut if the last one has none."""
    rest: list[bytes] = []
    async for part in reply.parts:
        first, *others = part.split(b"\n")
        rest.append(first)
        for other in others:
            if line := b"".join(rest).strip():
                yield line
            rest = [other]
    if b"".join(rest).strip():
        raise AnswerCut("the answer ended within a line")


def _checked_url(base_url: str | None) -> "httpx2.URL":
    import httpx2  # noqa: PLC0415 - as above

    found = find_url(base_url)
    if found is None and base_url is None:
        raise ConfigurationError(
            f"no service is named: give base_url or --url, http://127.0.0.1:8000 for example, or set {URL_VARIABLE}"
        )
    with suppress(httpx2.InvalidURL, TypeError):
        url = httpx2.URL(found or "")
        if url.scheme in ("http", "https") and url.host and not (url.query or url.fragment or url.userinfo):
            return url
    raise ConfigurationError(
        f"address of the service (base_url, --url or {URL_VARIABLE}): expected http:// or https:// with a host, like "
        "http://127.0.0.1:8000, and no user, no query and no fragment"
    )


def _key_header(api_key: str | None) -> dict[str, str]:
    if not (key := find_key(api_key)):
        return {}
    if not (key.isascii() and key.isprintable()):
        raise ConfigurationError(f"api_key ({KEY_VARIABLE}): expected visible ASCII characters alone")
    return {"authorization": f"Bearer {key}"}
