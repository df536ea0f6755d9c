"""Jobs through the client, against a service that answers as the jobs API does, and as one that fails."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from email import message_from_bytes
from email.policy import HTTP
from pathlib import Path
from typing import Any

import pytest

from plumbline.client import (
    AnswerCut,
    AnswerUnreadable,
    AsyncJob,
    AsyncPlumbline,
    ClientClosed,
    JobNotEnded,
    NotNow,
    Plumbline,
    RequestRefused,
    Retries,
    ServiceFailed,
)
from plumbline.client.connection import Connection
from plumbline.ground.errors import InvalidInput
from plumbline.schemas.batch import BatchSample
from plumbline.schemas.jobs import JobInfo
from tests.doubles.scripted_service import (
    NDJSON,
    Answer,
    Asked,
    Script,
    ScriptedService,
    in_turn,
    job_info,
    json_answer,
    problem,
    result_of,
    scripted,
)

AT_ONCE = Retries(attempts=3, backoff_seconds=0.0)
ROW = {"contexts": ["It is so."], "answer": "It is so."}
JOB = json_answer(job_info("queued"), 202)
# The answer begins and does not end.
HELD = Answer([b"{"], is_held=True)


@pytest.fixture
async def service() -> AsyncIterator[ScriptedService]:
    async with ScriptedService(in_turn(JOB)) as service:
        yield service


@pytest.fixture
async def job(service: ScriptedService, client: AsyncPlumbline) -> AsyncJob:
    service.script = in_turn(json_answer(job_info()))
    job = await client.jobs.get("job-1")
    service.asked.clear()
    return job


def parts_of(asked: Asked) -> dict[str, Any]:
    """The parts of a form: text by name, and of the file its name and bytes."""
    head = f"Content-Type: {asked.headers['content-type']}\r\n\r\n".encode()
    parts: dict[str, Any] = {}
    for part in message_from_bytes(head + asked.body, policy=HTTP).iter_parts():
        content = part.get_payload(decode=True)
        assert isinstance(content, bytes)
        named = part.get_param("name", header="content-disposition")
        parts[str(named)] = (part.get_filename(), content) if part.get_filename() else content.decode()
    return parts


async def test_a_file_is_sent_as_it_is_with_its_choices(
    service: ScriptedService, client: AsyncPlumbline, tmp_path: Path
) -> None:
    path = tmp_path / "samples.csv"
    path.write_bytes(b"question,answer\r\nq,a\r\n")

    job = await client.jobs.submit(
        path, options={"tiers": ["lexical"]}, name="Friday", columns="ragas", max_cost=2.5, idempotency_key="key-1"
    )

    [asked] = service.asked
    assert (asked.method, asked.path) == ("POST", "/v1/jobs")
    assert asked.headers["idempotency-key"] == "key-1"
    parts = parts_of(asked)
    assert json.loads(parts.pop("choices")) == {
        "options": {"tiers": ["lexical"]},
        "name": "Friday",
        "columns": "ragas",
        "max_cost": 2.5,
    }
    assert parts == {"format": "csv", "file": ("samples.csv", b"question,answer\r\nq,a\r\n")}
    assert (job.id, job.status, job.is_ended) == ("job-1", "queued", False)


async def test_a_large_file_is_not_in_memory(service: ScriptedService, client: AsyncPlumbline, tmp_path: Path) -> None:
    import tracemalloc

    path = tmp_path / "samples.jsonl"
    with path.open("wb") as file:
        file.truncate(64_000_000)
    received = 0

    async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal received
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        while received < length:
            received += len(await reader.read(1_000_000))
        body = json.dumps(job_info("queued")).encode()
        writer.write(b"HTTP/1.1 202 Accepted\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
        writer.close()

    server = await asyncio.start_server(swallow, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    tracemalloc.start()
    try:
        async with server, AsyncPlumbline(f"http://127.0.0.1:{port}") as other:
            await other.jobs.submit(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert received > 64_000_000
    assert peak < 16_000_000


async def test_a_refusal_is_read_that_comes_before_the_end_of_an_upload(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    with path.open("wb") as file:
        file.truncate(64_000_000)
    refusal = problem(413, "body-too-large").pieces[0]

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 No\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b" % (len(refusal), refusal))
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with AsyncPlumbline(url, retries=AT_ONCE) as client:
            with pytest.raises(RequestRefused, match="413"):
                await client.jobs.submit(path)
        with Plumbline(url, retries=AT_ONCE) as blocking, pytest.raises(RequestRefused, match="413"):
            await asyncio.to_thread(blocking.jobs.submit, path)


@pytest.mark.parametrize("is_closed", [True, False])
async def test_an_upload_ends_when_it_is_cancelled_or_the_client_closed(
    service: ScriptedService, client: AsyncPlumbline, is_closed: bool
) -> None:
    service.script = in_turn(Answer(status=0, is_held=True))
    upload = asyncio.create_task(client.jobs.submit([ROW]))
    await service.until(lambda: bool(service.asked))

    if is_closed:
        await client.close()
    else:
        upload.cancel()

    with pytest.raises(ClientClosed if is_closed else asyncio.CancelledError):
        await upload
    await service.until(lambda: service.left == 1)


async def test_rows_are_sent_as_lines(service: ScriptedService, client: AsyncPlumbline) -> None:
    async def come() -> AsyncIterator[dict[str, Any]]:
        yield ROW
        yield {"user_input": "other columns", "response": "too"}

    await client.jobs.submit([ROW, BatchSample(custom_id="q1", contexts=[], answer="a")])
    await client.jobs.submit(come())

    first, second = (parts_of(asked) for asked in service.asked)
    assert (first["format"], first["choices"]) == ("jsonl", '{"options":{}}')
    assert [json.loads(line) for line in first["file"][1].splitlines()] == [
        ROW,
        {"custom_id": "q1", "contexts": [], "answer": "a"},
    ]
    assert [json.loads(line) for line in second["file"][1].splitlines()][1]["response"] == "too"
    assert service.asked[0].headers["idempotency-key"] != service.asked[1].headers["idempotency-key"]


async def test_a_lost_answer_makes_no_second_job(
    service: ScriptedService, client: AsyncPlumbline, tmp_path: Path
) -> None:
    path = tmp_path / "samples.jsonl"
    path.write_text(json.dumps(ROW) + "\n")
    lost = Answer(status=0, is_cut=True)
    for source in (path, iter([ROW])):
        service.asked.clear()
        service.script = in_turn(lost, problem(503, headers={"retry-after": "0"}), JOB)

        await client.jobs.submit(source)

        # The same key and the same bytes, the file read again each time.
        assert len(service.asked) == 3
        assert len({(asked.headers["idempotency-key"], asked.body) for asked in service.asked}) == 1
        assert json.loads(parts_of(service.asked[2])["file"][1]) == ROW


@pytest.mark.parametrize(
    ("source", "choices", "message"),
    [
        ("missing.jsonl", {}, r"missing\.jsonl: cannot be opened"),
        ("samples.docx", {}, r"samples\.docx: its suffix"),
        ([ROW, 5], {}, "row 1: expected a mapping or a sample"),
        ([{"answer": "\ud800"}], {}, "row 0: .*surrogate"),
        ([ROW], {"max_cost": 0.0}, "/max_cost: "),
        ([ROW], {"name": ""}, "/name: "),
        ([ROW], {"options": {"tiers": []}}, "/tiers: "),
        ([ROW], {"idempotency_key": "two words"}, "idempotency_key"),
        ([ROW], {"idempotency_key": ""}, "idempotency_key"),
    ],
)
async def test_what_cannot_be_submitted_is_named_and_not_sent(
    service: ScriptedService, client: AsyncPlumbline, source: Any, choices: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        await client.jobs.submit(source, **choices)

    assert service.asked == []


async def test_jobs_are_found_by_id_and_listed_over_pages(service: ScriptedService, client: AsyncPlumbline) -> None:
    pages = [["job-5", "job-4"], ["job-3"], []]
    answers = [
        json_answer(
            {
                "jobs": [job_info(id=each) for each in page],
                "next": None if number == 2 else f"/v1/jobs?limit=100&before=page{number}",
            }
        )
        for number, page in enumerate(pages)
    ]
    service.script = in_turn(json_answer(job_info(id="a/b")), *answers, answers[0])

    assert (await client.jobs.get("a/b")).id == "a/b"
    assert [job.id async for job in client.jobs.list()] == ["job-5", "job-4", "job-3"]
    assert [job.id async for job in client.jobs.list(limit=1)] == ["job-5"]

    assert service.asked[0].path == "/v1/jobs/a%2Fb"
    assert [asked.params for asked in service.asked[1:]] == [
        {"limit": "100"},
        {"limit": "100", "before": "page0"},
        {"limit": "100", "before": "page1"},
        {"limit": "1"},
    ]


@pytest.mark.parametrize("action", ["pause", "resume", "cancel"])
async def test_what_is_asked_of_a_job(service: ScriptedService, job: AsyncJob, action: str) -> None:
    service.script = in_turn(json_answer(job_info("paused")), problem(409, "job-state", "it has ended"))

    assert (await getattr(job, action)()).status == "paused"
    assert job.status == "paused"
    with pytest.raises(NotNow, match="it has ended"):
        await getattr(job, action)()

    assert [(asked.method, asked.path) for asked in service.asked] == [("POST", f"/v1/jobs/job-1/{action}")] * 2


async def test_rows_are_tried_again_and_a_job_is_forgotten(service: ScriptedService, job: AsyncJob) -> None:
    service.script = in_turn(
        json_answer(job_info("queued")), Answer([b"<html>"], media_type="text/html"), Answer(status=204)
    )

    await job.retry("degraded")
    assert await job.report(format="html", lang="zh") == b"<html>"
    await job.delete()

    retried, reported, deleted = service.asked
    assert (retried.path, retried.json) == ("/v1/jobs/job-1/retry", {"select": "degraded"})
    assert (reported.path, reported.params) == ("/v1/jobs/job-1/report", {"format": "html", "lang": "zh"})
    assert (deleted.method, deleted.path) == ("DELETE", "/v1/jobs/job-1")


async def test_rows_are_not_tried_again_twice(service: ScriptedService, job: AsyncJob) -> None:
    """The second request would find the job running and be refused, as if nothing had been done."""
    service.script = in_turn(Answer(status=0, is_cut=True))

    with pytest.raises(AnswerCut):
        await job.retry("failed")

    assert len(service.asked) == 1


async def test_waiting_ends_with_the_job(service: ScriptedService, job: AsyncJob) -> None:
    states = [job_info("paused"), job_info("running"), job_info("failed", problem="no")]
    service.script = in_turn(*map(json_answer, states))

    info = await job.wait()

    assert (info.status, info.problem) == ("failed", "no")
    assert await job.wait() is info
    assert {asked.path for asked in service.asked} == {"/v1/jobs/job-1"}
    assert len(service.asked) == 3


async def test_waiting_ends_when_the_service_pauses_the_job(service: ScriptedService, job: AsyncJob) -> None:
    service.script = in_turn(json_answer(job_info("paused", problem="max_cost is spent")))

    assert (await job.wait()).problem == "max_cost is spent"


async def test_waiting_is_bounded_and_the_job_goes_on(service: ScriptedService, job: AsyncJob) -> None:
    service.script = in_turn(json_answer(job_info("running", done=2)), HELD)

    with pytest.raises(JobNotEnded, match=r"job job-1 is running after 0\.2 seconds") as caught:
        await job.wait(timeout=0.2)

    assert caught.value.info.id == "job-1"
    assert [asked.method for asked in service.asked] == ["GET", "GET"]


class TimelessConnection(Connection):
    """Notes the pauses and makes none."""

    pauses: list[float]

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)


async def test_waiting_asks_ever_more_seldom_but_every_few_seconds(service: ScriptedService) -> None:
    service.script = in_turn(*[json_answer(job_info("running"))] * 12, json_answer(job_info("completed")))
    connection = TimelessConnection(service.url, api_key=None, timeout=5.0, retries=AT_ONCE)
    connection.pauses = []

    await AsyncJob(connection, JobInfo.model_validate(job_info())).wait()
    await connection.close()

    assert len(connection.pauses) == 12
    assert connection.pauses == sorted(connection.pauses)
    assert (connection.pauses[0], connection.pauses[-1]) == (0.1, 3.0)


def rows_from(first: int, last: int) -> list[bytes]:
    rows = [{"custom_id": f"q{row}", "row": row, "result": result_of(f"q{row}")} for row in range(first, last + 1)]
    return [json.dumps(row).encode() + b"\n" for row in rows]


def page(first: int, last: int, *, is_last: bool = False, **how: Any) -> Answer:
    link = f'</v1/jobs/job-1/results?after={last}&limit=2>; rel="next"'
    return Answer(rows_from(first, last), media_type=NDJSON, headers={} if is_last else {"link": link}, **how)


async def test_results_come_page_by_page(service: ScriptedService, job: AsyncJob) -> None:
    error = {"type": "urn:x", "title": "t", "status": 422, "detail": "d", "errors": []}
    bad = json.dumps({"custom_id": None, "row": 4, "line": 7, "error": error}).encode() + b"\n"
    last = Answer([bad], media_type=NDJSON)
    service.script = in_turn(page(0, 1), page(2, 3), last)

    rows = [row async for row in job.results(page_size=2)]

    assert [(row.index, row.custom_id) for row in rows] == [(0, "q0"), (1, "q1"), (2, "q2"), (3, "q3"), (4, None)]
    assert rows[0].result is not None
    assert rows[4].problem is not None
    assert rows[4].line == 7
    assert [asked.params for asked in service.asked] == [
        {"limit": "2"},
        {"limit": "2", "after": "1"},
        {"limit": "2", "after": "3"},
    ]
    assert {asked.path for asked in service.asked} == {"/v1/jobs/job-1/results"}


async def test_results_of_a_running_job_are_waited_for(service: ScriptedService, job: AsyncJob) -> None:
    script = page(0, 0), page(1, 0), page(1, 0), page(1, 2, is_last=True)
    service.script = in_turn(*script)

    assert [row.index async for row in job.results(poll_seconds=0.0)] == [0, 1, 2]

    service.script = in_turn(*script)
    assert [row.index async for row in job.results(follow=False)] == [0]


async def test_a_cut_page_is_taken_up_where_it_ended(service: ScriptedService, job: AsyncJob) -> None:
    cut = page(0, 2, is_cut=True)
    within = Answer([*rows_from(3, 3), rows_from(4, 4)[0][:50]], media_type=NDJSON)
    service.script = in_turn(cut, problem(503), within, page(4, 5, is_last=True))

    assert [row.index async for row in job.results()] == [0, 1, 2, 3, 4, 5]
    assert [asked.params.get("after") for asked in service.asked] == [None, "2", "2", "3"]


async def test_a_link_leads_nowhere_else(service: ScriptedService, job: AsyncJob) -> None:
    async with ScriptedService(in_turn(page(1, 1, is_last=True))) as other:
        link = f'<{other.url}/v1/jobs/other/results?after=0&limit=1>; rel="next"'
        first = Answer(rows_from(0, 0), media_type=NDJSON, headers={"link": link})
        service.script = in_turn(first, page(1, 1, is_last=True))

        assert [row.index async for row in job.results()] == [0, 1]

    assert other.asked == []


@pytest.mark.parametrize("lines", [rows_from(1, 1) + rows_from(0, 0), [b"<html>\n"], [b'{"result":{}}\n']])
async def test_results_that_are_none_are_told(service: ScriptedService, job: AsyncJob, lines: list[bytes]) -> None:
    service.script = in_turn(Answer(lines, media_type=NDJSON))

    with pytest.raises(AnswerUnreadable):
        [row async for row in job.results()]


async def test_results_begin_behind_a_row(service: ScriptedService, job: AsyncJob) -> None:
    service.script = in_turn(page(4, 5, is_last=True))

    assert [row.index async for row in job.results(after=3)] == [4, 5]
    assert service.asked[0].params["after"] == "3"
    with pytest.raises(InvalidInput, match="page_size"):
        job.results(page_size=0)


def whole_job() -> Script:
    answers = {
        ("POST", "/v1/jobs"): JOB,
        ("GET", "/v1/jobs"): json_answer({"jobs": [job_info()], "next": None}),
        ("GET", "/v1/jobs/job-1"): json_answer(job_info("completed")),
        ("GET", "/v1/jobs/job-1/results"): page(0, 3, is_last=True),
        ("GET", "/v1/jobs/job-1/report"): Answer([b"{}"]),
        ("DELETE", "/v1/jobs/job-1"): problem(500),
        **{("POST", f"/v1/jobs/job-1/{each}"): JOB for each in ("pause", "resume", "cancel", "retry")},
    }
    return lambda asked: answers[asked.method, asked.path]


def test_without_asyncio_waiting_is_bounded_too() -> None:
    answers = in_turn(json_answer(job_info()), json_answer(job_info("running", done=2)), HELD)
    with scripted(answers) as service, Plumbline(service.url) as client:
        job = client.jobs.get("job-1")
        with pytest.raises(JobNotEnded, match=r"job job-1 is running after 0\.2 seconds"):
            job.wait(timeout=0.2)

    assert [asked.path for asked in service.asked] == ["/v1/jobs/job-1"] * 3


def test_without_asyncio_it_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    path.write_text(json.dumps(ROW) + "\n")

    def come() -> Iterator[dict[str, Any]]:
        yield ROW

    with scripted(whole_job()) as service, Plumbline(service.url) as client:
        client.jobs.submit(come())
        job = client.jobs.submit(path, name="Friday")
        assert job.wait(timeout=10).status == "completed"
        assert (job.id, job.status, job.is_ended, job.info.name) == ("job-1", "completed", True, None)
        assert [row.index for row in job.results()] == [0, 1, 2, 3]
        assert [each.id for each in client.jobs.list()] == [client.jobs.get("job-1").id]
        assert job.refresh().status == "completed"
        assert [job.pause(), job.resume(), job.cancel(), job.retry("failed")] == [job.info] * 4
        assert job.report(format="json") == b"{}"
        with pytest.raises(ServiceFailed):
            job.delete()


async def test_a_job_is_forgotten_also_when_the_answer_was_lost(service: ScriptedService, job: AsyncJob) -> None:
    service.script = in_turn(Answer(status=0, is_cut=True), problem(404, "job-unknown"))

    await job.delete()

    assert len(service.asked) == 2
