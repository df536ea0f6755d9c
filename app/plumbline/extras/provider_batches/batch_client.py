"""Client of a provider's Batch API, on the `openai` SDK: uploads, downloads, batches."""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, TypeVar, cast

import openai
from openai import AsyncOpenAI
from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from plumbline.ground.errors import BatchApiError, ConfigurationError
from plumbline.models.chat.call_failures import shown, status_failure
from plumbline.models.chat.endpoints import Endpoint

# The SDK's HTTP client is httpx below version 3, and httpx2 from then on.
_http: Any = import_module("httpx2" if int(openai.__version__.partition(".")[0]) >= 3 else "httpx")  # noqa: PLR2004

_ReadT = TypeVar("_ReadT", bound=BaseModel)

ENDED: Final = frozenset({"completed", "failed", "expired", "cancelled"})
_TAG: Final = "plumbline"
_CONNECT_SECONDS: Final = 10.0
# Files have hundreds of megabytes.
_CALL_SECONDS: Final = 1_800.0
_RETRIES: Final = 5
_PAGE: Final = 100
_PAGES_AT_MOST: Final = 20
_MAX_ERRORS_SHOWN: Final = 3
# The SDK adds headers from OPENAI_* variables, which belong to another vendor's account, and facts about this machine.
# By the last of these it tells itself to hand a response out as it came.
_HEADERS_KEPT: Final = frozenset(
    {"host", "content-type", "content-length", "transfer-encoding", "accept", "accept-encoding", "authorization",
     "user-agent", "connection", "x-stainless-raw-response"}
)  # fmt: skip

_Id = Annotated[str, Field(min_length=1, max_length=512)]
_Word = Annotated[str, BeforeValidator(lambda value: value.lower() if isinstance(value, str) else "")]
_IdOrNone = Annotated[str | None, BeforeValidator(lambda value: value if isinstance(value, str) and value else None)]
_Count = Annotated[int, BeforeValidator(lambda value: value if isinstance(value, int) and value > 0 else 0)]


class BatchInfo(NamedTuple):
    """State of a batch, as the provider reports it.

    `status` is its word in lower case; one of `ENDED` does not change any more. The files are None until they are
    there, and where there is none. `errors` are codes and numbers of lines, never a text.
    """

    id: str
    status: str
    output_file_id: str | None = None
    error_file_id: str | None = None
    total: int = 0
    completed: int = 0
    failed: int = 0
    errors: tuple[str, ...] = ()


class _Counts(BaseModel):
    total: _Count = 0
    completed: _Count = 0
    failed: _Count = 0


class _BatchError(BaseModel):
    code: object = None
    line: object = None


class _BatchErrors(BaseModel):
    data: Annotated[list[_BatchError], BeforeValidator(lambda value: value if isinstance(value, list) else [])] = Field(
        default_factory=list
    )


def _object(value: object) -> object:
    return value if isinstance(value, dict) else {}


class _Batch(BaseModel):
    """The fields that we read of a batch; malformed ones count as missing."""

    id: _Id
    status: _Word = ""
    input_file_id: _IdOrNone = None
    output_file_id: _IdOrNone = None
    error_file_id: _IdOrNone = None
    request_counts: Annotated[_Counts, BeforeValidator(_object)] = Field(default_factory=_Counts)
    errors: Annotated[_BatchErrors, BeforeValidator(_object)] = Field(default_factory=_BatchErrors)
    metadata: Annotated[dict[str, Any], BeforeValidator(_object)] = Field(default_factory=dict)

    def info(self, endpoint: Endpoint) -> BatchInfo:
        counts = self.request_counts
        errors = [_error_word(error, endpoint) for error in self.errors.data[:_MAX_ERRORS_SHOWN]]
        return BatchInfo(
            self.id, self.status, self.output_file_id, self.error_file_id,
            counts.total, counts.completed, counts.failed, tuple(errors),
        )  # fmt: skip


class _File(BaseModel):
    id: _Id
    filename: _IdOrNone = None
    bytes: _Count = 0


class _Page(BaseModel):
    data: Annotated[list[dict[str, Any]], BeforeValidator(lambda value: value if isinstance(value, list) else [])]
    has_more: Annotated[bool, BeforeValidator(lambda value: value is True)] = False


