"""Bodies sent as gzip: read as what they expand to, under the same bounds as any other."""

import gzip
import json
import random
import zlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI, Request
from starlette.types import Message, Receive

from plumbline.ground.errors import BodyTooLarge
from plumbline.service.api.body_stream import BodyLimit, BodyLimits, RequestBody
from plumbline.service.api.edge import install_edge
from plumbline.service.api.problems import install_problem_handlers
from tests.running.edge_app import MAX_BODY_BYTES, SOON_SECONDS, client_of, edge_app, read_problem, serve

URL = "/v1/evaluations"
GZIP = {"content-type": "application/json", "content-encoding": "gzip"}
SAMPLE = json.dumps({"contexts": ["Paris is the capital of France."], "answer": "Paris."}).encode()
STREAM_BYTES = 4_000_000


@cache
def zeros(megabytes: int) -> bytes:
    """A bomb: a thousandth of what it expands to."""
    deflate = zlib.compressobj(9, wbits=31)
    return b"".join(deflate.compress(bytes(1_000_000)) for _ in range(megabytes)) + deflate.flush()


def noise(size: int) -> bytes:
    """Text that shrinks to half."""
    return random.Random(size).randbytes(size // 2 + 1).hex().encode()[:size]  # noqa: S311


def long_name(size: int) -> bytes:
    """The head of a gzip member with a file name of so many bytes (RFC 1952, section 2.3): nothing comes of it."""
    return b"\x1f\x8b\x08\x08\0\0\0\0\0\xff" + b"a" * size


@pytest.fixture
def client() -> httpx2.AsyncClient:
    return client_of(edge_app())


@pytest.mark.parametrize("coding", ["gzip", "GZIP", "x-gzip", "identity, gzip"])
async def test_a_body_sent_as_gzip_is_read(client: httpx2.AsyncClient, coding: str) -> None:
    headers = {**GZIP, "content-encoding": coding}

    response = await client.post(URL, content=gzip.compress(SAMPLE), headers=headers)

    assert response.status_code == 200
    assert response.json()["answer"] == "Paris."


@pytest.mark.parametrize("coding", ["br", "zstd", "deflate", "compress", "gzip, gzip", "gzip, br", "*", "ünknown"])
async def test_of_other_codings_it_is_said_which_is_read(client: httpx2.AsyncClient, coding: str) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-encoding", coding.encode())]

    response = await client.post(URL, content=gzip.compress(SAMPLE), headers=headers)

    assert "gzip is read here" in read_problem(response, 415).detail
    assert response.headers["accept-encoding"] == "gzip"


async def test_a_wrong_type_is_not_taken_for_a_wrong_coding(client: httpx2.AsyncClient) -> None:
    response = await client.post(URL, content=gzip.compress(SAMPLE), headers={**GZIP, "content-type": "text/plain"})

    read_problem(response, 415)
    assert "accept-encoding" not in response.headers


WHOLE: dict[str, bytes] = {
    "two members": gzip.compress(SAMPLE[:40]) + gzip.compress(SAMPLE[40:]),
    "an empty member between": gzip.compress(SAMPLE[:9]) + gzip.compress(b"") + gzip.compress(SAMPLE[9:]),
    "a file name": long_name(9) + b"\0" + gzip.compress(SAMPLE)[10:],
    "not compressed within": gzip.compress(SAMPLE, 0),
}


@pytest.mark.parametrize("name", WHOLE)
async def test_the_forms_of_gzip_are_known(client: httpx2.AsyncClient, name: str) -> None:
    assert (await client.post(URL, content=WHOLE[name], headers=GZIP)).status_code == 200


BAD: dict[str, tuple[bytes | Callable[[], bytes], int, str]] = {
    # name: body, status, a part of the detail; large bodies are made by the test that sends them
    "a bomb of 2.5 GB": (lambda: zeros(50) * 50, 413, "more than 250 times"),
    "a bomb of one member": (lambda: zeros(300), 413, "more than 250 times"),
    "larger than a body may be": (lambda: gzip.compress(SAMPLE + noise(4_200_000)), 413, "4194304 bytes"),
    "cut off": (gzip.compress(SAMPLE)[:-9], 400, "ends too early"),
    "its trailer cut off": (gzip.compress(SAMPLE)[:-1], 400, "ends too early"),
    "its head alone": (gzip.compress(SAMPLE)[:5], 400, "ends too early"),
    "a second member cut off": (gzip.compress(SAMPLE) + gzip.compress(SAMPLE)[:5], 400, "ends too early"),
    "a name that never ends": (long_name(100_000), 400, "ends too early"),
    "something behind it": (gzip.compress(SAMPLE) + b"more", 400, "or is damaged"),
    "zeros behind it": (gzip.compress(SAMPLE) + bytes(512), 400, "or is damaged"),
    "a wrong checksum": (gzip.compress(SAMPLE)[:-8] + bytes(8), 400, "or is damaged"),
    "not compressed": (SAMPLE, 400, "or is damaged"),
    "zlib": (zlib.compress(SAMPLE), 400, "or is damaged"),
    "200,000 members": (gzip.compress(b"") * 200_000, 400, "more than 65536 members"),
    "nothing within": (gzip.compress(b""), 400, "empty; send a JSON object"),
    "nothing at all": (b"", 400, "empty; send a JSON object"),
    "not JSON": (gzip.compress(b"\xff"), 400, "not UTF-8"),
    "gzip within": (gzip.compress(gzip.compress(SAMPLE)), 400, "not UTF-8"),
}


@pytest.mark.parametrize("name", BAD)
async def test_a_bad_gzip_body_gets_a_problem(client: httpx2.AsyncClient, name: str) -> None:
    body, status, detail = BAD[name]

    response = await client.post(URL, content=body() if callable(body) else body, headers=GZIP)

    assert detail in read_problem(response, status).detail


async def test_a_body_may_expand_to_the_limit_and_not_one_byte_further() -> None:
    body = gzip.compress(SAMPLE + b" " * 100_000)
    at_limit, beyond = (edge_app(max_body_bytes=len(SAMPLE) + 100_000 - less) for less in (0, 1))

    assert (await client_of(at_limit).post(URL, content=body, headers=GZIP)).status_code == 200
    read_problem(await client_of(beyond).post(URL, content=body, headers=GZIP), 413)


async def test_what_is_sent_is_bounded_though_nothing_comes_of_it(client: httpx2.AsyncClient) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield long_name(0)
        for _ in range(MAX_BODY_BYTES // 100_000 + 1):
            yield b"a" * 100_000

    response = await client.post(URL, content=chunks(), headers=GZIP)

    assert "4194304 bytes" in read_problem(response, 413).detail


def server_of(pieces: Sequence[bytes]) -> Receive:
    """What a server hands out of a body that arrives in these pieces."""
    left = [{"type": "http.request", "body": each, "more_body": True} for each in reversed(pieces)]
    left[0]["more_body"] = False

    async def receive() -> Message:
        return left.pop()

    return receive


def gunzipped(receive: Receive) -> RequestBody:
    async def send(message: Message) -> None:
        raise AssertionError(message)

    scope = {"type": "http", "method": "POST", "headers": [(b"transfer-encoding", b"chunked")]}
    body = RequestBody(scope, receive, send, limit=BodyLimit(10**9), seconds=60.0)
    body.gunzip()
    return body


async def test_however_it_is_cut_the_same_comes_out_in_small_pieces() -> None:
    text = noise(20_000) + SAMPLE * 2_500
    sent = gzip.compress(text[:10_000], 1) + gzip.compress(text[10_000:])
    for size in (1, 7, 1_000, len(sent)):
        pieces = [sent[at : at + size] for at in range(0, len(sent), size)]
        body = gunzipped(server_of(pieces))
        made = []
        while (message := await body.receive())["more_body"]:
            made.append(message["body"])
        made.append(message["body"])

        assert b"".join(made) == text
        assert max(map(len, made)) <= 131_072


async def test_a_caller_who_leaves_is_told_of() -> None:
    async def gone() -> Any:
        return {"type": "http.disconnect"}

    assert (await gunzipped(gone).receive())["type"] == "http.disconnect"


async def test_a_bomb_is_found_before_it_has_gone_off() -> None:
    body = gunzipped(server_of([zeros(50)]))
    made = 0

    async def read() -> None:
        nonlocal made
        while True:
            made += len((await body.receive())["body"])

    with pytest.raises(BodyTooLarge):
        await read()
    assert made <= 1_048_576 + 131_072


# --- over a socket, where bodies are read as they arrive


def counting_app() -> FastAPI:
    app = FastAPI(redirect_slashes=False)

    @app.post("/v1/lines")
    async def count(request: Request) -> dict[str, Any]:
        told = sorted({"content-encoding", "content-length"} & set(request.headers))
        return {"bytes": sum([len(piece) async for piece in request.stream()]), "told": told}

    @app.post("/v1/refused")
    async def refuse() -> None:
        """Never reads its body."""

    install_problem_handlers(app)
    paths = dict.fromkeys(["/v1/lines", "/v1/refused"], BodyLimit(STREAM_BYTES, is_streamed=True))
    install_edge(app, body_limits=partial(BodyLimits, max_bytes=1_000, timeout_seconds=0.3, limit_by_path=paths))
    return app


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with serve(counting_app()) as port:
        yield port


def post(port: int, content: bytes | Iterator[bytes], path: str = "/v1/lines") -> httpx2.Response:
    url = f"http://127.0.0.1:{port}{path}"
    return httpx2.post(url, content=content, headers={"content-encoding": "gzip"}, timeout=SOON_SECONDS * 4)


def in_chunks(body: bytes) -> Iterator[bytes]:
    for at in range(0, len(body), 5_000):
        yield body[at : at + 5_000]


@pytest.mark.parametrize("is_chunked", [True, False])
def test_a_large_body_is_expanded_as_it_arrives(port: int, is_chunked: bool) -> None:
    body = gzip.compress(noise(STREAM_BYTES))

    response = post(port, in_chunks(body) if is_chunked else body)

    assert response.json() == {"bytes": STREAM_BYTES, "told": []}


def test_an_early_answer_does_not_expand_what_nobody_reads(port: int) -> None:
    assert post(port, b"no gzip at all " * 100_000, "/v1/refused").status_code == 200
