"""Results of a job: in input order, while it runs, page by page or as a stream, as lines or as a safe table."""

import csv
import io
import json
import re

import httpx2
import pytest

from plumbline.rows.jobs.job import ResultLine
from plumbline.rows.jobs.store import JobStore
from plumbline.rows.records.record import Record, RecordProblem
from plumbline.rows.scored_row import ScoredRow
from tests.doubles.memory_store import MemoryStore
from tests.running.edge_app import client_of, read_problem
from tests.running.job_service import JOBS_URL, Caller, app_with, jobs_running, judged, read_rows, submitted, work

NAMES = [f"q{number}" for number in range(7)]


def next_of(response: httpx2.Response) -> str | None:
    """The path in the `Link` header."""
    link = response.headers.get("link")
    if link is None:
        return None
    match = re.fullmatch(r'<(/v1/jobs/[^>]*)>; rel="next"', link)
    assert match is not None
    return match[1]


async def read_along(client: httpx2.AsyncClient, path: str | None) -> list[list[int]]:
    """The rows of each page, from this one to the one without a next."""
    pages = []
    while path is not None:
        response = await client.get(path)
        pages.append([each["row"] for each in read_rows(response)])
        path = next_of(response)
    return pages


async def test_an_ended_job_is_read_page_by_page_to_its_end(store: JobStore) -> None:
    async with jobs_running(store) as client:
        path = f"{JOBS_URL}/{await submitted(client, *NAMES)}/results"
        await work(store)

        assert await read_along(client, f"{path}?limit=3") == [[0, 1, 2], [3, 4, 5], [6]]
        assert await read_along(client, f"{path}?limit=7") == [[0, 1, 2, 3, 4, 5, 6]]
        assert await read_along(client, f"{path}?after=4&limit=2") == [[5, 6]]
        assert await read_along(client, f"{path}?after=6&limit=2") == [[]]
        assert await read_along(client, path) == [[0, 1, 2, 3, 4, 5, 6]]


async def test_a_job_that_runs_is_read_up_to_the_first_row_not_done(store: JobStore) -> None:
    async with jobs_running(store) as client:
        path = f"{JOBS_URL}/{await submitted(client, *NAMES)}/results"
        await work(store, rows=[0, 1, 4, 6])

        first = await client.get(f"{path}?limit=5")
        second = await client.get(next_of(first) or "")
        everything = await client.get(path)
        await work(store)
        third = await client.get(next_of(second) or "")

    assert [[each["row"] for each in read_rows(page)] for page in (first, second, third)] == [
        [0, 1],
        [],
        [2, 3, 4, 5, 6],
    ]
    assert [each["row"] for each in read_rows(everything)] == [0, 1]
    assert next_of(second) == next_of(first)
    assert next_of(third) is None
    assert next_of(everything) is None


async def test_a_cancelled_job_has_an_end_where_its_results_end(store: JobStore) -> None:
    async with jobs_running(store) as client:
        job = f"{JOBS_URL}/{await submitted(client, *NAMES)}"
        await work(store, rows=[0, 1, 2, 3])
        await client.post(f"{job}/cancel")

        assert await read_along(client, f"{job}/results?limit=3") == [[0, 1, 2], [3]]


@pytest.mark.parametrize(
    "query", ["after=-2", "limit=0", "limit=10001", "after=x", "format=xml", "afte=3", "after=1e3"]
)
async def test_a_wrong_page_is_refused(store: JobStore, query: str) -> None:
    async with jobs_running(store) as client:
        problem = read_problem(await client.get(f"{JOBS_URL}/{await submitted(client, 'a')}/results?{query}"), 422)

    assert f"query parameter '{query.partition('=')[0]}'" in problem.errors[0].detail


