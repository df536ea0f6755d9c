"""Ways to run the service with a store of jobs, to work on its jobs row by row, and to read what it answers."""

import contextlib
import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import httpx2

from app.exchange import Usage
from app.jobs.job import Lease
from app.jobs.store import JobStore
from app.main import create_app
from app.records.record import Record, RecordProblem
from app.schemas.jobs import JobInfo
from app.scored_row import RowStatus, ScoredRow
from app.settings import Settings
from tests.edge_app import client_of
from tests.fakes import WordEncoder
from tests.memory_store import MemoryStore
from tests.service import plain_settings

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


@contextlib.asynccontextmanager
async def jobs_running(
    store: JobStore | None = None, settings: Settings | None = None
) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of the service with this store, in process, without anybody who works on its jobs."""
    app = create_app(settings or plain_settings(), encoder=WordEncoder(), store=store or MemoryStore())
    async with app.router.lifespan_context(app), client_of(app) as client:
        yield client


async def submitted(client: httpx2.AsyncClient, *names: str, **choices: Any) -> str:
    """The id of a new job with rows of these names."""
    body = {"rows": [row(name) for name in names], **choices}
    return read_job(await client.post(JOBS_URL, json=body), 202)["id"]


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


async def work(store: JobStore, *, chunks: int | None = None, scored: Scored = judged) -> None:
    """Works on so many chunks, or on all that there are."""
    done = 0
    while (chunks is None or done < chunks) and (lease := await store.lease("a worker")) is not None:
        await work_on(store, lease, scored=scored)
        done += 1


async def work_on(store: JobStore, lease: Lease, *, scored: Scored = judged) -> None:
    """Works on one chunk."""
    rows: Sequence[ScoredRow] = [scored(each) for each in await store.rows(lease)]
    await store.commit(lease, rows, is_done=True)
