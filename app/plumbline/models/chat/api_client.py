"""The SDK's client of one endpoint of an OpenAI-compatible API: requests to its operations, and their responses."""

import logging
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

import httpx2

from plumbline.ground.version import USER_AGENT
from plumbline.models.chat.endpoints import Endpoint
from plumbline.models.chat.http_client import BoundedClient, find_proxy

if TYPE_CHECKING:
    from openai import AsyncOpenAI

NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})


class ApiClient:
    """Requests to one endpoint, without retries. Redirects are not followed.

    A redirect would hand the key and the texts to a host that is not in the settings. `max_reply_bytes`: None for no
    bound. Raises ConfigurationError for a proxy variable that holds no URL of a proxy.
    """

    def __init__(self, endpoint: Endpoint, *, timeout: httpx2.Timeout, max_reply_bytes: int | None = None) -> None:
        self._base_url = endpoint.base_url
        self.proxy = find_proxy(join_url(endpoint.base_url, ""))
        self._http = BoundedClient(timeout=timeout, proxy=self.proxy, max_reply_bytes=max_reply_bytes)
        self._api = _build_sdk(endpoint, self._http)

    async def send(
        self,
        method: Literal["get", "post"],
        path: str,
        *,
        headers: Mapping[str, str] = NO_HEADERS,
        query: Mapping[str, str] = NO_HEADERS,
        is_streamed: bool = False,
        **body: Any,
    ) -> httpx2.Response:
        """Return the response to a request, whatever its status, read whole unless it is a success and `is_streamed`.

        Args:
            path: behind the base URL's own, such as `/embeddings`.
            body: `body` (sent as JSON), `content` or `files`, as the SDK takes them.

        Raises:
            httpx2.HTTPError: no response came.
            ReplyTooLarge: the response is beyond the bound.
        """
        from openai import APIConnectionError, APIStatusError, AsyncStream, Omit  # noqa: PLC0415

        own = {"x-stainless-retry-count": Omit(), "x-stainless-read-timeout": Omit()}
        url = join_url(self._base_url, path).copy_merge_params(dict(query)) if query else join_url(self._base_url, path)
        try:
            response: httpx2.Response = await getattr(self._api, method)(
                str(url),
                cast_to=httpx2.Response,
                options={"headers": {**own, **headers}},
                stream=is_streamed,
                stream_cls=AsyncStream,
                **body,
            )
        except APIStatusError as error:
            return error.response
        except APIConnectionError as error:
            cause = error.__cause__
        else:
            return response
        # Outside the handler, whose error would stand in the chain of causes twice.
        if isinstance(cause, httpx2.HTTPError):
            raise cause
        raise httpx2.ReadError(str(cause)) from cause

    def sdk(self, *, max_retries: int) -> "AsyncOpenAI":
        """Return the SDK's own client, for what it has operations of."""
        url = join_url(self._base_url, "")
        # The SDK would append the path of an operation to the query.
        base_url, query = str(url.copy_with(query=None)), dict(url.params)
        return self._api.with_options(base_url=base_url, default_query=query, max_retries=max_retries)

    async def drop_connections(self) -> None:
        """Use new connections from the next call on; calls under way end on theirs."""
        await self._http.drop_connections()

    async def close(self) -> None:
        await self._api.close()


def _build_sdk(endpoint: Endpoint, http: httpx2.AsyncClient) -> "AsyncOpenAI":
    """Build the SDK's client, without retries, OPENAI_* variables and headers about this machine."""
    if "openai" not in sys.modules:
        _import_quietly()
    from openai import AsyncOpenAI  # noqa: PLC0415

    class Sdk(AsyncOpenAI):
        @property
        def default_headers(self) -> dict[str, Any]:
            return headers

    headers = {
        "Accept": "application/json",
        "Content-Type": "application/json",
        "User-Agent": USER_AGENT,
        **dict(endpoint.extra_headers),
    }
    base_url = str(join_url(endpoint.base_url, ""))
    return Sdk(api_key=endpoint.api_key, base_url=base_url, max_retries=0, http_client=http)


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
