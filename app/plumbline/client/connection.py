"""Requests to one service over httpx2: its address and key, errors of the connection, and retries.

The clients with and without asyncio share all coroutines above `Connection`. Over a `BlockingConnection` none of them
ever waits for an event loop, so that `run_now` runs them as functions.
"""

import asyncio
import math
import socket
import ssl
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, contextmanager, suppress
from copy import copy
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeVar

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

T = TypeVar("T")

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
    params: Mapping[str, str | int] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = None
    is_repeatable: bool = True
    fields: Mapping[str, str] | None = None
    file: tuple[str, IO[bytes], str] | None = None

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of a request of httpx2."""
        arguments = {"params": self.params, "headers": self.headers, "content": self.content, "data": self.fields}
        files = None if self.file is None else {"file": self.file}
        return {"method": self.method, "url": self.path, "files": files, **arguments}


class Reply(NamedTuple):
    """A response whose head has arrived; its body is read once, in parts."""

    status: int
    headers: Mapping[str, str]
    parts: AsyncGenerator[bytes, None]


class Connection(ABC):
    """One service; arguments as of `AsyncPlumbline`. Redirects are not followed: the key goes nowhere else."""

    def __init__(self, base_url: str | None, *, api_key: str | None, timeout: float, retries: Retries) -> None:
        import httpx2  # noqa: PLC0415 - a tenth of a second of import, which only a request pays

        self.retries = retries
        self._is_closed = False
        url = _checked_url(base_url)
        self._arguments: dict[str, Any] = {"api_key": find_key(api_key) or "", "timeout": timeout, "retries": retries}
        self._place = url.netloc.decode("ascii")
        self._timeout = timeout
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
        self.open()

    @abstractmethod
    def open(self) -> None:
        """Take requests, also after `close`."""

    def reopen(self) -> None:
        """Open it if it is closed."""
        if self._is_closed:
            self.open()

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

    @abstractmethod
    def limit(self, seconds: float | None) -> AbstractAsyncContextManager[object]:
        """Bound what is done in this context; beyond it, TimeoutError."""

    @abstractmethod
    async def sleep(self, seconds: float) -> None:
        """Wait before the next attempt."""

    @abstractmethod
    async def close(self) -> None:
        """Close the connections; requests under way fail."""

    @abstractmethod
    def _exchange(self, spec: RequestSpec) -> AbstractAsyncContextManager[Reply]:
        """Send a request; closing the context lets go of the response."""

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


class AsyncConnection(Connection):
    """A service asked from asyncio; each event loop has connections of its own, which it closes at its end."""

    def open(self) -> None:
        self._is_closed = False
        self._uploads = weakref.WeakSet[BlockingConnection]()
        self._clients: dict[asyncio.AbstractEventLoop, tuple[httpx2.AsyncClient, AsyncGenerator[None, None]]] = {}

    def limit(self, seconds: float | None) -> AbstractAsyncContextManager[object]:
        return asyncio.timeout(seconds)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def answer(self, spec: RequestSpec) -> bytes:
        if spec.file is None or self._is_closed:
            return await super().answer(spec)
        # In a thread: asyncio would lose a refusal that comes before the end of the upload, and stand still while the
        # file is read.
        upload = BlockingConnection(str(self._options["base_url"]), **self._arguments)
        self._uploads.add(upload)
        try:
            return await asyncio.to_thread(run_now, upload.answer(spec))
        finally:
            await upload.close()

    async def close(self) -> None:
        self._is_closed = True
        for upload in list(self._uploads):
            await upload.close()
        if (opened := self._clients.get(asyncio.get_running_loop())) is not None:
            await opened[1].aclose()

    @asynccontextmanager
    async def _exchange(self, spec: RequestSpec) -> AsyncIterator[Reply]:
        import httpx2  # noqa: PLC0415 - as above

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


class BlockingConnection(Connection):
    """A service asked without asyncio, from several threads; `close` ends what they wait for."""

    def open(self) -> None:
        import httpx2  # noqa: PLC0415 - as above

        self._is_closed = False
        self._closing = threading.Event()
        self._deadline = threading.local()
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._siblings = weakref.WeakSet[BlockingConnection]()
        self._client = httpx2.Client(**self._options)

    def sibling(self) -> Self:
        """Return a connection to the same service that can be closed alone, and is closed with this one."""
        if self._is_closed:
            raise ClientClosed("the client is closed")
        twin = copy(self)
        twin.open()
        self._siblings.add(twin)
        return twin

    @asynccontextmanager
    async def limit(self, seconds: float | None) -> AsyncIterator[None]:
        """Bound each wait, for bytes or for the next attempt, by what is left."""
        self._deadline.until = math.inf if seconds is None else time.monotonic() + seconds
        try:
            yield
        finally:
            self._deadline.until = math.inf

    async def sleep(self, seconds: float) -> None:
        self._closing.wait(min(seconds, self._left()))
        self._left()

    async def close(self) -> None:
        self._is_closed = True
        self._closing.set()
        for sibling in list(self._siblings):
            await sibling.close()
        with self._lock:
            for each in self._sockets:
                _shut_down(each)
        self._client.close()

    @asynccontextmanager
    async def _exchange(self, spec: RequestSpec) -> AsyncIterator[Reply]:
        import httpx2  # noqa: PLC0415 - as above

        left = self._left()
        extensions: dict[str, Any] = {"trace": self._note}
        if left < self._timeout:
            extensions["timeout"] = {"connect": min(left, CONNECT_SECONDS), "read": left, "write": left}
        try:
            with self._client.stream(**spec.arguments(), extensions=extensions) as response:
                async with aclosing(self._each(response.iter_bytes())) as parts:
                    yield Reply(response.status_code, response.headers, parts)
        except httpx2.TimeoutException:
            self._left()
            raise

    async def _each(self, items: Iterable[bytes]) -> AsyncGenerator[bytes, None]:
        for item in items:
            yield item
            self._left()

    def _left(self) -> float:
        """Return the seconds that `limit` leaves; raise TimeoutError if there are none."""
        left = float(getattr(self._deadline, "until", math.inf)) - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def _note(self, event: str, info: Mapping[str, Any]) -> None:
        """Keep each socket, as httpx2 tells of it: nothing else ends a thread that waits for bytes."""
        if not event.endswith((".connect_tcp.complete", ".start_tls.complete")):
            return
        made = info["return_value"].get_extra_info("socket")
        with self._lock:
            self._sockets = [*(each for each in self._sockets if each.fileno() >= 0), made]
        if self._is_closed:
            _shut_down(made)


def run_now(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine over a `BlockingConnection`, which never suspends it."""
    try:
        coroutine.send(None)
    except StopIteration as ended:
        result: T = ended.value
        return result
    coroutine.close()
    raise RuntimeError("something here waits for an event loop; AsyncPlumbline takes async iterables")


