"""Ways to run the service with a store of jobs, to work on its jobs row by row, and to read what it answers."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Collection
from typing import Any

import httpx2
from fastapi import FastAPI
from starlette.types import Message

from plumbline.ground.settings import Settings
from plumbline.judging.ports.exchange import Usage
from plumbline.main import create_app
from plumbline.rows.jobs.job import JobState
from plumbline.rows.jobs.store import JobStore
from plumbline.rows.records.record import Record, RecordProblem
from plumbline.rows.scored_row import RowStatus, ScoredRow
from plumbline.schemas.jobs import JobInfo
from tests.doubles.fakes import WordEncoder
from tests.doubles.memory_store import MemoryStore
from tests.running.edge_app import client_of, scope_of
from tests.running.service import plain_settings

JOBS_URL = "/v1/jobs"
LINES = "application/x-ndjson"
CONTEXT = "The Marlow Bridge was opened in 1931."

Scored = Callable[[Record | RecordProblem], ScoredRow]


def row(name: str, answer: str = CONTEXT, **fields: Any) -> dict[str, Any]:
    """A row with one context, which its answer repeats unless told otherwise."""
    return {"custom_id": name, "contexts": [CONTEXT], "answer": answer, **fields}


def lines(*rows: Any) -> bytes:
    """Rows as JSON Lines."""
    return b"".join(json.dumps(each).encode() + b"\n" for each in rows)


def app_with(store: JobStore, settings: Settings | None = None) -> FastAPI:
    """The service with this store, without anybody who works on its jobs."""
    return create_app(settings or plain_settings(), encoder=WordEncoder(), store=store)


@contextlib.asynccontextmanager
async def jobs_running(
    store: JobStore | None = None, settings: Settings | None = None
) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of the service with this store, in process, without anybody who works on its jobs."""
    app = app_with(store or MemoryStore(), settings)
    async with app.router.lifespan_context(app), client_of(app) as client:
        yield client


async def submitted(client: httpx2.AsyncClient, *names: str, **choices: Any) -> str:
    """The id of a new job with rows of these names."""
    body = {"rows": [row(name) for name in names], **choices}
    return str(read_job(await client.post(JOBS_URL, json=body), 202)["id"])


def read_job(response: httpx2.Response, status: int = 200) -> dict[str, Any]:
    """The job in a response, once it is proven to be of its schema."""
    assert response.status_code == status, response.text[:500]
    JobInfo.model_validate_json(response.content)
    return dict(response.json())


def read_rows(response: httpx2.Response) -> list[dict[str, Any]]:
    """The rows of results in lines."""
    assert response.status_code == 200, response.text[:500]
    assert response.headers["content-type"] == LINES
    return [json.loads(line) for line in response.text.splitlines()]


def judged(record: Record | RecordProblem, *, tier: str = "llm", is_degraded: bool = False) -> ScoredRow:
    """A row as a worker writes it: an error for one that could not be read, else a result with two fields."""
    name, number = record.custom_id, record.row
    if isinstance(record, RecordProblem):
        line = {"custom_id": name, "row": number, "line": record.line, "error": {"detail": record.found}}
        return ScoredRow(number, json.dumps(line).encode(), RowStatus.INVALID, None, False, Usage())
    line = {"custom_id": name, "row": number, "result": {"status": "judged", "tier": tier}}
    usage = Usage(calls=1, prompt_tokens=10, cost=0.25)
    return ScoredRow(number, json.dumps(line).encode(), RowStatus.JUDGED, tier, is_degraded, usage)


async def work(store: JobStore, *, rows: Collection[int] | None = None, scored: Scored = judged) -> None:
    """Works on these rows of a job, or on all."""
    lease = await store.lease()
    assert lease is not None
    waiting = [pending.row for pending in await store.rows(lease)]
    wanted = [each for each in waiting if rows is None or each.row in rows]
    is_done = len(wanted) == len(waiting)
    await store.commit(lease, [scored(each) for each in wanted], is_done=is_done)
    if not is_done:
        await store.release(lease)
    elif rows is None and (await store.get(lease.tenant, lease.job_id)).state is JobState.RUNNING:
        await work(store, scored=scored)


class Caller:
    """A caller at the app's own door, who reads what is answered to a GET until told to stop or to leave."""

    def __init__(self, app: FastAPI, path: str, *, is_stuck: bool = False) -> None:
        self.begun, self._is_gone = asyncio.Event(), asyncio.Event()
        self.status = 0
        self.pieces: list[bytes] = []
        self.is_complete = False
        self._is_stuck = is_stuck
        self.task = asyncio.create_task(app(scope_of(path), self._receive, self._send))

    async def leave(self) -> None:
        """Closes the connection; returns when the request is over."""
        self._is_gone.set()
        await self.task

    async def _receive(self) -> Message:
        await self._is_gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        self.status = message.get("status", self.status)
        self.is_complete = message.get("more_body") is False
        if message.get("body"):
            self.pieces.append(message["body"])
            self.begun.set()
            if self._is_stuck:
                await asyncio.Event().wait()
