"""Callers of `plumbline serve` who send a head slowly, take no answer, break off, or are too many."""

import asyncio
import json
import logging
import resource
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import httpx2
import pytest
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse
from starlette.requests import ClientDisconnect

from plumbline.cli.connections import ConnectionTimeouts, timeout_protocol
from plumbline.cli.serve import connections_within_descriptors
from plumbline.main import create_app
from tests.running.edge_app import in_thread
from tests.running.service import plain_settings

GET = b"GET /quick HTTP/1.1\r\nHost: a\r\n\r\n"
PROMPT = ConnectionTimeouts(head_seconds=0.3, send_seconds=0.3)


def small_app(told: threading.Semaphore) -> FastAPI:
    """Tells of each answer that ends, and of each request that is held."""
    app = FastAPI()

    @app.get("/quick")
    async def quick() -> str:
        return "quick"

    @app.get("/endless")
    async def endless() -> StreamingResponse:
        async def pieces() -> AsyncIterator[bytes]:
            try:
                while True:
                    yield b"a" * 65_536
                    # to whoever has left it is sent without a wait
                    await asyncio.sleep(0)
            finally:
                told.release()

        return StreamingResponse(pieces())

    @app.post("/early")
    async def early() -> StreamingResponse:
        async def pieces() -> AsyncIterator[bytes]:
            yield b"begun"
            await asyncio.sleep(30)

        return StreamingResponse(pieces())

    @app.post("/held")
    async def held(request: Request) -> int:
        told.release()
        with suppress(ClientDisconnect):
            return len(await request.body())
        return 0

    return app


def server_of(timeouts: ConnectionTimeouts, told: threading.Semaphore | None = None) -> uvicorn.Server:
    """The service's own server with a small app."""
    config = uvicorn.Config(
        small_app(told or threading.Semaphore(0)),
        http=timeout_protocol(timeouts),
        ws="none",
        log_config=None,
        lifespan="off",
        timeout_graceful_shutdown=1,
    )
    return uvicorn.Server(config)


