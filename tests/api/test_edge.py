"""The edge: ids, headers, the log line, and bodies that are too large, too slow, or not what they should be."""

import asyncio
import json
import logging
import socket
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import pytest
from structlog.testing import capture_logs
from structlog.typing import EventDict

from tests.making.cases import load_cases
from tests.running.edge_app import client_of, edge_app, read_problem, serve

SECRET = "the patient's name is Mr Confidential"
URL = "/v1/evaluations"
JSON = {"content-type": "application/json"}


@pytest.fixture
def client() -> httpx2.AsyncClient:
    return client_of(edge_app())


@pytest.fixture
def logs() -> Iterator[list[EventDict]]:
    with capture_logs() as captured:
        yield captured


def sample(**fields: Any) -> dict[str, Any]:
    return {"contexts": ["Paris is the capital of France."], "answer": "Paris.", **fields}


# --- request id, headers, log line


async def test_the_request_id_of_the_caller_is_kept(client: httpx2.AsyncClient) -> None:
    response = await client.post(URL, json=sample(), headers={"X-Request-ID": "run-7.a_B"})

    assert response.headers.get_list("x-request-id") == ["run-7.a_B"]


@pytest.mark.parametrize("sent", ["", "a b", "a" * 129, "a\n", "naïve", "a/b", '"', "{}"])
async def test_a_request_id_that_could_do_harm_is_replaced(client: httpx2.AsyncClient, sent: str) -> None:
    response = await client.post(URL, json=sample(), headers=[(b"X-Request-ID", sent.encode())])

    assert len(response.headers["x-request-id"]) == 32
    assert int(response.headers["x-request-id"], 16) >= 0


async def test_every_answer_has_security_headers_and_those_of_v1_are_not_stored(client: httpx2.AsyncClient) -> None:
    answers = [await client.post(URL, json=sample()), await client.post(URL), await client.get("/v1/none")]
    outside = await client.get("/v10")

    for answer in [*answers, outside]:
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
    assert [answer.headers["cache-control"] for answer in answers] == ["no-store"] * 3
    assert "cache-control" not in outside.headers


async def test_one_event_tells_of_a_request_without_quoting_it(
    client: httpx2.AsyncClient, logs: list[EventDict]
) -> None:
    await client.post(f"{URL}?q=secret", json=sample(answer="secret"), headers={"X-Trace": "secret"})
    await client.get("/v1/things/41")
    await client.get("/secret")
    await client.request("SECRET", URL)

    events = [event for event in logs if event["event"] == "request_completed"]
    assert [(event["method"], event["route"], event["status"]) for event in events] == [
        ("POST", "/v1/evaluations", 200),
        ("GET", "/v1/things/{number}", 200),
        ("GET", "unmatched", 404),
        ("other", "/v1/evaluations", 405),
    ]
    assert all(event["milliseconds"] >= 0 for event in events)
    assert "secret" not in repr(logs).lower()


# --- every bad request is a problem, small and soon


def in_answer(text: str) -> bytes:
    return b'{"contexts": [], "answer": ' + text.encode() + b"}"


BAD_BODIES: dict[str, tuple[bytes, int, str, str]] = {
    # name: body, status, pointer, a part of the detail
    **{name: (body.encode(), *said) for name, (body, *said) in load_cases("edge", "bad_bodies").items()},
    "long item": (json.dumps(sample(contexts=["a" * 1001])).encode(), 422, "/contexts/0", "at most 1000 characters"),
    "10,000 contexts": (json.dumps(sample(contexts=["a"] * 10_000)).encode(), 422, "/contexts", "at most 200"),
    "200,000 wrong items": (json.dumps(sample(contexts=[1] * 200_000)).encode(), 422, "/contexts", "200000 items"),
    "29,000 wrong items": (json.dumps(sample(notes=[1] * 29_000)).encode(), 422, "/notes/0", "valid string"),
    "29,000 wrong objects": (json.dumps(sample(notes=[{}] * 29_000)).encode(), 422, "/notes/0", "valid string"),
    "4 MB of objects": (b"[" + b"{}," * 1_398_000 + b"{}]", 400, "", "more than 30000 lists and objects"),
    "4 MB of numbers": (b"[" + b"1," * 2_097_000 + b"1]", 422, "", "2097001 items"),
    "4 MB of lists": (b"[" + b"[]," * 1_398_000 + b"[]]", 400, "", "more than 30000 lists and objects"),
    "100,000 unknown": (json.dumps({f"k{n}": n for n in range(100_000)}).encode(), 422, "", "at most 64"),
    "nested too many keys": (in_answer(json.dumps({f"k{n}": n for n in range(65)})), 422, "/answer", "has 65 keys"),
    "60 unknown": (json.dumps({f"{n}" * 99: n for n in range(60)}).encode(), 422, "/contexts", "Field required"),
    "deep": (b"[" * 100_000, 400, "", "deeper than 32"),
    "rather deep": (b"[" * 20_000, 400, "", "deeper than 32"),
    "deep objects": (b'{"a":' * 100_000, 400, "", "deeper than 32"),
    "5,000 digits": (in_answer('"", "threshold": ' + "1" * 5000), 422, "/threshold", "not a finite number"),
    "4 MB of digits": (b"1" * 4_194_000, 422, "", "not a finite number"),
    "4 MB float": (b"0." + b"1" * 4_194_000, 422, "", "valid dictionary"),
    "invalid UTF-8": (b'{"answer": "\xff"}', 400, "", "byte 12"),
    "UTF-16": (json.dumps(sample()).encode("utf-16"), 400, "", "byte 0"),
    "10 MB": (b"a" * 10_000_000, 413, "", "4194304 bytes"),
}


