"""Requests to one service: its address and key, errors of the connection, and retries."""

import os
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field
from typing import IO, Final
from urllib.parse import SplitResult, quote, urlencode, urlsplit

import h11

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
from plumbline.ground.connections import ConnectError, ConnectionLimits, HttpConnections, HttpResponse
from plumbline.ground.errors import ConfigurationError
from plumbline.ground.proxies import DEFAULT_PORTS, find_proxy
from plumbline.ground.version import USER_AGENT

KEY_VARIABLE: Final = "PLUMBLINE_API_KEY"
CONNECT_SECONDS: Final = 5.0
JSON_HEADERS: Final[Mapping[str, str]] = {"content-type": "application/json"}
_KEPT_CONNECTIONS: Final = 32
# The service closes idle connections after 5 s; one that is used at that moment would be cut.
_KEPT_SECONDS: Final = 3.0
_PART_BYTES: Final = 65_536
# Characters that a path may hold as they are (RFC 3986), and what is escaped already.
_PATH_CHARACTERS: Final = "/%:@!$&'()*+,;=~"


@dataclass(frozen=True, slots=True)
class FormFile:
    """A form with one file, which is read from its beginning at each attempt."""

    fields: Mapping[str, str]
    name: str
    file: IO[bytes]
    boundary: str

    def parts(self) -> Iterator[bytes]:
        """Yield the form as multipart/form-data (RFC 7578), the file in pieces."""
        start, end = self._around()
        yield start
        self.file.seek(0)
        while piece := self.file.read(_PART_BYTES):
            yield piece
        yield end

    def size(self) -> int:
        """Return the bytes of all parts."""
        start, end = self._around()
        return len(start) + self.file.seek(0, os.SEEK_END) + len(end)

    def _around(self) -> tuple[bytes, bytes]:
        name = self.name.replace("\\", "\\\\").replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
        fields = "".join(
            f'--{self.boundary}\r\nContent-Disposition: form-data; name="{field}"\r\n\r\n{value}\r\n'
            for field, value in self.fields.items()
        )
        file = f'--{self.boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
        start = f"{fields}{file}Content-Type: application/octet-stream\r\n\r\n"
        return start.encode(), f"\r\n--{self.boundary}--\r\n".encode()


@dataclass(frozen=True, slots=True)
class RequestSpec:
    """One request. `is_repeatable`: it may arrive twice; otherwise it is sent again only when it has not left."""

    method: str
    path: str
    params: Mapping[str, str | int] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | FormFile = b""
    is_repeatable: bool = True


