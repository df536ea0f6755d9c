"""A provider's Batch API through the SDK: files, batches, and what the provider says of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx2

from plumbline.ground.errors import BatchApiError
from plumbline.models.chat.api_client import ApiClient
from plumbline.models.chat.call_failures import showable_word, status_failure
from plumbline.models.chat.endpoints import Endpoint

_ENDED: Final = frozenset({"completed", "failed", "expired", "cancelled"})
# Files have hundreds of megabytes.
_TIMEOUT: Final = httpx2.Timeout(1_800.0, connect=10.0)
_RETRIES: Final = 5
_PAGE: Final = 100
_ERRORS_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class BatchInfo:
    """State of a batch, as the provider reports it; a file is None until it is there.

    `note` has its counts and the codes of its errors, and none of their texts.
    """

    id: str
    status: str
    output_file_id: str | None = None
    error_file_id: str | None = None
    note: str = ""

    @property
    def is_ended(self) -> bool:
        return self.status in _ENDED

    def __str__(self) -> str:
        return f"{self.id} {self.status}{self.note}"


class BatchApi:
    """The Batch API at one endpoint, retried by the SDK but for the creation of a batch.

    Raises BatchApiError, which tells the code of the provider's error and none of its texts.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        """Raises ConfigurationError: a proxy variable holds no proxy."""
        self._endpoint = endpoint
        self._sdk = ApiClient(endpoint, timeout=_TIMEOUT, max_reply_bytes=None).operations(max_retries=_RETRIES)

    async def aclose(self) -> None:
        await self._sdk.close()

    async def upload(self, path: Path) -> str:
        with self._errors(), path.open("rb") as file:
            return _id_of(await self._sdk.files.create(file=(path.name, file, "application/jsonl"), purpose="batch"))

    async def create(self, file_id: str, *, endpoint: str, window: str) -> BatchInfo:
        """Create a batch, once: after an error that is unsure, look it up before creating it again."""
        once: Any = self._sdk.with_options(max_retries=0)
        with self._errors():
            return self._info(
                await once.batches.create(input_file_id=file_id, endpoint=endpoint, completion_window=window)
            )

    async def find_batch(self, file_id: str) -> BatchInfo | None:
        """Return the batch of a file; None if the provider lists none."""
        with self._errors():
            async for batch in self._sdk.batches.list(limit=_PAGE):
                if batch.input_file_id == file_id:
                    return self._info(batch)
        return None

    async def batch(self, batch_id: str) -> BatchInfo:
        with self._errors():
            return self._info(await self._sdk.batches.retrieve(batch_id))

    async def download(self, file_id: str, path: Path) -> None:
        partial = path.with_name(f"{path.name}.partial")
        with self._errors():
            async with self._sdk.files.with_streaming_response.content(file_id) as response:
                await response.stream_to_file(partial)
        partial.replace(path)

    def _info(self, batch: Any) -> BatchInfo:
        counts, errors = batch.request_counts, (batch.errors and batch.errors.data) or []
        total, completed, failed = (getattr(counts, name, 0) or 0 for name in ("total", "completed", "failed"))
        note = f", {completed + failed} of {total} done" if total else ""
        note += f", {failed} failed" if failed else ""
        note += "".join(f"; {self._word(error)}" for error in errors[:_ERRORS_SHOWN])
        files = batch.output_file_id or None, batch.error_file_id or None
        return BatchInfo(_id_of(batch), str(batch.status).lower(), *files, note)

    def _word(self, error: Any) -> str:
        word = showable_word(error.code, self._endpoint) or "error"
        return f"{word} in line {error.line}" if isinstance(error.line, int) else word

    @contextmanager
    def _errors(self) -> Iterator[None]:
        from openai import APIConnectionError, APIStatusError  # noqa: PLC0415

        host = self._endpoint.host
        try:
            yield
        except APIStatusError as error:
            reply = error.response
            failure = status_failure(reply.status_code, reply.headers, reply.content, self._endpoint)
            raise BatchApiError(f"{host}: {failure.detail}", is_unsure=reply.is_server_error) from error
        except (APIConnectionError, httpx2.HTTPError) as error:
            cause = type(error.__cause__ or error).__name__
            raise BatchApiError(f"{host}: no connection ({cause})", is_unsure=True) from error
        except (AttributeError, TypeError, ValueError) as error:
            # The SDK takes any JSON for what it expected.
            raise BatchApiError(f"{host}: the reply is not one of a Batch API", is_unsure=True) from error


def _id_of(reply: Any) -> str:
    if not isinstance(reply.id, str) or not reply.id:
        raise ValueError("no id")
    return reply.id