@pytest.mark.parametrize("name", BAD_BODIES)
async def test_a_bad_body_gets_a_small_problem(client: httpx2.AsyncClient, name: str) -> None:
    body, status, pointer, detail = BAD_BODIES[name]

    response = await client.post(URL, content=body, headers=JSON)

    problem = read_problem(response, status)
    told = [(error.pointer, error.detail) for error in problem.errors] or [("", problem.detail)]
    assert [words for place, words in told if place == pointer and detail in words]
    assert len(problem.errors) <= 20


async def test_a_body_of_4_mb_that_is_good_is_read(client: httpx2.AsyncClient) -> None:

    response = await client.post(URL, json=sample(answer="é" * 2_000_000))

    assert response.status_code == 200


async def test_brackets_in_a_text_are_no_nesting(client: httpx2.AsyncClient) -> None:
    response = await client.post(URL, json=sample(answer='[{"\\' * 100_000))

    assert response.status_code == 200


async def test_a_text_that_never_ends_is_read_once(client: httpx2.AsyncClient) -> None:
    # a pattern that starts again at every quote would take hours over this
    body = b'{"answer": "' + b'[{\\"' * 800_000

    response = await client.post(URL, content=body, headers=JSON)

    assert "Unterminated string" in read_problem(response, 400).detail


async def test_a_byte_order_mark_is_skipped(client: httpx2.AsyncClient) -> None:
    response = await client.post(URL, content=b"\xef\xbb\xbf" + json.dumps(sample()).encode(), headers=JSON)

    assert response.status_code == 200


@pytest.mark.parametrize("content_type", load_cases("edge", "content_types"))
async def test_only_json_in_utf_8_is_read(client: httpx2.AsyncClient, content_type: str) -> None:
    response = await client.post(URL, content=json.dumps(sample()), headers={"content-type": content_type})

    assert read_problem(response, 415).type == "urn:plumbline:problem:unsupported-body"


@pytest.mark.parametrize(
    "content_type", ["application/json", "Application/JSON; charset=UTF-8", "application/vnd.plumbline.v1+json"]
)
async def test_the_ways_to_say_json_are_known(client: httpx2.AsyncClient, content_type: str) -> None:
    response = await client.post(URL, content=json.dumps(sample()), headers={"content-type": content_type})

    assert response.status_code == 200


@pytest.mark.parametrize(("length", "status"), [("9" * 5000, 413), ("4194305", 413), ("many", 400), ("-1", 400)])
async def test_the_stated_length_is_enough_to_refuse(length: str, status: int) -> None:
    reads = 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal reads
        reads += 1
        yield b""

    response = await client_of(edge_app()).post(URL, content=body(), headers={**JSON, "content-length": length})

    read_problem(response, status)
    assert response.headers["connection"] == "close"


async def test_a_body_of_unstated_length_is_counted(client: httpx2.AsyncClient) -> None:
    async def body() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b"a" * 100_000

    response = await client.post(URL, content=body(), headers=JSON)

    assert "4194304 bytes" in read_problem(response, 413).detail


async def test_a_body_may_be_as_large_as_the_limit_and_not_one_byte_larger() -> None:
    body = json.dumps(sample()).encode()

    at_limit = await client_of(edge_app(max_body_bytes=len(body))).post(URL, content=body, headers=JSON)
    beyond = await client_of(edge_app(max_body_bytes=len(body) - 1)).post(URL, content=body, headers=JSON)

    assert at_limit.status_code == 200
    read_problem(beyond, 413)