class BatchClient:
    """The Batch API at one endpoint. Idempotent calls are retried, as `Retry-After` says."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        timeout = openai.Timeout(_CALL_SECONDS, connect=_CONNECT_SECONDS)
        self._client = AsyncOpenAI(
            api_key=endpoint.api_key,
            base_url=endpoint.base_url,
            max_retries=_RETRIES,
            # Beats an Authorization line in OPENAI_CUSTOM_HEADERS, which would beat `api_key`.
            default_headers={"Authorization": f"Bearer {endpoint.api_key}"},
            timeout=timeout,
            # A redirect would hand the key and the texts to a host that is not in the settings.
            http_client=_new_http_client(timeout, endpoint.extra_headers),
        )

    async def upload(self, path: Path, name: str) -> str:
        """Upload a file under a name and return its id."""
        # Sent from the disk as it is read: a file of the largest size would take its size of memory.
        with path.open("rb") as file:
            async with self._mapped_errors():
                reply = await self._client.files.with_raw_response.create(
                    file=(name, file, "application/jsonl"), purpose="batch"
                )
        return self._read(_File, reply.content).id

    async def find_upload(self, name: str, size: int) -> str | None:
        """Return the id of a file with this name and size; None if the provider lists none, or lists no files.

        A provider that does not list its files gets the file once more, which costs nothing.
        """

        async def page(after: str | openai.Omit) -> bytes:
            files = self._client.files.with_raw_response
            return (await files.list(limit=_PAGE, purpose="batch", after=after)).content

        try:
            async for item in self._listed(page):
                file = _File.model_validate(item)
                if (file.filename, file.bytes) == (name, size):
                    return file.id
        except BatchApiError as error:
            if error.is_retryable:
                raise
        return None

    async def create(self, file_id: str, *, endpoint: str, window: str, tag: str) -> BatchInfo:
        """Create a batch, without retries: the caller knows if it may be created twice."""
        once = self._client.with_options(max_retries=0)
        metadata = {_TAG: tag}
        if self._endpoint.provider.name.startswith("dashscope"):
            metadata["ds_name"] = f"{_TAG} {tag[:12]}"
        async with self._mapped_errors():
            reply = await once.batches.with_raw_response.create(
                input_file_id=file_id,
                endpoint=cast(Any, endpoint),
                completion_window=cast(Any, window),
                metadata=metadata,
            )
        return self._read(_Batch, reply.content).info(self._endpoint)

    async def find_batch(self, file_id: str, tag: str) -> BatchInfo | None:
        """Return the batch of this file or with this tag; None if the provider lists none."""

        async def page(after: str | openai.Omit) -> bytes:
            return (await self._client.batches.with_raw_response.list(limit=_PAGE, after=after)).content

        async for item in self._listed(page):
            batch = _Batch.model_validate(item)
            if batch.input_file_id == file_id or batch.metadata.get(_TAG) == tag:
                return batch.info(self._endpoint)
        return None

    async def batch(self, batch_id: str) -> BatchInfo:
        """Return the current state of a batch."""
        async with self._mapped_errors():
            reply = await self._client.batches.with_raw_response.retrieve(batch_id)
        return self._read(_Batch, reply.content).info(self._endpoint)

    async def download(self, file_id: str, path: Path) -> None:
        """Download a file."""
        async with self._mapped_errors(), self._client.files.with_streaming_response.content(file_id) as reply:
            with path.open("wb") as file:
                async for part in reply.iter_bytes():
                    file.write(part)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _listed(self, page: Callable[[str | openai.Omit], Awaitable[bytes]]) -> AsyncIterator[dict[str, object]]:
        """Yield the items of all pages that have an id."""
        after: str | openai.Omit = openai.omit
        for _ in range(_PAGES_AT_MOST):
            async with self._mapped_errors():
                body = await page(after)
            listed = self._read(_Page, body)
            items = [item for item in listed.data if isinstance(item.get("id"), str) and item["id"]]
            for item in items:
                yield item
            if not items or not listed.has_more:
                return
            after = str(items[-1]["id"])

    @asynccontextmanager
    async def _mapped_errors(self) -> AsyncIterator[None]:
        """Raise the SDK's errors as `BatchApiError`, without the provider's words except its code."""
        host = self._endpoint.host
        try:
            yield
        except openai.APIStatusError as error:
            failure = status_failure(error.response.status_code, error.response.headers, _body(error), self._endpoint)
            is_fault = error.response.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR
            raise BatchApiError(
                f"{host}: {failure.detail}",
                is_retryable=failure.is_retryable,
                is_unsure=is_fault,
                wait_seconds=failure.wait_seconds,
            ) from error
        except (openai.APIError, _http.HTTPError) as error:
            is_untrusted = isinstance(error.__cause__, ssl.SSLCertVerificationError)
            name = type(error.__cause__ or error).__name__
            raise BatchApiError(
                f"{host}: no connection ({name})", is_retryable=not is_untrusted, is_unsure=True
            ) from error

    def _read(self, form: type[_ReadT], body: bytes) -> _ReadT:
        try:
            return form.model_validate_json(body)
        except ValidationError as error:
            raise BatchApiError(
                f"{self._endpoint.host}: the reply is not one of a Batch API", is_unsure=True
            ) from error


class _PlainHttpClient(openai.DefaultAsyncHttpxClient):
    """An HTTP client that sends no header but those of the call itself and of the settings."""

    extra_headers: tuple[tuple[str, str], ...] = ()

    def build_request(self, *arguments: Any, **options: Any) -> Any:
        request = super().build_request(*arguments, **options)
        for name in [name for name in request.headers if name.lower() not in _HEADERS_KEPT]:
            del request.headers[name]
        request.headers.update(self.extra_headers)
        return request


def _new_http_client(timeout: openai.Timeout, extra_headers: tuple[tuple[str, str], ...]) -> _PlainHttpClient:
    try:
        client = _PlainHttpClient(timeout=timeout, follow_redirects=False)
        client.extra_headers = extra_headers
        return client
    except (ValueError, _http.InvalidURL):
        # The original message quotes the URL, password and all.
        raise ConfigurationError(
            "HTTP_PROXY, HTTPS_PROXY or ALL_PROXY: not the URL of a proxy that the Batch API can be reached through; "
            "expected http://, https://, socks5:// or socks5h://"
        ) from None


def _body(error: openai.APIStatusError) -> bytes:
    try:
        return error.response.content
    except _http.ResponseNotRead:
        return b""


def _error_word(error: _BatchError, endpoint: Endpoint) -> str:
    word = shown(error.code, endpoint) or "error"
    return f"{word} in line {error.line}" if isinstance(error.line, int) else word
