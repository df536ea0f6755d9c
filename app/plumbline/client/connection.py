"""Requests to one service: its address and key, the errors of the way, and what is tried again."""

import os
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import IO, Any, Final

import httpx2

from plumbline.client.failures import AnswerCut, AnswerUnreadable, ClientClosed, ClientError, NotReached, TimedOut
from plumbline.client.reading import failure_of
from plumbline.client.retries import Patience, Retries
from plumbline.ground.errors import ConfigurationError

KEY_VARIABLE: Final = "PLUMBLINE_API_KEY"
CONNECT_SECONDS: Final = 5.0
JSON_HEADERS: Final[Mapping[str, str]] = {"content-type": "application/json"}
_KEPT_CONNECTIONS: Final = 32
# The service leaves idle connections after 5 s; one that is used at that moment would be cut.
_KEPT_SECONDS: Final = 3.0


@dataclass(frozen=True, slots=True)
class Ask:
    """One request. A file in `files` is read from its beginning at each attempt.

    `is_repeatable`: whether it may arrive twice; otherwise it is sent again only when it has not left.
    """

    method: str
    path: str
    params: Mapping[str, str | int] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = None
    data: Mapping[str, str] | None = None
    files: Mapping[str, tuple[str, IO[bytes], str]] | None = None
    is_repeatable: bool = True


class Connection:
    """One service. Redirects are not followed: the key goes to this address and to no other.

    Args:
        base_url: of the service, with the path under which a proxy has it, without `/v1`.
        api_key: None: that of the environment variable `PLUMBLINE_API_KEY`, none when that is empty.
        timeout: seconds without a byte after which an answer is given up, or the whole choice.
        transport: in place of the network.

    Raises:
        ConfigurationError: the address is none, or the key cannot stand in a header.
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None,
        timeout: float | httpx2.Timeout,
        retries: Retries,
        transport: httpx2.AsyncBaseTransport | None,
    ) -> None:
        self.retries = retries
        self._client = httpx2.AsyncClient(
            base_url=_checked_url(base_url),
            headers=_headers(api_key),
            timeout=timeout if isinstance(timeout, httpx2.Timeout) else _timeout(timeout),
            limits=httpx2.Limits(
                max_connections=None,
                max_keepalive_connections=_KEPT_CONNECTIONS,
                keepalive_expiry=_KEPT_SECONDS,
            ),
            transport=transport,
            follow_redirects=False,
        )

    async def answer(self, ask: Ask) -> httpx2.Response:
        """The whole answer, a success.

        Raises:
            ClientError: what was in the way after the last attempt.
        """
        patience = Patience(self.retries)
        while True:
            try:
                async with self.stream(ask) as response:
                    with mapped_errors():
                        await response.aread()
                    return response
            except ClientError as failure:
                if not ask.is_repeatable and not isinstance(failure, NotReached):
                    raise
                await patience.sleep_after(failure)

    @asynccontextmanager
    async def stream(self, ask: Ask) -> AsyncIterator[httpx2.Response]:
        """A success whose body is still to be read, in one attempt.

        Raises:
            ClientError: it was refused, or something was in the way; also while the body is read in `mapped_errors`.
        """
        if self._client.is_closed:
            raise ClientClosed("the client is closed")
        with mapped_errors():
            response = await self._client.send(self._request(ask), stream=True)
        try:
            if not response.is_success:
                with mapped_errors():
                    await response.aread()
                raise failure_of(response)
            yield response
        finally:
            await response.aclose()

    async def close(self) -> None:
        """Closes the connections."""
        await self._client.aclose()

    def _request(self, ask: Ask) -> httpx2.Request:
        sent: dict[str, Any] = {"content": ask.content, "data": ask.data, "files": ask.files}
        given = {name: value for name, value in sent.items() if value is not None}
        return self._client.build_request(
            ask.method, ask.path, params=ask.params or None, headers=dict(ask.headers), **given
        )


async def lines_of(response: httpx2.Response) -> AsyncGenerator[bytes, None]:
    """The lines of a body as they come, without their ends; blank ones are left out.

    Raises:
        ClientError: the body was cut, also where only the end of the last line is missing.
    """
    rest: list[bytes] = []
    with mapped_errors():
        async for chunk in response.aiter_bytes():
            first, *others = chunk.split(b"\n")
            rest.append(first)
            for other in others:
                if line := b"".join(rest).strip():
                    yield line
                rest = [other]
    if b"".join(rest).strip():
        raise AnswerCut("the answer ended within a line")


@contextmanager
def mapped_errors() -> Iterator[None]:
    """Errors of the way as those of this client."""
    try:
        yield
    except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError) as error:
        raise NotReached(f"{_place(error)} cannot be reached: {_reason(error)}") from error
    except httpx2.TimeoutException as error:
        raise TimedOut(f"{_place(error)} did not answer in time ({type(error).__name__})") from error
    except httpx2.DecodingError as error:
        raise AnswerUnreadable(f"the answer of {_place(error)} cannot be decompressed") from error
    except (httpx2.TransportError, httpx2.StreamError) as error:
        raise AnswerCut(f"the connection to {_place(error)} ended before the answer did: {_reason(error)}") from error


def _checked_url(base_url: str) -> httpx2.URL:
    try:
        url = httpx2.URL(base_url)
    except (httpx2.InvalidURL, TypeError):
        raise ConfigurationError("base_url: not a URL; expected one like http://127.0.0.1:8000") from None
    if url.scheme not in ("http", "https") or not url.host:
        raise ConfigurationError("base_url: expected http:// or https:// with a host, like http://127.0.0.1:8000")
    if url.query or url.fragment or url.userinfo:
        raise ConfigurationError("base_url: expected no user, no query and no fragment")
    return url


def _headers(api_key: str | None) -> dict[str, str]:
    key = (os.environ.get(KEY_VARIABLE, "") if api_key is None else api_key).strip()
    if not key:
        return {}
    if not (key.isascii() and key.isprintable()):
        raise ConfigurationError(f"api_key ({KEY_VARIABLE}): expected visible ASCII characters alone")
    return {"authorization": f"Bearer {key}"}


def _timeout(seconds: float) -> httpx2.Timeout:
    return httpx2.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS))


def _place(error: Exception) -> str:
    request = getattr(error, "_request", None)
    return str(request.url.netloc, "ascii") if isinstance(request, httpx2.Request) else "the service"


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