async def test_a_route_that_reads_the_raw_body_gets_it_once_and_then_the_connection(client: httpx2.AsyncClient) -> None:
    response = await client.post("/v1/raw", content=b"\xff\x00raw")

    assert response.json() == {"bytes": 5, "is_disconnected": False}


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "TRACE"])
async def test_a_method_that_is_not_served_says_which_is(client: httpx2.AsyncClient, method: str) -> None:
    response = await client.request(method, URL)

    assert response.status_code == 405
    assert response.headers["allow"] == "POST"
    assert response.headers["content-type"] == "application/problem+json"
    if method != "HEAD":
        assert read_problem(response, 405).detail == "this path takes POST"


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_path_that_is_not_served_is_a_problem(client: httpx2.AsyncClient, method: str) -> None:
    response = await client.request(method, "/v1/" + "é<script>" * 1000)

    problem = read_problem(response, 404)
    assert problem.type == "urn:plumbline:problem:not-found"
    assert problem.instance.startswith("/v1/%C3%A9%3Cscript%3E")
    assert len(problem.instance) == 200


@pytest.mark.parametrize("method", ["POST", "GET"])
async def test_a_body_that_two_servers_may_read_in_two_ways_is_not_read(
    client: httpx2.AsyncClient, method: str
) -> None:
    headers = {**JSON, "Content-Length": "5", "Transfer-Encoding": "chunked"}

    response = await client.request(method, URL, content=b"0\r\n\r\n", headers=headers)

    assert "either a Content-Length or chunks" in read_problem(response, 400).detail
    assert response.headers["connection"] == "close"


# --- over a socket


@pytest.fixture
def port() -> Iterator[int]:
    with serve(edge_app(max_body_bytes=100_000, body_timeout_seconds=0.2)) as port:
        yield port


def request_head(*headers: str, path: str = URL) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json", *headers, "", ""]
    return "\r\n".join(lines).encode()


def read_to_end(connection: socket.socket) -> bytes:
    received = b""
    while part := connection.recv(65536):
        received += part
    return received


def test_a_body_that_trickles_is_cut_off(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(request_head("Content-Length: 1000") + b"{")
        for _ in range(6):
            time.sleep(0.05)
            connection.sendall(b" ")

        received = read_to_end(connection)

    assert received.startswith(b"HTTP/1.1 408 ")
    assert b"within 0.2 seconds" in received


def test_a_caller_who_leaves_early_is_noted_and_disturbs_nobody(
    logs: list[EventDict], caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with serve(edge_app()) as port:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(request_head("Content-Length: 1000") + b'{"answer": "')
        response = httpx2.post(f"http://127.0.0.1:{port}{URL}", json=sample())

    assert response.status_code == 200
    assert sorted(event["status"] for event in logs) == [200, 499]
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert capfd.readouterr() == ("", "")


def test_no_text_of_a_caller_reaches_the_logs_or_the_terminal(
    logs: list[EventDict], caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    secret = sample(answer=SECRET, question=SECRET)
    caplog.set_level(logging.INFO)

    with serve(edge_app()) as port:
        v1 = f"http://127.0.0.1:{port}/v1"
        paths = ("/evaluations", "/crash", "/fail", "/wrong-answer")
        statuses = [httpx2.post(f"{v1}{path}?q={SECRET}", json=secret).status_code for path in paths]
        with pytest.raises(httpx2.RemoteProtocolError):
            httpx2.post(f"{v1}/crash-late", json=secret)
        invalid = httpx2.post(f"{v1}/evaluations", json=sample(question=f"tell:{SECRET}", tiers=[SECRET]))

    assert statuses == [200, 500, 500, 500]
    assert invalid.status_code == 422
    # not the log of the client in this process, nor uvicorn's access log: it is switched off, but pytest hears it
    records = [(record.getMessage(), record.exc_info) for record in caplog.records if record.name == "uvicorn.error"]
    everything = invalid.text + repr(logs) + repr(records) + "".join(capfd.readouterr())
    assert "request_failed" in everything
    assert "Confidential" not in everything


async def test_a_request_that_a_server_gives_up_as_it_ends_is_refused_and_tells_nothing() -> None:
    async def hang() -> dict[str, Any]:
        await asyncio.sleep(60)
        return {}

    scope = {"type": "http", "method": "POST", "path": URL, "headers": [], "query_string": b"", "root_path": ""}
    answers: list[Any] = []

    async def send(message: Any) -> None:
        answers.append(message)

    task = asyncio.create_task(edge_app()(scope, hang, send))
    await asyncio.sleep(0.01)
    task.cancel()

    with pytest.raises(asyncio.CancelledError) as cancelled:
        await task
    assert cancelled.value.__suppress_context__
    start, body = answers
    headers = {name.decode().lower(): value.decode() for name, value in start["headers"]}
    assert (start["status"], headers["retry-after"], headers["connection"]) == (503, "5", "close")
    assert json.loads(body["body"])["type"] == "urn:plumbline:problem:ending"