def iterate_now(items: AsyncGenerator[T, None]) -> Generator[T, None, None]:
    """Yield the items of a generator over a `BlockingConnection`; closing this closes it."""
    try:
        while True:
            try:
                item = run_now(items.__anext__())
            except StopAsyncIteration:
                return
            yield item
    finally:
        run_now(items.aclose())


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
            f"no service is named: give base_url, http://127.0.0.1:8000 for example, or set {URL_VARIABLE}"
        )
    place = "base_url" if base_url is not None else URL_VARIABLE
    try:
        url = httpx2.URL(found or "")
    except (httpx2.InvalidURL, TypeError):
        raise ConfigurationError(f"{place}: not a URL; expected one like http://127.0.0.1:8000") from None
    if url.scheme not in ("http", "https") or not url.host or url.query or url.fragment or url.userinfo:
        raise ConfigurationError(
            f"{place}: expected http:// or https:// with a host, like http://127.0.0.1:8000, and no user, no query and "
            "no fragment"
        )
    return url


def _key_header(api_key: str | None) -> dict[str, str]:
    if not (key := find_key(api_key)):
        return {}
    if not (key.isascii() and key.isprintable()):
        raise ConfigurationError(f"api_key ({KEY_VARIABLE}): expected visible ASCII characters alone")
    return {"authorization": f"Bearer {key}"}


def _shut_down(each: socket.socket) -> None:
    """End the connection under a thread that reads from it; the methods of a TLS socket would take its state away."""
    with suppress(OSError):
        socket.socket.shutdown(each, socket.SHUT_RDWR)
