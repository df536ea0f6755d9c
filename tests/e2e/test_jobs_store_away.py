"""The service while its jobs cannot be kept: it says so, does everything else, and goes on by itself."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx2
import pytest

from tests.doubles.scripted_judge import ScriptedJudge
from tests.doubles.scripted_replies import completion
from tests.running.edge_app import read_problem
from tests.running.job_service import CONTEXT, JOBS_URL, read_job, read_rows, row
from tests.running.postgres_server import PostgresServer
from tests.running.service import URL, claim, judge_settings, plain_settings, running, verdicts

LEXICAL = {"tiers": ["lexical"]}
ROWS = [row(f"q{number}") for number in range(30)]


async def answered(ask: Callable[[], Awaitable[httpx2.Response]]) -> httpx2.Response:
    """The first answer that is not a 503; every one that is says what to do."""
    while True:
        response = await ask()
        if response.status_code != 503:
            return response
        assert response.headers["retry-after"] == "5"
        await asyncio.sleep(0.05)


async def finished(client: httpx2.AsyncClient, job_id: str) -> dict[str, object]:
    while True:
        job = read_job(await answered(lambda: client.get(f"{JOBS_URL}/{job_id}")))
        if job["ended_at"] is not None:
            return job
        await asyncio.sleep(0.02)


async def reported(client: httpx2.AsyncClient, state: str) -> None:
    """Returns once /readyz reports this state of the jobs."""
    while True:
        if (await client.get("/readyz")).json()["jobs"]["state"] == state:
            return
        await asyncio.sleep(0.05)


@pytest.mark.timeout(120)
async def test_a_killed_postgresql_is_a_503_and_jobs_go_on_behind_it(
    postgres_own_server: PostgresServer, tmp_path: Path
) -> None:
    settings = plain_settings(database_url=postgres_own_server.url, data_dir=tmp_path)
    async with running(settings) as client:
        first = read_job(await client.post(JOBS_URL, json={"rows": ROWS, "options": LEXICAL}), 202)["id"]
        await finished(client, first)
        await reported(client, "ready")
        before = read_rows(await client.get(f"{JOBS_URL}/{first}/results?limit=100"))
        postgres_own_server.kill()
        await reported(client, "unavailable")
        refused = [
            await client.get(f"{JOBS_URL}/{first}"),
            await client.post(JOBS_URL, json={"rows": ROWS}),
            await client.delete(f"{JOBS_URL}/{first}"),
        ]
        judged = await client.post(URL, json={"contexts": ["a b"], "answer": "a b.", **LEXICAL})
        postgres_own_server.start()
        await reported(client, "ready")
        after = read_rows(await answered(lambda: client.get(f"{JOBS_URL}/{first}/results?limit=100")))
        listed = (await answered(lambda: client.get(JOBS_URL))).json()["jobs"]
        second = read_job(await answered(lambda: client.post(JOBS_URL, json={"rows": ROWS, "options": LEXICAL})), 202)[
            "id"
        ]
        done = await finished(client, second)

    for each in refused:
        assert "secret-word" not in read_problem(each, 503).detail
        assert each.headers["retry-after"] == "5"
    assert judged.status_code == 200
    assert after == before
    assert [job["id"] for job in listed] == [first]
    assert done["status"] == "completed"


@pytest.mark.timeout(120)
async def test_a_postgresql_that_hangs_costs_no_evaluation_and_jobs_go_on_behind_it(
    postgres_own_server: PostgresServer, tmp_path: Path, judge: ScriptedJudge
) -> None:
    judge.reply_with(completion(verdicts([claim("x", "supported", CONTEXT)])))
    store = {"database_url": postgres_own_server.url, "data_dir": tmp_path, "max_concurrent_requests": 20}
    settings = judge_settings(judge, **store, job_concurrency=2)
    sample = {"contexts": [CONTEXT], "answer": CONTEXT}
    async with running(settings) as client:
        rows = [row(f"q{number}") for number in range(300)]
        job = read_job(await client.post(JOBS_URL, json={"rows": rows, "options": LEXICAL}), 202)["id"]
        await reported(client, "ready")
        with postgres_own_server.stopped():
            waiting = [asyncio.create_task(client.get(f"{JOBS_URL}/{job}")) for _ in range(30)]
            judged = [await client.post(URL, json={**sample, "question": str(each)}) for each in range(5)]
            await reported(client, "unavailable")
            refused = await asyncio.gather(*waiting)
        await reported(client, "ready")
        done = await finished(client, job)

    assert [each.json()["tier"] for each in judged] == ["llm"] * 5
    assert {each.status_code for each in refused} == {503}
    assert done["status"] == "completed"


async def test_a_data_folder_that_cannot_be_written_is_a_503_and_the_rest_is_served(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.write_text("a file in its place")
    async with running(plain_settings(data_dir=folder)) as client:
        refused = await client.post(JOBS_URL, json={"rows": ROWS})
        judged = await client.post(URL, json={"contexts": ["a b"], "answer": "a b.", **LEXICAL})
        folder.unlink()
        taken = read_job(await client.post(JOBS_URL, json={"rows": ROWS, "options": LEXICAL}), 202)
        done = await finished(client, taken["id"])

    assert "the data folder" in read_problem(refused, 503).detail
    assert judged.status_code == 200
    assert done["status"] == "completed"


async def test_of_many_requests_about_jobs_few_wait_for_a_database_that_hangs(tmp_path: Path) -> None:
    connections = list[asyncio.StreamWriter]()
    silent = await asyncio.start_server(lambda _, writer: connections.append(writer), "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    url = f"postgresql://user:password@127.0.0.1:{port}/plumbline?connect_timeout=2"
    async with silent, running(plain_settings(database_url=url, data_dir=tmp_path)) as client:
        refused = await asyncio.gather(*(client.post(JOBS_URL, json={"rows": ROWS}) for _ in range(20)))
        judged = await client.post(URL, json={"contexts": [CONTEXT], "answer": CONTEXT, **LEXICAL})

        for each in connections:
            each.close()

    assert {response.status_code for response in refused} == {503}
    assert judged.status_code == 200
    # One of each thread of the store, and none of those that waited for a thread.
    assert len(connections) <= 6