@contextmanager
def running(server: uvicorn.Server) -> Iterator[int]:
    """The port of a server, until the context ends."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16_384)
    with in_thread(server, listener):
        yield listener.getsockname()[1]


@contextmanager
def serving(timeouts: ConnectionTimeouts, told: threading.Semaphore | None = None) -> Iterator[int]:
    with running(server_of(timeouts, told)) as port:
        yield port


@contextmanager
def connected(port: int, sent: bytes = b"") -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(sent)
        yield connection


def read_until(connection: socket.socket, end: bytes) -> bool:
    received = b""
    while not received.endswith(end) and (part := connection.recv(65_536)):
        received += part
    return received.endswith(end)


def is_refused(port: int) -> bool:
    try:
        with connected(port, GET) as connection:
            return connection.recv(1) == b""
    except (ConnectionResetError, BrokenPipeError):
        return True


def read_to_end(connection: socket.socket) -> bytes:
    received = b""
    while part := connection.recv(65_536):
        received += part
    return received


@pytest.mark.parametrize(
    ("sent", "received"),
    [
        (b"", b""),
        (b"GET /quick HTTP/1.1\r\nHost", b""),
        (b"\r\n", b""),
        (GET + b"GET /quick HTT", b'"quick"'),
        (b"GET /quick HTTP/1.1\r\nHost: a\r\nContent-Length: 99\r\n\r\nand no more", b'"quick"'),
    ],
    ids=["nothing", "half a head", "an empty line", "half a second head", "half a body that nobody reads"],
)
def test_whoever_does_not_send_a_head_is_left(sent: bytes, received: bytes) -> None:
    with serving(PROMPT) as port, connected(port, sent) as connection:
        assert read_to_end(connection).endswith(received)


def test_a_head_that_dribbles_is_left_as_one_that_stops() -> None:
    with serving(PROMPT) as port, connected(port, GET[:-2]) as connection:
        connection.settimeout(0.05)
        for _ in range(100):
            try:
                connection.sendall(b"a: b\r\n")
                if not connection.recv(1):
                    return
            except TimeoutError:
                continue
            except OSError:
                return
    pytest.fail("it was not left")


def test_whoever_asks_again_and_again_is_not_left() -> None:
    with serving(PROMPT) as port, connected(port) as connection:
        for _ in range(16):
            connection.sendall(GET)
            assert read_until(connection, b'"quick"')
            time.sleep(0.1)


def test_whoever_takes_no_answer_is_left_and_the_answer_ends() -> None:
    told = threading.Semaphore(0)

    with serving(PROMPT, told) as port, connected(port, GET.replace(b"quick", b"endless")):
        assert told.acquire(timeout=10)


def test_a_slow_reader_keeps_its_answer() -> None:
    timeouts = ConnectionTimeouts(head_seconds=0.3, send_seconds=1.5)
    with serving(timeouts) as port, connected(port, GET.replace(b"quick", b"endless")) as connection:
        for _ in range(20):
            assert len(connection.recv(65_536)) > 0
            time.sleep(0.15)


def test_too_many_connections_cost_those_that_were_waited_for_longest() -> None:
    with serving(ConnectionTimeouts(max_connections=8)) as port, ExitStack() as stack:
        silent = [stack.enter_context(connected(port)) for _ in range(8)]

        answers = [httpx2.get(f"http://127.0.0.1:{port}/quick").status_code for _ in range(4)]

        assert answers == [200] * 4
        assert read_until(stack.enter_context(connected(port, GET)), b'"quick"')
        assert silent[0].recv(1) == b""


def test_requests_under_way_are_not_let_go_for_new_ones() -> None:
    body = b"POST /held HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nab"
    told = threading.Semaphore(0)
    with serving(ConnectionTimeouts(max_connections=2), told) as port, ExitStack() as stack:
        held = [stack.enter_context(connected(port, body)) for _ in range(2)]
        for _ in held:
            assert told.acquire(timeout=10)

        assert is_refused(port)
        for each in held:
            each.sendall(b"c")
            assert read_until(each, b"\r\n\r\n3")


@pytest.mark.parametrize("path", [b"/early", b"/held"])
def test_a_body_that_breaks_off_into_nonsense_disturbs_nobody(path: bytes, caplog: pytest.LogCaptureFixture) -> None:
    head = b"POST " + path + b" HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    with serving(ConnectionTimeouts()) as port, connected(port, head) as connection:
        if path == b"/early":
            assert connection.recv(65_536).startswith(b"HTTP/1.1 200")
        connection.sendall(b"no chunk\r\n")
        received = read_to_end(connection)

    assert received.startswith(b"HTTP/1.1 400 ") == (path == b"/held")
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


@pytest.mark.parametrize(
    ("limits", "wanted", "found", "raised_to"),
    [
        ((1_024, 4_096), 2_048, 2_048, 2_560),
        ((1_024, resource.RLIM_INFINITY), 100_000, 100_000, 100_512),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), 2_048, 2_048, None),
        ((65_536, 65_536), 2_048, 2_048, None),
        ((1_024, 1_024), 2_048, 512, None),
        ((256, 256), 2_048, 64, None),
    ],
)
def test_connections_are_as_many_as_there_can_be_descriptors(
    monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int], wanted: int, found: int, raised_to: int | None
) -> None:
    changed: list[Any] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda _, new: changed.append(new))

    assert connections_within_descriptors(wanted) == found
    assert changed == ([] if raised_to is None else [(raised_to, limits[1])])
    assert json.dumps(changed)


@pytest.fixture(scope="module")
def service_port() -> Iterator[int]:
    config = uvicorn.Config(
        create_app(plain_settings()), http=timeout_protocol(ConnectionTimeouts()), ws="none", log_config=None
    )
    with running(uvicorn.Server(config)) as port:
        yield port


@pytest.mark.parametrize("target", [b"*", b"?x=1", b"\\version", b"version", b"http://127.0.0.1/version", b"a:1"])
@pytest.mark.parametrize("method", [b"GET", b"OPTIONS"])
def test_a_target_that_is_no_path_is_refused_with_a_request_id(service_port: int, target: bytes, method: bytes) -> None:
    head = b"%s %s HTTP/1.1\r\nHost: a\r\nAccept: text/html\r\nConnection: close\r\n\r\n" % (method, target)
    with connected(service_port, head) as connection:
        answered, _, body = read_to_end(connection).partition(b"\r\n\r\n")

    problem = json.loads(body)
    assert answered.startswith(b"HTTP/1.1 400 ")
    assert b"\r\nx-request-id: " in answered.lower()
    assert problem["detail"] == "the target of the request is no path; expected one such as '/v1/evaluations'"
    assert problem["request_id"]
