"""Client of a provider's Batch API: uploads, downloads, batches."""

import asyncio
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final, Literal, NamedTuple, TypeVar

import httpx2
from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from plumbline.ground.errors import BatchApiError
from plumbline.models.chat.api_client import ApiClient
from plumbline.models.chat.call_failures import shown, status_failure
from plumbline.models.chat.endpoints import Endpoint
from plumbline.models.chat.http_client import is_untrusted

_ReadT = TypeVar("_ReadT", bound=BaseModel)

ENDED: Final = frozenset({"completed", "failed", "expired", "cancelled"})
_TAG: Final = "plumbline"
# Files have hundreds of megabytes.
_TIMEOUT: Final = httpx2.Timeout(1_800.0, connect=10.0)
_TRIES: Final = 6
_FIRST_PAUSE_SECONDS: Final = 0.5
_PAGE: Final = 100
_PAGES_AT_MOST: Final = 20
_MAX_ERRORS_SHOWN: Final = 3

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
        self._api = ApiClient(endpoint, timeout=_TIMEOUT)

    async def upload(self, path: Path, name: str) -> str:
        """Upload a file under a name and return its id."""
        # Sent from the disk as it is read: a file of the largest size would take its size of memory.
        with path.open("rb") as file:
            form: dict[str, Any] = {
                "files": {"file": (name, file, "application/jsonl")},
                "body": {"purpose": "batch"},
                "headers": {"Content-Type": "multipart/form-data"},
            }
            return self._read(_File, await self._call("post", "/files", **form)).id

    async def find_upload(self, name: str, size: int) -> str | None:
        """Return the id of a file with this name and size; None if the provider lists none, or lists no files.

        A provider that does not list its files gets the file once more, which costs nothing.
        """
        try:
            async for item in self._listed("/files", purpose="batch"):
                file = _File.model_validate(item)
                if (file.filename, file.bytes) == (name, size):
                    return file.id
        except BatchApiError as error:
            if error.is_retryable:
                raise
        return None

    async def create(self, file_id: str, *, endpoint: str, window: str, tag: str) -> BatchInfo:
        """Create a batch, without retries: the caller knows if it may be created twice."""
        metadata = {_TAG: tag}
        if self._endpoint.provider.name.startswith("dashscope"):
            metadata["ds_name"] = f"{_TAG} {tag[:12]}"
        asked = {"input_file_id": file_id, "endpoint": endpoint, "completion_window": window, "metadata": metadata}
        body = await self._call("post", "/batches", tries=1, body=asked)
        return self._read(_Batch, body).info(self._endpoint)

    async def find_batch(self, file_id: str, tag: str) -> BatchInfo | None:
        """Return the batch of this file or with this tag; None if the provider lists none."""
        async for item in self._listed("/batches"):
            batch = _Batch.model_validate(item)
            if batch.input_file_id == file_id or batch.metadata.get(_TAG) == tag:
                return batch.info(self._endpoint)
        return None

    async def batch(self, batch_id: str) -> BatchInfo:
        return self._read(_Batch, await self._call("get", f"/batches/{batch_id}")).info(self._endpoint)

    async def download(self, file_id: str, path: Path) -> None:
        with path.open("wb") as file:
            await self._call("get", f"/files/{file_id}/content", into=file)

    async def close(self) -> None:
        await self._api.close()

    async def _listed(self, path: str, **query: str) -> AsyncIterator[dict[str, object]]:
        """Yield the items of all pages that have an id."""
        for _ in range(_PAGES_AT_MOST):
            listed = self._read(_Page, await self._call("get", path, query={"limit": str(_PAGE), **query}))
            items = [item for item in listed.data if isinstance(item.get("id"), str) and item["id"]]
            for item in items:
                yield item
            if not items or not listed.has_more:
                return
            query["after"] = str(items[-1]["id"])

    async def _call(
        self,
        method: Literal["get", "post"],
        path: str,
        *,
        tries: int = _TRIES,
        into: BinaryIO | None = None,
        **options: Any,
    ) -> bytes:
        """Return the body of a success, or write it `into` a file."""
        for attempt in count(1):
            try:
                return await self._once(method, path, into, options)
            except BatchApiError as error:
                if attempt == tries or not error.is_retryable:
                    raise
                await asyncio.sleep(error.wait_seconds or _FIRST_PAUSE_SECONDS * 2 ** (attempt - 1))
        raise AssertionError

    async def _once(
        self, method: Literal["get", "post"], path: str, into: BinaryIO | None, options: dict[str, Any]
    ) -> bytes:
        """Make one call; errors tell of the provider's words its code alone."""
        host = self._endpoint.host
        try:
            reply = await self._api.send(method, path, is_streamed=into is not None, **options)
            if into is not None and reply.is_success:
                into.seek(0)
                into.truncate()
                async for part in reply.aiter_bytes():
                    into.write(part)
                return b""
        except httpx2.HTTPError as error:
            raise BatchApiError(
                f"{host}: no connection ({type(error).__name__})", is_retryable=not is_untrusted(error), is_unsure=True
            ) from error
        if reply.is_success:
            return reply.content
        failure = status_failure(reply.status_code, reply.headers, reply.content, self._endpoint)
        raise BatchApiError(
            f"{host}: {failure.detail}",
            is_retryable=failure.is_retryable,
            is_unsure=reply.is_server_error,
            wait_seconds=failure.wait_seconds,
        )

    def _read(self, form: type[_ReadT], body: bytes) -> _ReadT:
        try:
            return form.model_validate_json(body)
        except ValidationError as error:
            raise BatchApiError(
                f"{self._endpoint.host}: the reply is not one of a Batch API", is_unsure=True
            ) from error


def _error_word(error: _BatchError, endpoint: Endpoint) -> str:
    word = shown(error.code, endpoint) or "error"
    return f"{word} in line {error.line}" if isinstance(error.line, int) else word
