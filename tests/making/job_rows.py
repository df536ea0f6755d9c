"""Jobs without a service: rows in a file, a handler that scores them by their text, ways to run them to their end."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from plumbline.ground.concurrency import end_tasks
from plumbline.judging.ports.exchange import Usage
from plumbline.rows.jobs.chunk_run import Pace
from plumbline.rows.jobs.job import Job, Lease, NewJob
from plumbline.rows.jobs.store import JobStore
from plumbline.rows.jobs.submission import Upload
from plumbline.rows.jobs.worker import Worker
from plumbline.rows.records.record import Record, RecordProblem
from plumbline.rows.scored_row import RowStatus, ScoredRow

TENANT = "tenant-1"


def rows_of(count: int, **answers: str) -> list[dict[str, Any]]:
    """So many rows; `row7="..."` gives row 7 this answer."""
    return [
        {"custom_id": f"q{row}", "contexts": ["c"], "answer": answers.get(f"row{row}", "ok")} for row in range(count)
    ]


def upload(store: JobStore, rows: Sequence[object], *, columns: str | None = None) -> Upload:
    """The rows as an upload in JSON Lines; a row that is text is written as it is."""
    path = store.new_upload()
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return Upload(path, "jsonl", columns)


async def submitted(store: JobStore, rows: Sequence[object], **new: Any) -> Job:
    """A job of these rows."""
    submission = await store.submit(NewJob(**{"tenant": TENANT, "options": b"{}", **new}), upload(store, rows))
    return submission.job


class Handler:
    """Scores a row by its answer: `ok`, `empty_answer` and so on are statuses; `degraded` falls to the lexical tier.

    Attributes:
        calls: the rows that were scored, each time; gate: closed, rows wait; most: rows under way at one time.
    """

    def __init__(self, *, cost: float = 0.01) -> None:
        self.calls: list[int] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.under_way = self.most = 0
        self.is_degraded = True
        self.cost = cost

    def of(self, _: Lease) -> "Handler":
        return self

    async def score(self, row: Record | RecordProblem) -> ScoredRow:
        self.calls.append(row.row)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await self.gate.wait()
            if isinstance(row, RecordProblem):
                return scored(row.row, "invalid")
            answer = row.sample.answer
            if answer == "degraded":
                return scored(row.row, "judged", is_degraded=self.is_degraded, cost=self.cost)
            return scored(row.row, "judged" if answer == "ok" else answer, cost=self.cost)
        finally:
            self.under_way -= 1

    def report_crash(self, row: Record | RecordProblem, crash_count: int) -> ScoredRow:
        return scored(row.row, "failed", text=f"crashed after {crash_count}")


def scored(row: int, status: str, *, is_degraded: bool = False, cost: float = 0.01, text: str = "") -> ScoredRow:
    """A row that was scored, its cost that of one call."""
    line = json.dumps({"row": row, "status": status, "degraded": is_degraded, "text": text}).encode()
    tier = ("lexical" if is_degraded else "llm") if status == "judged" else None
    return ScoredRow(row, line, RowStatus(status), tier, is_degraded, Usage(calls=1, prompt_tokens=10, cost=cost))


@contextlib.asynccontextmanager
async def working(store: JobStore, handler: Handler, **pace: Any) -> AsyncIterator[Worker]:
    """A worker for as long as the context lasts; then it is stopped and gives back what it has."""
    quick = {"poll_seconds": 0.01, "renew_seconds": 0.01, "group_seconds": 0.01}
    worker = Worker(store, handler.of, Pace(**{**quick, **pace}))
    running, rescuing = asyncio.create_task(worker.run()), asyncio.create_task(store.keep_rescuing())
    try:
        yield worker
    finally:
        handler.gate.set()
        await worker.stop(5.0)
        await running
        await end_tasks([rescuing])


async def until(condition: Callable[[], bool]) -> None:
    """Waits for something that nobody announces."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.001)


async def ended(store: JobStore, job_id: str, *, state: str | None = None) -> Job:
    """The job once it has ended, or once it is in this state."""
    while True:
        job = await store.get(TENANT, job_id)
        if job.state == state or (state is None and job.state.is_ended):
            return job
        await asyncio.sleep(0.005)


async def lines_of(store: JobStore, job_id: str) -> list[dict[str, Any]]:
    """All lines that can be read, from the first row on."""
    lines = await store.results(TENANT, job_id, after=-1, limit=1_000_000)
    assert [line.row for line in lines] == list(range(len(lines)))
    return [json.loads(line.line) for line in lines]