class Connection:
    """One service; arguments as of `AsyncPlumbline`. Redirects are not followed: the key goes nowhere else."""

    def __init__(self, base_url: str, *, api_key: str | None, timeout: float, retries: Retries) -> None:
        self.retries = retries
        url = _checked_url(base_url)
        host, port = str(url.hostname), url.port or DEFAULT_PORTS[url.scheme]
        proxy = find_proxy(url.scheme, host, port)
        is_tls, is_tls_proxy = url.scheme == "https", proxy is not None and proxy.scheme == "https"
        self._connections = HttpConnections(
            host,
            port,
            limits=ConnectionLimits(min(timeout, CONNECT_SECONDS), timeout, _KEPT_SECONDS, _KEPT_CONNECTIONS),
            tls=_tls() if is_tls else None,
            proxy=proxy,
            proxy_tls=_tls() if is_tls_proxy else None,
        )
        self._headers = {"host": url.netloc, "accept": "*/*", "user-agent": USER_AGENT, **_key_header(api_key)}
        self._base, self._place = quote(url.path.rstrip("/"), safe=_PATH_CHARACTERS), url.netloc
        if proxy is not None and not proxy.is_socks and not is_tls:
            # Such a proxy is asked for the whole URL (RFC 9112, 3.2.2).
            self._base = f"http://{url.netloc}{self._base}"
            if proxy.authorization:
                self._headers["proxy-authorization"] = proxy.authorization
        self._is_closed = False

    async def answer(self, spec: RequestSpec) -> bytes:
        """Return the whole body of a success; raise the failure of the last attempt."""
        state = RetryState(self.retries)
        while True:
            try:
                async with self.stream(spec) as response:
                    return await self._read(response)
            except ClientError as failure:
                if not spec.is_repeatable and not isinstance(failure, NotReached):
                    raise
                await state.sleep_after(failure)

    @asynccontextmanager
    async def stream(self, spec: RequestSpec) -> AsyncIterator[HttpResponse]:
        """Send a request once and give the response of a success; any failure, also of reading it, is a ClientError."""
        if self._is_closed:
            raise ClientClosed("the client is closed")
        query = f"?{urlencode(spec.params)}" if spec.params else ""
        content, headers = spec.content, {**self._headers, **spec.headers}
        if isinstance(content, FormFile):
            headers["content-type"] = f"multipart/form-data; boundary={content.boundary}"
        body: Iterable[bytes] = content.parts() if isinstance(content, FormFile) else [content] if content else ()
        if content or spec.method == "POST":
            headers["content-length"] = str(content.size() if isinstance(content, FormFile) else len(content))
        head = h11.Request(method=spec.method, target=f"{self._base}{spec.path}{query}", headers=list(headers.items()))
        with self._mapped_errors(), closing(await self._connections.send(head, body)) as response:
            if response.headers.get("content-encoding", "identity") != "identity":
                raise AnswerUnreadable(f"the answer of {self._place} is compressed, which was not asked for")
            if not 200 <= response.status < 300:  # noqa: PLR2004 - the successes of HTTP
                raise failure_of(response.status, response.headers, await self._read(response), spec.path)
            yield response

    async def close(self) -> None:
        """Close the connections."""
        self._is_closed = True
        self._connections.close()

    async def _read(self, response: HttpResponse) -> bytes:
        with self._mapped_errors():
            return b"".join([part async for part in response.body()])

    @contextmanager
    def _mapped_errors(self) -> Iterator[None]:
        try:
            yield
        except ConnectError as error:
            raise NotReached(f"{self._place} cannot be reached: {error}") from error
        except TimeoutError as error:
            raise TimedOut(f"{self._place} did not answer in time") from error
        except OSError as error:
            raise AnswerCut(f"the connection to {self._place} ended before the answer did: {error}") from error


async def lines_of(response: HttpResponse) -> AsyncGenerator[bytes, None]:
    """Yield the lines of a body that are not blank, without their ends; raise AnswerCut if the last one has none."""
    rest: list[bytes] = []
    async with aclosing(response.body()) as parts:
        async for part in parts:
            first, *others = part.split(b"\n")
            rest.append(first)
            for other in others:
                if line := b"".join(rest).strip():
                    yield line
                rest = [other]
    if b"".join(rest).strip():
        raise AnswerCut("the answer ended within a line")


def _checked_url(base_url: str) -> SplitResult:
    try:
        url = urlsplit(base_url)
        host, port = (url.hostname or "").encode("idna").decode("ascii"), url.port
    except (ValueError, AttributeError, TypeError):
        raise ConfigurationError("base_url: not a URL; expected one like http://127.0.0.1:8000") from None
    if url.scheme not in ("http", "https") or not host:
        raise ConfigurationError("base_url: expected http:// or https:// with a host, like http://127.0.0.1:8000")
    if url.query or url.fragment or "@" in url.netloc:
        raise ConfigurationError("base_url: expected no user, no query and no fragment")
    place = f"[{host}]" if ":" in host else host
    return url._replace(netloc=place if port in (None, DEFAULT_PORTS[url.scheme]) else f"{place}:{port}")


def _key_header(api_key: str | None) -> dict[str, str]:
    key = (os.environ.get(KEY_VARIABLE, "") if api_key is None else api_key).strip()
    if not key:
        return {}
    if not (key.isascii() and key.isprintable()):
        raise ConfigurationError(f"api_key ({KEY_VARIABLE}): expected visible ASCII characters alone")
    return {"authorization": f"Bearer {key}"}


def _tls() -> ssl.SSLContext:
    # A part of a second of import that plain HTTP never pays.
    import truststore  # noqa: PLC0415

    return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
