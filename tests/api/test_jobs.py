"""The jobs API: jobs are taken, listed, changed and forgotten, each caller's own."""

from typing import Any

import httpx2
import pytest

from plumbline.rows.jobs.store import JobStore
from tests.doubles.memory_store import MemoryStore
from tests.making.cases import load_cases
from tests.running.edge_app import read_problem
from tests.running.job_service import JOBS_URL, jobs_running, judged, read_job, read_rows, submitted, work

ROUTES = load_cases("jobs", "routes")


async def ask(client: httpx2.AsyncClient, method: str, path: str, **headers: str) -> httpx2.Response:
    body = {"select": "failed"} if path.endswith("/retry") else None
    return await client.request(method, path, headers=headers, json=body)


async def test_a_job_is_taken_and_can_be_looked_at(store: JobStore) -> None:
    async with jobs_running(store) as client:
        answer = await client.post(JOBS_URL, json={"rows": [_sample()] * 3, "name": "nightly", "max_cost": 2.5})
        job = read_job(answer, 202)
        later = read_job(await client.get(answer.headers["location"]))

    assert answer.headers["location"] == f"/v1/jobs/{job['id']}"
    assert "idempotency-replayed" not in answer.headers
    assert (job["status"], later["status"]) == ("queued", "queued")
    assert (later["name"], later["max_cost"]) == ("nightly", 2.5)
    assert later["request_counts"] == {"total": 3, "completed": 0, "failed": 0}
    assert (later["started_at"], later["rows_per_second"], later["eta_seconds"]) == (None, None, None)
    path = f"/v1/jobs/{job['id']}"
    assert job["links"] == {
        "self": path,
        "results": f"{path}/results",
        "report": f"{path}/report",
    }


async def test_what_became_of_the_rows_is_counted(store: JobStore) -> None:
    async with jobs_running(store) as client:
        body = {"rows": [_sample("a"), _sample("b"), {"answer": 3}, _sample("c")]}
        job_id = read_job(await client.post(JOBS_URL, json=body), 202)["id"]
        await work(
            store,
            scored=lambda each: judged(each, tier="lexical", is_degraded=each.row == 0)._replace(passed=each.row < 1),
        )
        job = read_job(await client.get(f"{JOBS_URL}/{job_id}"))

    assert job["status"] == "completed_with_errors"
    assert (job["outcomes"]["passed"], job["outcomes"]["not_passed"]) == (1, 3)
    assert job["request_counts"] == {"total": 4, "completed": 3, "failed": 1}
    assert (job["outcomes"]["judged"], job["outcomes"]["invalid"], job["outcomes"]["degraded"]) == (3, 1, 1)
    assert job["outcomes"]["tiers"] == {"llm": 0, "embedding": 0, "lexical": 3}
    assert (job["usage"]["calls"], job["usage"]["cost"]) == (3, 0.75)
    assert job["ended_at"] is not None
    assert job["eta_seconds"] is None


async def test_a_file_that_cannot_be_read_makes_the_job_failed(store: JobStore) -> None:
    async with jobs_running(store) as client:
        body = {"rows": [{"text": "no column of ours"}]}
        job_id = read_job(await client.post(JOBS_URL, json=body), 202)["id"]
        job = read_job(await client.get(f"{JOBS_URL}/{job_id}"))

    assert job["status"] == "failed"
    assert "columns" in job["problem"]
    assert job["request_counts"]["total"] is None


async def test_jobs_are_listed_newest_first_page_by_page(store: JobStore) -> None:
    async with jobs_running(store) as client:
        taken = [await client.post(JOBS_URL, json={"rows": [_sample()]}) for _ in range(5)]
        pages, path = [], f"{JOBS_URL}?limit=2"
        while path:
            page = (await client.get(path)).json()
            pages.append([job["id"] for job in page["jobs"]])
            path = page["next"]

    newest = [read_job(each, 202)["id"] for each in reversed(taken)]
    assert pages == [newest[:2], newest[2:4], newest[4:]]


@pytest.mark.parametrize("query", ["limit=0", "limit=101", "limit=many", "limt=3"])
async def test_a_wrong_page_is_refused(store: JobStore, query: str) -> None:
    async with jobs_running(store) as client:
        problem = read_problem(await client.get(f"{JOBS_URL}?{query}"), 422)

    assert f"query parameter '{query.partition('=')[0]}'" in problem.errors[0].detail


async def test_a_page_before_an_unknown_job_is_a_problem(store: JobStore) -> None:
    async with jobs_running(store) as client:
        problem = read_problem(await client.get(f"{JOBS_URL}?before=none"), 404)

    assert problem.type == "urn:plumbline:problem:job-unknown"


@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_an_unknown_job_is_a_problem_on_every_route(store: JobStore, method: str, path: str) -> None:
    strange = ["unknown", "no%00thing", "%ED%A0%80", "a" * 5_000, "..%2f..", "x'--"]
    async with jobs_running(store) as client:
        responses = [await ask(client, method, f"{JOBS_URL}/{job_id}{path}") for job_id in strange]

    for response in responses:
        read_problem(response, 404)


