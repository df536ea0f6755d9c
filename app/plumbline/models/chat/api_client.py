"""The SDK's client of one endpoint of an OpenAI-compatible API: requests to its operations, and their failures."""

import logging
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import httpx2
import msgspec

from plumbline.ground.errors import FailureReason
from plumbline.ground.proxies import find_proxy, proxy_place
from plumbline.ground.texts import CodedText
from plumbline.ground.version import USER_AGENT
from plumbline.judging.ports.observation import JudgeCallRecord
from plumbline.models.chat.call_failures import Blame, CallFailure, status_failure
from plumbline.models.chat.endpoints import DECISIONS_PATH, Endpoint
from plumbline.models.chat.http_client import ON_WRITTEN, BoundedClient, ReplyTooLarge, is_untrusted

if TYPE_CHECKING:
    from openai import AsyncOpenAI

MAX_REPLY_BYTES: Final = 8_388_608
# The caller's deadline bounds the wait for a reply. 256 first connections of a busy process take more than 5 s.
_TIMEOUT: Final = httpx2.Timeout(None, connect=10.0)
# The only header that a caller may add: the context of a trace.
_TRACE_HEADER: Final = "traceparent"
_DECISION_FIELDS: Final = ("model", "input", "questions")
# SOCKS proxies and httpcore2 use these words about credentials.
_DENIALS: Final = ("407", "username", "authentication", "acceptable")


class Exchange(NamedTuple):
    """One request and its response, for checks of a judge with texts of ours: both hold what no log may hold."""

    url: str
    sent: Mapping[str, object]
    status: int
    body: bytes
    seconds: float


class ApiClient:
    """Requests to one endpoint, without retries or redirects, which would hand key and texts to others."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        timeout: httpx2.Timeout = _TIMEOUT,
        max_reply_bytes: int | None = MAX_REPLY_BYTES,
        on_exchange: Callable[[Exchange], None] | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._on_exchange = on_exchange
        self._max_reply_bytes = max_reply_bytes
        self._proxy = find_proxy(join_url(endpoint.base_url, ""))
        self._http = BoundedClient(timeout=timeout, proxy=self._proxy, max_reply_bytes=max_reply_bytes)
        self._sdk = _build_sdk(endpoint, self._http)

    async def post(self, parameters: Mapping[str, object], record: JudgeCallRecord, *, path: str = "") -> bytes:
        """Return the body of a reply with a good status; raise CallFailure.

        `record`: `has_left` is set when the whole request was written, also if the call is cancelled afterwards: from
        then on the server may have read it, and bill it.
        """
        headers = {name: value for name, value in record.headers.items() if name.lower() == _TRACE_HEADER}
        path = path or self._endpoint.path
        url, started = join_url(self._endpoint.base_url, path), time.monotonic()
        watch = ON_WRITTEN.set(partial(setattr, record, "has_left", True))
        try:
            response = await self._send(url, headers, parameters, is_decision=path == DECISIONS_PATH)
        except httpx2.HTTPError as error:
            raise self._connection_failure(error) from error
        except ReplyTooLarge:
            detail = CodedText("reply_too_large", limit=self._max_reply_bytes or 0)
            raise CallFailure(FailureReason.INVALID_REPLY, detail) from None
        finally:
            ON_WRITTEN.reset(watch)
        if self._on_exchange is not None:
            shown_url, seconds = str(url.copy_with(query=None)), time.monotonic() - started
            self._on_exchange(Exchange(shown_url, parameters, response.status_code, response.content, seconds))
        if response.is_success:
            return response.content
        if self._proxy is not None and response.status_code == httpx2.codes.PROXY_AUTHENTICATION_REQUIRED:
            raise self._proxy_failure("407")
        raise status_failure(response.status_code, response.headers, response.content, self._endpoint)

    def operations(self, *, max_retries: int = 0) -> "AsyncOpenAI":
        """Return the SDK's own client, for the operations that it has."""
        url = join_url(self._endpoint.base_url, "")
        # The SDK would append the path of an operation to the query.
        base_url, query = str(url.copy_with(query=None)), dict(url.params)
        return self._sdk.with_options(base_url=base_url, default_query=query, max_retries=max_retries)

    async def drop_connections(self) -> None:
        """Use new connections from the next call on; calls under way end on theirs."""
        await self._http.drop_connections()

    async def close(self) -> None:
        await self._sdk.close()

    async def _send(
        self, url: httpx2.URL, headers: Mapping[str, str], parameters: Mapping[str, Any], *, is_decision: bool
    ) -> httpx2.Response:
        """Return the response, whatever its status; raise httpx2.HTTPError if none came, or ReplyTooLarge."""
        from openai import APIConnectionError, APIStatusError, Omit  # noqa: PLC0415

        sent: dict[str, Any] = {"x-stainless-retry-count": Omit(), "x-stainless-read-timeout": Omit(), **headers}
        try:
            if is_decision:
                fields = {name: parameters[name] for name in _DECISION_FIELDS}
                others = {name: value for name, value in parameters.items() if name not in fields}
                decisions = self.operations().decisions.with_raw_response
                raw = await decisions.create(**fields, extra_headers=sent, extra_body=others)
                return raw.http_response
            content = msgspec.json.encode(parameters)
            return await self._sdk.post(str(url), cast_to=httpx2.Response, content=content, options={"headers": sent})
        except APIStatusError as error:
            return error.response
        except APIConnectionError as error:
            cause = error.__cause__
        # Outside the handler, whose error would stand in the chain of causes twice.
        if isinstance(cause, httpx2.HTTPError):
            raise cause
        raise httpx2.ReadError(str(cause)) from cause

    def _connection_failure(self, error: httpx2.HTTPError) -> CallFailure:
        if isinstance(error, httpx2.ProxyError):
            return self._proxy_failure(str(error))
        host = self._endpoint.host
        if self._proxy:
            host = CodedText("host_by_proxy", host=host, proxy=proxy_place(self._proxy))
        is_refused = isinstance(error, httpx2.ConnectError) and is_untrusted(error)
        if isinstance(error, httpx2.ConnectTimeout):
            reason, detail = FailureReason.TIMEOUT, CodedText("no_connection_in_time", host=host)
        elif isinstance(error, httpx2.ConnectError):
            name = CodedText("certificate_not_trusted") if is_refused else type(error).__name__
            reason, detail = FailureReason.CONNECTION, CodedText("no_connection", host=host, error=name)
        else:
            reason = FailureReason.CONNECTION
            detail = CodedText("response_not_whole", host=host, error=type(error).__name__)
        # A certificate does not get better within the deadline.
        blame = Blame.CONFIGURATION if is_refused else Blame.TRANSPORT
        return CallFailure(reason, detail, is_retryable=not is_refused, blame=blame)

    def _proxy_failure(self, reason: str) -> CallFailure:
        place = proxy_place(self._proxy) if self._proxy else ""
        is_denied = any(word in reason.lower() for word in _DENIALS)
        shown = f"HTTP {reason[:3]}" if reason[:3].isdecimal() else reason.rpartition(": ")[2].rstrip(".")
        shown = CodedText("credentials_wrong", reason=shown) if is_denied else shown
        text = CodedText("proxy_refused", host=self._endpoint.host, proxy=place, reason=shown)
        blame = Blame.CONFIGURATION if is_denied else Blame.TRANSPORT
        return CallFailure(FailureReason.CONNECTION, text, is_retryable=not is_denied, blame=blame)


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
