"""Who may call: holders of a key, or, when there is none, loopback alone."""

import json
import socket
from typing import Any

import httpx2
import pytest
from structlog.testing import capture_logs

from plumbline.ground.texts import parse_text, render
from plumbline.ground.version import VERSION
from tests.running.edge_app import client_of, edge_app, read_problem, serve

URL = "/v1/evaluations"
BODY = {"contexts": [], "answer": ""}
KEY, OTHER_KEY = "key-of-the-first-caller", "key-of-the-second-ключ"


async def post(headers: Any = None, *, base_url: str = "http://127.0.0.1:8000", **settings: Any) -> httpx2.Response:
    settings = {"keys": [KEY, OTHER_KEY], "allow_anonymous": False, **settings}
    return await client_of(edge_app(**settings), base_url=base_url).post(URL, json=BODY, headers=headers)


@pytest.mark.parametrize(("agent", "is_old"), [("0.1.0", True), ("0.2.1", True), (VERSION, False), ("0.20.0", False)])
async def test_a_client_that_cannot_read_the_results_is_refused_in_both_languages(agent: str, is_old: bool) -> None:
    response = await post({"X-API-Key": KEY, "User-Agent": f"plumbline/{agent}"})

    assert response.status_code == (400 if is_old else 200)
    if is_old:
        problem = read_problem(response, 400)
        assert problem.type == "urn:plumbline:problem:client-outdated"
        expected = f"this service is Plumbline {VERSION}, and the client {agent} cannot read its results: pip install "
        assert problem.detail == f"{expected}--upgrade plumbline-rag"
        chinese = parse_text(problem.detail_code, problem.detail_fields)
        assert f"本服务是 Plumbline {VERSION}，客户端 {agent} " in render(chinese, "zh")


@pytest.mark.parametrize(
    "headers",
    [
        [(b"Authorization", f"Bearer {KEY}".encode())],
        [(b"Authorization", f"bearer {KEY}".encode())],
        [(b"X-API-Key", KEY.encode())],
        [(b"X-API-Key", OTHER_KEY.encode())],
        [(b"Authorization", b"Bearer something-for-a-proxy"), (b"X-API-Key", KEY.encode())],
        [(b"Authorization", b"Basic dTpw"), (b"X-API-Key", KEY.encode())],
    ],
)
async def test_a_known_key_opens_whichever_header_it_comes_in(headers: Any) -> None:
    response = await post(headers)

    assert response.status_code == 200


@pytest.mark.parametrize(
    "headers", [None, {"Authorization": "Basic dTpw"}, {"Authorization": "Bearer"}, {"X-API-Key": ""}]
)
@pytest.mark.parametrize("allow_anonymous", [False, True])
async def test_without_a_key_the_answer_says_how_to_send_one(headers: Any, allow_anonymous: bool) -> None:
    response = await post(headers, allow_anonymous=allow_anonymous)

    problem = read_problem(response, 401)
    assert problem.type == "urn:plumbline:problem:key-missing"
    assert "X-API-Key" in problem.detail
    assert response.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("key", [KEY[:-1], KEY + "x", KEY.upper(), "ü", "\u00ff" * 5000])
async def test_an_unknown_key_is_refused_and_neither_repeated_nor_logged(key: str) -> None:
    with capture_logs() as logs:
        response = await post([(b"X-API-Key", key.encode("latin-1"))])

    problem = read_problem(response, 401)
    assert problem.type == "urn:plumbline:problem:key-unknown"
    assert response.headers["www-authenticate"] == "Bearer"
    assert key not in response.text + repr(logs)


async def test_loopback_needs_no_key_when_none_is_configured() -> None:
    hosts = ["127.0.0.1:8000", "127.8.9.10", "localhost", "LOCALHOST:1", "[::1]:8000", "[::ffff:127.0.0.1]"]

    responses = [await post({"Host": host}, keys=[]) for host in hosts]

    assert [response.status_code for response in responses] == [200] * len(hosts)


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example", "localhost@evil"),
        *("", "10.0.0.1", "0.0.0.0", "[::]", "[::2]:80", "localhost:", "localhost:1:2", "[", "127.1", "2130706433"),
    ],
)
async def test_a_host_name_beyond_loopback_is_locked_out(host: str) -> None:
    # the page at evil.example has pointed its name at 127.0.0.1: DNS rebinding
    response = await post({"Host": host}, keys=[])

    problem = read_problem(response, 401)
    assert problem.type == "urn:plumbline:problem:locked"
    assert "PLUMBLINE_API_KEYS" in problem.detail
    assert "PLUMBLINE_ALLOW_ANONYMOUS" in problem.detail


async def test_a_connection_to_another_address_is_locked_out_whatever_host_it_names() -> None:
    response = await post({"Host": "localhost"}, keys=[], base_url="http://10.0.0.7:8000")

    assert read_problem(response, 401).type == "urn:plumbline:problem:locked"


async def test_two_host_headers_are_locked_out() -> None:
    response = await post([("Host", "localhost"), ("Host", "evil.example")], keys=[])

    read_problem(response, 401)


@pytest.mark.parametrize("header", ["Forwarded", "X-Forwarded-For", "X-Forwarded-Proto", "X-Real-IP", "Via"])
async def test_a_proxy_on_this_machine_does_not_make_its_callers_local(header: str) -> None:
    response = await post({header: "203.0.113.9"}, keys=[])

    assert read_problem(response, 401).type == "urn:plumbline:problem:locked"


async def test_anonymous_callers_from_anywhere_are_served_when_that_is_asked_for() -> None:
    response = await post({"Host": "evil.example"}, keys=[], allow_anonymous=True, base_url="http://10.0.0.7:8000")

    assert response.status_code == 200


async def test_the_key_is_asked_for_before_the_fields_are_checked() -> None:
    response = await client_of(edge_app(keys=[KEY])).post(URL, json={"contexts": 1})

    read_problem(response, 401)


def test_what_nginx_sends_by_default_is_taken_for_a_proxy() -> None:
    # `proxy_pass http://127.0.0.1:PORT;` and nothing else: the Host of the upstream, HTTP/1.0, no forwarding header
    body = json.dumps(BODY).encode()
    with serve(edge_app(allow_anonymous=False)) as port, socket.create_connection(("127.0.0.1", port)) as nginx:
        head = f"POST {URL} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        nginx.sendall(head.encode() + body)
        answer = nginx.makefile("rb").read()

    assert answer.split(b" ", 2)[1] == b"401"
    assert b"HTTP/1.0 is taken for one" in answer