# --- pause, resume, cancel, retry, delete


async def test_a_job_is_paused_resumed_and_cancelled_and_repeating_changes_nothing(store: JobStore) -> None:
    async with jobs_running(store) as client:
        path = f"{JOBS_URL}/{await submitted(client, 'a', 'b', 'c')}"
        await work(store, rows=[0, 1])
        told = [read_job(await client.post(f"{path}/pause"))["status"] for _ in range(2)]
        nothing_to_do = await store.lease()
        paused = read_job(await client.get(path))
        told += [read_job(await client.post(f"{path}/{action}"))["status"] for action in ("resume", "cancel", "cancel")]
        results = read_rows(await client.get(f"{path}/results"))

    assert nothing_to_do is None
    assert told == ["paused", "paused", "queued", "cancelled", "cancelled"]
    assert paused["request_counts"]["completed"] == 2
    assert [each["row"] for each in results] == [0, 1]


@pytest.mark.parametrize("action", ["pause", "resume"])
async def test_what_the_state_forbids_is_a_problem(store: JobStore, action: str) -> None:
    async with jobs_running(store) as client:
        job_id = await submitted(client, "a")
        await work(store)
        problem = read_problem(await client.post(f"{JOBS_URL}/{job_id}/{action}"), 409)

    assert problem.type == "urn:plumbline:problem:job-state"
    assert "completed" in problem.detail


async def test_exactly_the_degraded_rows_are_scored_again(store: JobStore) -> None:
    async with jobs_running(store) as client:
        path = f"{JOBS_URL}/{await submitted(client, 'a', 'b', 'c', 'd')}"
        await work(store, scored=lambda each: judged(each, tier="lexical", is_degraded=each.row in (1, 2)))
        retried = read_job(await client.post(f"{path}/retry", json={"select": "degraded"}))
        await work(store)
        job = read_job(await client.get(path))
        rows = read_rows(await client.get(f"{path}/results"))

    assert retried["status"] == "queued"
    assert [each["result"]["tier"] for each in rows] == ["lexical", "llm", "llm", "lexical"]
    assert (job["outcomes"]["degraded"], job["usage"]["calls"]) == (0, 6)


@pytest.mark.parametrize("body", [{}, {"select": "all"}, {"select": "failed", "rows": [1]}])
async def test_a_retry_says_which_rows(store: JobStore, body: dict[str, Any]) -> None:
    async with jobs_running(store) as client:
        job_id = await submitted(client, "a")
        problem = read_problem(await client.post(f"{JOBS_URL}/{job_id}/retry", json=body), 422)

    assert problem.errors[0].pointer in ("/select", "/rows")


async def test_a_deleted_job_is_forgotten(store: JobStore) -> None:
    async with jobs_running(store) as client:
        path = f"{JOBS_URL}/{await submitted(client, 'a')}"
        deleted = await client.delete(path)
        after = [await client.get(path), await client.delete(path), await client.get(f"{path}/results")]

    assert (deleted.status_code, deleted.content) == (204, b"")
    assert [each.status_code for each in after] == [404, 404, 404]


@pytest.mark.parametrize(("method", "path"), [*ROUTES, ("GET", None), ("POST", None)])
async def test_a_page_of_another_origin_is_refused(store: JobStore, method: str, path: str | None) -> None:
    async with jobs_running(store) as client:
        url = JOBS_URL if path is None else f"{JOBS_URL}/{await submitted(client, 'a')}{path}"
        problem = read_problem(await ask(client, method, url, origin="http://attacker.example"), 400)
        left = (await client.get(JOBS_URL, headers={"origin": "http://127.0.0.1:8000"})).json()["jobs"]

    assert "another origin" in problem.detail
    assert [each["status"] for each in left] == ([] if path is None else ["queued"])


@pytest.mark.parametrize(("method", "path"), [*ROUTES, ("GET", None), ("POST", None)])
async def test_a_store_that_is_not_there_is_a_problem_that_says_to_come_back(method: str, path: str | None) -> None:
    store = MemoryStore()
    async with jobs_running(store) as client:
        url = JOBS_URL if path is None else f"{JOBS_URL}/{await submitted(client, 'a')}{path}"
        store.is_broken = True
        if (method, path) == ("POST", None):
            response = await client.post(url, json={"rows": [_sample()]})
        else:
            response = await ask(client, method, url)

    problem = read_problem(response, 503)
    assert problem.type == "urn:plumbline:problem:store-unavailable"
    assert int(response.headers["retry-after"]) > 0
    assert "disk" in problem.detail


def _sample(name: str | None = None) -> dict[str, Any]:
    named = {} if name is None else {"custom_id": name}
    return {**named, "contexts": ["The bridge was opened in 1931."], "answer": "It was opened in 1931."}
