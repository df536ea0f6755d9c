"""Jobs over a real socket, with SQLite and a worker: submitted, watched, read while they run, changed, kept."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import httpx2
import uvicorn

from plumbline.cli.connections import ConnectionTimeouts, timeout_protocol
from plumbline.ground.settings import Settings
from plumbline.judging.ports.models import SentenceEncoder
from plumbline.judging.ports.token_vectors import TokenizedTexts
from plumbline.main import create_app
from plumbline.rows.jobs.row_chunks import CHUNK_ROWS
from tests.doubles.fakes import WordEncoder
from tests.doubles.scripted_judge import ScriptedJudge
from tests.doubles.scripted_replies import completion
from tests.running.batch_service import SLOW, GatedEncoder
from tests.running.edge_app import read_problem
from tests.running.job_service import JOBS_URL, lines, read_job, read_rows, row
from tests.running.service import claim, judge_settings, plain_settings, verdicts


@contextlib.asynccontextmanager
async def serving(settings: Settings, *, encoder: SentenceEncoder | None = None) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of the service as `plumbline serve` runs it, in this event loop; then it is shut down in order."""
    app = create_app(settings, encoder=encoder or WordEncoder())
    server = uvicorn.Server(
        uvicorn.Config(app, log_config=None, access_log=False, http=timeout_protocol(ConnectionTimeouts()))
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:
        task = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{listener.getsockname()[1]}") as client:
                yield client
                await _shut_down(server, task)
        finally:
            await _shut_down(server, task)


async def _shut_down(server: uvicorn.Server, task: "asyncio.Task[None]") -> None:
    server.should_exit = True
    await task


async def submitted(client: httpx2.AsyncClient, *rows: Any, **headers: str) -> str:
    """The path of a new job."""
    sent = await client.post(JOBS_URL, files={"file": ("rows.jsonl", lines(*rows))}, headers=headers)
    read_job(sent, 202)
    return str(sent.headers["location"])


async def ended(client: httpx2.AsyncClient, path: str) -> dict[str, Any]:
    """The job, once it has ended."""
    async with asyncio.timeout(30):
        while (job := read_job(await client.get(path)))["ended_at"] is None:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    return job


async def rows_when_there(client: httpx2.AsyncClient, path: str, count: int) -> list[dict[str, Any]]:
    """The first rows, read along until there are so many."""
    rows: list[dict[str, Any]] = []
    following = f"{path}/results?limit=100"
    while len(rows) < count:
        response = await client.get(following)
        rows += read_rows(response)
        following = response.headers["link"].partition(">")[0].removeprefix("<")
    return rows


class SlowEncoder(GatedEncoder):
    """Says when it is held up."""

    def __init__(self) -> None:
        super().__init__()
        self.is_held = asyncio.Event()

    async def read(self, texts: Sequence[str], *, seconds: float, scope: str = "") -> TokenizedTexts:
        if any(SLOW in text for text in texts):
            self.is_held.set()
        return await super().read(texts, seconds=seconds)


def many_rows_with_a_slow_one(count: int) -> list[dict[str, Any]]:
    """So many rows that some are kept while the slow one, row 66, holds up those behind it; the last is bad."""
    rows = [row(f"q{number}") for number in range(count)]
    return [*rows[:66], row("slow", f"{SLOW} was here."), *rows[67:-1], {"answer": "no contexts"}]


async def test_a_job_is_watched_read_while_it_runs_paused_and_resumed() -> None:
    encoder = SlowEncoder()
    # two chunks may be under way when a job is paused, a third is not
    count = 2 * CHUNK_ROWS + 10
    async with serving(plain_settings(job_concurrency=1), encoder=encoder) as client:
        path = await submitted(client, *many_rows_with_a_slow_one(count))
        await encoder.is_held.wait()
        early = await rows_when_there(client, path, 1)
        running = read_job(await client.get(path))
        paused = read_job(await client.post(f"{path}/pause"))
        encoder.gate.set()
        through_the_slow_one = await rows_when_there(client, path, 67)
        still_paused = read_job(await client.get(path))
        resumed = read_job(await client.post(f"{path}/resume"))
        job = await ended(client, path)
        all_rows = read_rows(await client.get(f"{path}/results"))

    assert 0 < len(early) <= 66
    assert (running["status"], running["request_counts"]["total"]) == ("running", count)
    assert (paused["status"], still_paused["status"], resumed["status"]) == ("paused", "paused", "queued")
    assert 67 <= len(through_the_slow_one) < count
    assert job["request_counts"] == {"total": count, "completed": count - 1, "failed": 1}
    assert all_rows[: len(early)] == early
    assert all_rows[: len(through_the_slow_one)] == through_the_slow_one
    assert [each["row"] for each in all_rows] == list(range(count))
    assert "error" in all_rows[-1]
    assert job["status"] == "completed_with_errors"


async def test_exactly_the_rows_of_an_outage_are_judged_again(judge: ScriptedJudge) -> None:
    good = completion(verdicts([claim("x", "supported", "The Marlow Bridge was opened in 1931.")]))
    judge.reply_with(good)
    outage = [True]
    judge.reply_when(lambda request: outage[0] and b"Outage" in request.body, completion("no verdicts"))
    async with serving(judge_settings(judge)) as client:
        path = await submitted(client, row("a"), row("b", "The Outage Bridge was opened in 1931."), row("c"))
        before = await ended(client, path)
        rows_before = read_rows(await client.get(f"{path}/results"))
        calls = judge.calls
        outage[0] = False
        retried = read_job(await client.post(f"{path}/retry", json={"select": "degraded"}))
        after = await ended(client, path)
        rows_after = read_rows(await client.get(f"{path}/results"))
        nothing_left = await client.post(f"{path}/retry", json={"select": "degraded"})

    assert (before["status"], before["outcomes"]["degraded"]) == ("completed", 1)
    assert [each["result"]["tier"] for each in rows_before] == ["llm", "embedding", "llm"]
    assert retried["status"] == "queued"
    assert (after["status"], after["outcomes"]["degraded"]) == ("completed", 0)
    assert [each["result"]["tier"] for each in rows_after] == ["llm"] * 3
    assert judge.calls > calls
    assert all(b"Outage" in request.body for request in judge.requests[calls:])
    assert [rows_after[0], rows_after[2]] == [rows_before[0], rows_before[2]]
    assert after["usage"]["calls"] >= before["usage"]["calls"]
    read_problem(nothing_left, 409)


async def test_jobs_and_keys_outlive_the_service(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with serving(plain_settings(data_dir=data, job_concurrency=0)) as client:
        path = await submitted(client, row("a"), row("b"), **{"Idempotency-Key": "k"})
        waiting = read_job(await client.get(path))

    async with serving(plain_settings(data_dir=data)) as client:
        again = await submitted(client, row("a"), row("b"), **{"Idempotency-Key": "k"})
        job = await ended(client, path)
        listed = (await client.get(JOBS_URL)).json()["jobs"]

    async with serving(plain_settings(data_dir=data)) as client:
        rows = read_rows(await client.get(f"{path}/results"))
        deleted = await client.delete(path)
        left = (await client.get(JOBS_URL)).json()["jobs"]

    assert (waiting["status"], job["status"]) == ("queued", "completed")
    assert (again, [each["id"] for each in listed]) == (path, [job["id"]])
    assert [each["custom_id"] for each in rows] == ["a", "b"]
    assert (deleted.status_code, left) == (204, [])