class CountingStore(MemoryStore):
    """Notes how many rows it is asked for at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.limits: list[int] = []

    async def results(self, tenant: str, job_id: str, *, after: int, limit: int) -> list[ResultLine]:
        self.limits.append(limit)
        return await super().results(tenant, job_id, after=after, limit=limit)


async def test_many_rows_are_asked_for_few_at_a_time() -> None:
    store = CountingStore()
    async with jobs_running(store) as client:
        path = f"{JOBS_URL}/{await submitted(client, *(f'q{number}' for number in range(950)))}/results"
        await work(store)
        streamed = read_rows(await client.get(path))
        paged = read_rows(await client.get(f"{path}?limit=10000"))
        part = read_rows(await client.get(f"{path}?limit=301"))

    assert [each["row"] for each in streamed] == list(range(950))
    assert paged == streamed
    assert part == streamed[:301]
    assert max(store.limits) <= 200


async def test_a_page_of_long_rows_is_shorter_than_asked_and_says_where_to_go_on() -> None:
    def long(record: Record | RecordProblem) -> ScoredRow:
        return judged(record)._replace(line=json.dumps({"row": record.row, "x": "x" * 5_000_000}).encode())

    store = MemoryStore()
    async with jobs_running(store) as client:
        path = f"{JOBS_URL}/{await submitted(client, *(f'q{number}' for number in range(450)))}/results"
        await work(store, scored=lambda each: long(each) if each.row in (0, 1) else judged(each))
        pages = await read_along(client, f"{path}?limit=10000")

    # a look at the store has 200 rows
    assert [len(each) for each in pages] == [200, 250]
    assert [each for page in pages for each in page] == list(range(450))


# --- forms


async def test_a_table_has_its_header_once_and_cells_that_are_no_formulas() -> None:
    names = ["=1+1", "+1", "-1", "@SUM(A1)", "plain"]
    store = MemoryStore()
    async with jobs_running(store) as client:
        path = f"{JOBS_URL}/{await submitted(client, *names)}/results"
        await work(store)
        whole = await client.get(path, headers={"accept": "text/csv"})
        pages = [await client.get(f"{path}?format=csv&limit=3"), await client.get(f"{path}?format=csv&after=2&limit=3")]

    assert whole.headers["content-type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(whole.text)))
    assert [each["custom_id"] for each in rows] == ["'=1+1", "'+1", "'-1", "'@SUM(A1)", "plain"]
    assert [(each["row"], each["status"], each["tier"]) for each in rows] == [
        (str(n), "judged", "llm") for n in range(5)
    ]
    assert "".join(page.text for page in pages) == whole.text


@pytest.mark.parametrize(
    ("accept", "query", "media_type"),
    [
        (None, "", "application/x-ndjson"),
        ("*/*", "?format=csv", "text/csv; charset=utf-8"),
        ("text/csv", "", "text/csv; charset=utf-8"),
        ("text/csv, application/x-ndjson", "", "text/csv; charset=utf-8"),
        ("text/csv, */*;q=0.1", "?format=ndjson", "application/x-ndjson"),
    ],
)
async def test_the_form_is_what_the_caller_takes(
    store: JobStore, accept: str | None, query: str, media_type: str
) -> None:
    async with jobs_running(store) as client:
        path = f"{JOBS_URL}/{await submitted(client, 'a')}/results{query}"
        headers = {"accept": accept} if accept else {}
        response = await client.get(path, headers=headers)

    assert response.headers["content-type"] == media_type


# --- a reader who is slow, and one who leaves


async def test_a_slow_reader_slows_down_the_store_and_leaving_ends_it() -> None:
    store = CountingStore()
    app = app_with(store)
    async with app.router.lifespan_context(app), client_of(app) as client:
        job_id = await submitted(client, *(f"q{number}" for number in range(900)))
        await work(store)
        store.limits.clear()
        caller = Caller(app, f"{JOBS_URL}/{job_id}/results", is_stuck=True)
        await caller.begun.wait()
        asked_while_stuck = list(store.limits)
        await caller.leave()

    assert asked_while_stuck == store.limits == [200]
    assert len(caller.pieces) == 1


class FailingStore(CountingStore):
    """Cannot be read for a second time."""

    async def results(self, tenant: str, job_id: str, *, after: int, limit: int) -> list[ResultLine]:
        self.is_broken = bool(self.limits)
        return await super().results(tenant, job_id, after=after, limit=limit)


async def test_a_store_that_fails_on_the_way_cuts_the_answer() -> None:
    store = FailingStore()
    app = app_with(store)
    async with app.router.lifespan_context(app), client_of(app) as client:
        job_id = await submitted(client, *(f"q{number}" for number in range(300)))
        await work(store)
        caller = Caller(app, f"{JOBS_URL}/{job_id}/results")
        await caller.task

    # begun, and never said to be complete
    assert (caller.status, len(caller.pieces), caller.is_complete) == (200, 1, False)
