"""The end of connections when the server ends: what was sent is answered, and the last answer says so."""

import asyncio
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import pytest
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse
from uvicorn.protocols.http.flow_control import CLOSE_HEADER

from plumbline.cli.connections import ConnectionTimeouts, TimeoutProtocol, timeout_protocol
from tests.running.edge_app import in_thread

pytestmark = pytest.mark.timeout(60)
GET = b"GET /quick HTTP/1.1\r\nHost: a\r\n\r\n"
HELD = b"POST /held HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nab"
CLOSE = b"connection: close"
PATIENT = ConnectionTimeouts(linger_seconds=30)


def app_of(begun: threading.Semaphore, released: threading.Semaphore) -> FastAPI:
    app = FastAPI()

    @app.get("/quick")
    async def quick() -> str:
        return "quick"

    @app.post("/held")
    async def held(request: Request) -> int:
        begun.release()
        return len(await request.body())

    @app.get("/streamed")
    async def streamed() -> StreamingResponse:
        async def pieces() -> AsyncIterator[bytes]:
            yield b"begun"
            await asyncio.to_thread(released.acquire)
            yield b"ended"

        return StreamingResponse(pieces())

    return app


class Service:
    """A server in a thread that can be told to end."""

    def __init__(self, timeouts: ConnectionTimeouts) -> None:
        self.begun, self.released = threading.Semaphore(0), threading.Semaphore(0)
        http = timeout_protocol(timeouts)
        app = app_of(self.begun, self.released)
        config = uvicorn.Config(
            app, http=http, ws="none", log_config=None, lifespan="off", timeout_graceful_shutdown=30
        )
        self.server = uvicorn.Server(config)
        self.listener = socket.create_server(("127.0.0.1", 0))

    def end(self) -> None:
        """Begin the end; return when connections know of it."""
        self.server.should_exit = True
        while CLOSE_HEADER not in self.server.server_state.default_headers:
            time.sleep(0.005)

    @contextmanager
    def connection(self, sent: bytes) -> Iterator[socket.socket]:
        with socket.create_connection(self.listener.getsockname(), timeout=30) as connection:
            connection.sendall(sent)
            yield connection


@contextmanager
def serving(timeouts: ConnectionTimeouts = PATIENT) -> Iterator[Service]:
    service = Service(timeouts)
    with in_thread(service.server, service.listener):
        yield service


def read(connection: socket.socket, end: bytes = b"") -> bytes:
    """Receive up to this end of an answer; without one, to the end of the connection."""
    received = b""
    while not (end and received.endswith(end)) and (part := connection.recv(65_536)):
        received += part
    return received


def test_a_request_on_its_way_to_a_kept_connection_is_answered_and_is_the_last() -> None:
    with serving() as service, service.connection(GET) as kept:
        first = read(kept, b'"quick"')
        service.end()
        kept.sendall(GET)
        last = read(kept)

    assert first.startswith(b"HTTP/1.1 200 ")
    assert CLOSE not in first
    assert last.startswith(b"HTTP/1.1 200 ")
    assert CLOSE in last
    assert last.endswith(b'"quick"')


def test_connections_without_a_request_are_closed_after_a_moment() -> None:
    timeouts = ConnectionTimeouts(linger_seconds=0.1)
    with serving(timeouts) as service, service.connection(b"") as new, service.connection(GET) as kept:
        read(kept, b'"quick"')
        service.end()

        assert (read(new), read(kept)) == (b"", b"")


def test_a_request_in_flight_is_answered_with_word_of_the_end() -> None:
    with serving() as service, service.connection(HELD) as asking:
        service.begun.acquire()
        service.end()
        asking.sendall(b"c")

        answer = read(asking)

    assert answer.startswith(b"HTTP/1.1 200 ")
    assert CLOSE in answer
    assert answer.endswith(b"3")


def test_pipelined_requests_are_all_answered_and_the_last_answer_says_so() -> None:
    with serving() as service, service.connection(HELD) as asking:
        service.begun.acquire()
        service.end()
        asking.sendall(b"c" + GET + GET)

        answers = read(asking).split(b"HTTP/1.1 200 OK")[1:]

    assert [CLOSE in answer for answer in answers] == [False, False, True]
    assert [answer.rpartition(b"\r\n")[2] for answer in answers] == [b"3", b'"quick"', b'"quick"']


def test_an_answer_that_had_begun_is_whole_and_so_is_one_more() -> None:
    with serving() as service, service.connection(GET.replace(b"quick", b"streamed")) as asking:
        begun = read(asking, b"begun\r\n")
        service.end()
        service.released.release()
        rest = read(asking, b"0\r\n\r\n")
        asking.sendall(GET)
        last = read(asking)

    assert begun.startswith(b"HTTP/1.1 200 ")
    assert rest == b"5\r\nended\r\n0\r\n\r\n"
    assert CLOSE in last
    assert last.endswith(b'"quick"')


async def test_a_connection_that_is_made_at_the_end_is_told_of_it() -> None:
    service = Service(PATIENT)
    config, state = service.server.config, service.server.server_state
    config.load()
    state.default_headers = [CLOSE_HEADER]
    timeouts = ConnectionTimeouts(linger_seconds=0.1)
    listening = await asyncio.get_running_loop().create_server(
        lambda: TimeoutProtocol(timeouts=timeouts, server_state=state, config=config, app_state={}),
        sock=service.listener,
    )

    async with listening:
        with service.connection(b"") as silent, service.connection(GET) as asking:
            answer = await asyncio.to_thread(read, asking)
            nothing = await asyncio.to_thread(read, silent)

    assert nothing == b""
    assert CLOSE in answer
    assert answer.endswith(b'"quick"')
