"""Ways to send a batch, to read what comes back, and to hold up what judges it or reads it."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx2
from fastapi import FastAPI
from starlette.types import Message

from plumbline.ground.phrases import load_data
from plumbline.judging.ports.token_vectors import TokenizedTexts
from plumbline.schemas.batch import BatchError, BatchResult, BatchResults, BatchSummary
from plumbline.service.api.responses import JSON, NDJSON
from tests.doubles.fakes import WordEncoder
from tests.running.edge_app import scope_of
from tests.running.service import plain_settings, running

BATCH_URL = "/v1/evaluations/batch"
CONTEXT = "The Marlow Bridge was opened in 1931."
SLOW = "Slowpoke"
BUGGY = "Zerodivide"


def row(name: str | None = None, answer: Any = CONTEXT, **fields: Any) -> dict[str, Any]:
    """A sample with one context, which its answer repeats unless told otherwise."""
    named = {} if name is None else {"custom_id": name}
    return {**named, "contexts": [CONTEXT], "answer": answer, **fields}


class GatedEncoder(WordEncoder):
    """Waits with texts that have the word `SLOW` until its gate is open, and has a bug that `BUGGY` meets.

    Attributes:
        in_flight: samples that it holds now; most: those that it held at one time; begun, cancelled: all of them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.in_flight = self.most = self.begun = self.cancelled = 0

    async def read(self, texts: Sequence[str], *, seconds: float, scope: str = "") -> TokenizedTexts:
        if list(texts) == load_data("judging/tiers/unrelated_sentences")["en"]:
            # No sample: an uncalibrated model is asked once for the range of its cosines
            return await super().read(texts, seconds=seconds)
        self.begun += 1
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        try:
            if any(BUGGY in text for text in texts):
                raise ZeroDivisionError(f"PLANTED {texts}")
            if any(SLOW in text for text in texts):
                await self.gate.wait()
            return await super().read(texts, seconds=seconds)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.in_flight -= 1


async def post(
    *samples: Any,
    settings: dict[str, Any] | None = None,
    encoder: WordEncoder | None = None,
    accept: str | None = None,
    **envelope: Any,
) -> httpx2.Response:
    """The answer of a service without a judge to a batch, in lines by default; lone surrogates go out escaped."""
    if accept is None and "format" not in envelope:
        accept = NDJSON
    async with running(plain_settings(**(settings or {})), encoder=encoder) as client:
        body = json.dumps({"samples": samples, **envelope})
        headers = {"content-type": "application/json", **({} if accept is None else {"accept": accept})}
        return await client.post(BATCH_URL, content=body, headers=headers)


def read_lines(response: httpx2.Response) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The rows and the summary of an answer in lines, once every line is proven to be of its schema."""
    assert response.status_code == 200, response.text[:500]
    assert response.headers["content-type"] == NDJSON
    assert response.text.endswith("\n")
    # every end of a line that Unicode knows
    *rows, last = response.text.splitlines()
    summary = json.loads(last)
    assert set(summary) == {"summary"}
    BatchSummary.model_validate(summary["summary"])
    return [read_row(each) for each in rows], summary["summary"]


def read_row(line: str | bytes) -> dict[str, Any]:
    """One row, proven to be of one of the two schemas."""
    value: dict[str, Any] = json.loads(line)
    (BatchResult if "result" in value else BatchError).model_validate_json(line)
    return value


def read_array(response: httpx2.Response) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The rows and the summary of an answer in one object, proven to be of its schema."""
    assert response.status_code == 200, response.text[:500]
    assert response.headers["content-type"] == JSON
    BatchResults.model_validate_json(response.content)
    value = response.json()
    assert set(value["summary"]) == set(BatchSummary.model_fields)
    return value["results"], value["summary"]


class Reader:
    """A caller at the app's own door, who takes a piece of the answer when told to and leaves when told to."""

    def __init__(self, app: FastAPI, *samples: Any, **envelope: Any) -> None:
        self.pieces: list[bytes] = []
        self.is_complete = False
        self._app = app
        self._body = json.dumps({"samples": samples, "format": "ndjson", **envelope}).encode()
        self._is_sent = False
        self._may_take = asyncio.Semaphore(0)
        self._taken = asyncio.Event()
        self._is_gone = asyncio.Event()

    @property
    def rows(self) -> list[dict[str, Any]]:
        """What was taken of an answer in lines."""
        return [json.loads(piece) for piece in self.pieces]

    @contextlib.asynccontextmanager
    async def reading(self) -> AsyncIterator["asyncio.Task[None]"]:
        """The request under way; it is over when the context is."""
        scope = scope_of(BATCH_URL, "POST", content_type="application/json")
        task = asyncio.create_task(self._app(scope, self._receive, self._send))
        try:
            yield task
        finally:
            self.leave()
            await task

    async def take(self, pieces: int = 1) -> None:
        """Takes so many pieces, each a row or the summary."""
        for _ in range(pieces):
            self._taken.clear()
            self._may_take.release()
            await self._taken.wait()

    def leave(self) -> None:
        """Closes the connection."""
        self._is_gone.set()

    async def _receive(self) -> Message:
        if not self._is_sent:
            self._is_sent = True
            return {"type": "http.request", "body": self._body, "more_body": False}
        await self._is_gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self.is_complete = True
        if not message.get("body"):
            return
        await self._may_take.acquire()
        self.pieces.append(message["body"])
        self._taken.set()


async def settled(encoder: GatedEncoder, *, pauses: int = 10) -> int:
    """How many samples the encoder has begun, when it has begun no more for so many hundredths of a second."""
    begun, quiet = -1, 0
    while quiet < pauses:
        quiet = quiet + 1 if encoder.begun == begun else 0
        begun = encoder.begun
        await asyncio.sleep(0.01)
    return begun
