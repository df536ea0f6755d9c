"""Bodies that are handed on as they arrive: counted, held to a pace, and answered before their end where need be."""

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI, Request

from plumbline.ground.errors import BodyTooLarge, BodyTooSlow
from plumbline.service.api.body_stream import PROGRESS_BYTES, BodyLimit, BodyLimits, RequestBody
from plumbline.service.api.edge import install_edge
from plumbline.service.api.problems import install_problem_handlers
from tests.running.edge_app import read_problem, serve

URL = "/v1/jobs"
MAX_BYTES = 200_000


def pieces(*bodies: bytes) -> list[dict[str, Any]]:
    """A body in these pieces."""
    return [
        {"type": "http.request", "body": body, "more_body": at < len(bodies)} for at, body in enumerate(bodies, start=1)
    ]


class Server:
    """Hands out messages, the later ones when it is told to, and notes what it is sent."""

    def __init__(self, messages: list[dict[str, Any]]) -> None:
        self.left = messages
        self.sent: list[dict[str, Any]] = []

    async def receive(self) -> Any:
        if not self.left:
            await asyncio.Event().wait()
        return self.left.pop(0)

    async def send(self, message: Any) -> None:
        self.sent.append(message)


def streamed(server: Server, *, max_bytes: int = MAX_BYTES, progress_seconds: float = 60.0) -> RequestBody:
    scope = {"type": "http", "method": "POST", "headers": [(b"transfer-encoding", b"chunked")]}
    limit = BodyLimit(max_bytes, is_streamed=True)
    return RequestBody(scope, server.receive, server.send, limit=limit, seconds=progress_seconds)


async def test_a_body_is_handed_on_piece_by_piece() -> None:
    server = Server(pieces(b"a", b"b", b"c"))
    body = streamed(server)

    assert [(await body.receive())["body"] for _ in range(2)] == [b"a", b"b"]
    assert len(server.left) == 1


async def test_a_body_may_be_as_large_as_the_limit_and_not_one_byte_larger() -> None:
    at_limit, beyond = (streamed(Server(pieces(b"ab", last)), max_bytes=4) for last in (b"cd", b"cde"))
    await at_limit.receive()
    await beyond.receive()

    assert (await at_limit.receive())["body"] == b"cd"
    with pytest.raises(BodyTooLarge, match="more than 4 bytes"):
        await beyond.receive()


async def test_a_body_that_stops_is_given_up() -> None:
    body = streamed(Server(pieces(b"a" * PROGRESS_BYTES, b"b", b"c")[:2]), progress_seconds=0.01)
    await body.receive()
    await body.receive()

    with pytest.raises(BodyTooSlow, match=r"fewer than 16384 bytes of the body arrived within 0\.01 seconds"):
        await body.receive()


class Clock(asyncio.SelectorEventLoop):
    """A loop whose time goes on when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead = 0.0

    def time(self) -> float:
        return super().time() + self.ahead


def test_time_counts_while_the_body_is_waited_for_and_begins_anew_with_progress() -> None:
    loop = Clock()

    class SlowServer(Server):
        async def receive(self) -> Any:
            loop.ahead += 40.0
            return await super().receive()

    async def received(*bodies: bytes, between: float = 0.0) -> int:
        body = streamed(SlowServer(pieces(*bodies)))
        for _ in bodies:
            await body.receive()
            # an app that is busy takes its own time
            loop.ahead += between
            await asyncio.sleep(0)
        return len(bodies)

    async def trickled() -> None:
        body = streamed(SlowServer(pieces(*[b"a"] * 4)[:2]))
        await body.receive()
        await body.receive()
        await body.receive()

    try:
        assert loop.run_until_complete(received(*[b"a" * PROGRESS_BYTES] * 10)) == 10
        assert loop.run_until_complete(received(b"a", b"", between=1_000.0)) == 2
        with pytest.raises(BodyTooSlow):
            loop.run_until_complete(trickled())
    finally:
        loop.close()


async def test_behind_the_body_the_server_has_all_the_time_it_wants() -> None:
    server = Server([*pieces(b"a"), {"type": "http.disconnect"}])
    body = streamed(server, progress_seconds=0.0)

    assert (await body.receive())["more_body"] is False
    assert (await body.receive())["type"] == "http.disconnect"


async def test_an_answer_before_the_end_closes_the_connection_and_throws_the_rest_away() -> None:
    server = Server(pieces(b"a", b"b", b"c"))
    body = streamed(server)
    await body.receive()

    await body.send({"type": "http.response.start", "status": 413, "headers": []})
    await body.send({"type": "http.response.body", "body": b"no"})

    assert server.sent[0]["headers"] == [(b"connection", b"close")]
    assert [(each["body"], each["more_body"]) for each in server.sent[1:]] == [(b"no", True), (b"", False)]
    assert server.left == []


async def test_an_answer_behind_the_end_is_sent_as_it_is() -> None:
    server = Server(pieces(b"a"))
    body = streamed(server)
    await body.receive()
    answer: list[dict[str, Any]] = [
        {"type": "http.response.start", "status": 202, "headers": []},
        {"type": "http.response.body", "body": b"yes"},
    ]

    for message in answer:
        await body.send(message)

    assert server.sent == answer
    assert server.sent[0]["headers"] == []


# --- over a socket


def counting_app() -> FastAPI:
    app = FastAPI(redirect_slashes=False)

    @app.post(URL)
    async def count(request: Request) -> int:
        return sum([len(piece) async for piece in request.stream()])

    @app.post(f"{URL}/one/pause")
    async def pause(request: Request) -> int:
        return len(await request.body())

    @app.post("/v1/refused")
    async def refuse() -> None:
        """Never reads its body."""

    install_problem_handlers(app)
    install_edge(
        app,
        body_limits=partial(
            BodyLimits,
            max_bytes=1_000,
            timeout_seconds=0.2,
            limit_by_path=dict.fromkeys((URL, "/v1/refused"), BodyLimit(MAX_BYTES, is_streamed=True)),
        ),
    )
    return app


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with serve(counting_app()) as port:
        yield port


def test_a_large_body_arrives_and_the_connection_lives_on(port: int) -> None:
    with httpx2.Client(base_url=f"http://127.0.0.1:{port}") as client:
        answers = [client.post(URL, content=b"a" * MAX_BYTES) for _ in range(2)]

    assert [each.json() for each in answers] == [MAX_BYTES] * 2
    assert "connection" not in answers[0].headers


@pytest.mark.parametrize("path", [URL, "/v1/refused", "/v1/nothing", f"{URL}/one/pause"])
def test_a_client_that_sends_10_mb_can_read_what_was_answered(port: int, path: str) -> None:
    response = httpx2.post(f"http://127.0.0.1:{port}{path}", content=b"a" * 10_000_000)

    read_problem(response, 413)


def test_a_body_that_no_route_reads_is_answered_and_the_connection_closed(port: int) -> None:
    response = httpx2.post(f"http://127.0.0.1:{port}/v1/refused", content=b"a" * MAX_BYTES)

    assert (response.status_code, response.headers["connection"]) == (200, "close")


def test_only_the_path_itself_takes_large_bodies(port: int) -> None:
    small = httpx2.post(f"http://127.0.0.1:{port}{URL}/one/pause", content=b"a" * 1_000)
    large = httpx2.post(f"http://127.0.0.1:{port}{URL}/one/pause", content=b"a" * 1_001)

    assert small.json() == 1_000
    read_problem(large, 413)
