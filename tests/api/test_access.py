"""Scopes and limits over HTTP: who is turned away, how it is told, and what is never turned away."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import Depends, FastAPI
from structlog.testing import capture_logs

from plumbline.ground.settings import Settings
from plumbline.main import create_app
from plumbline.service.access.access import Access, build_access
from plumbline.service.access.keys import KEYS_FILE_NAME, Scope, rotate_key
from plumbline.service.api.auth import Authenticator, make_key_check
from plumbline.service.api.problems import install_problem_handlers
from tests.doubles.fakes import WordEncoder
from tests.running.edge_app import client_of, read_problem
from tests.running.job_service import JOBS_URL
from tests.running.keyed_service import keyed_settings, made_key, with_key
from tests.running.service import URL, plain_settings

CONTEXT = "The Marlow Bridge was opened in 1931."
SAMPLE = {"contexts": [CONTEXT], "answer": CONTEXT}
EXEMPT = ["/healthz", "/readyz", "/version", "/openapi.json"]


class Running:
    """A service in process with its clients and its access."""

    def __init__(self, app: FastAPI, client: httpx2.AsyncClient) -> None:
        self.app = app
        self.client = client
        self.access: Access = app.state.access

    async def post(self, secret: str = "", url: str = URL, **sample: Any) -> httpx2.Response:
        body = {**SAMPLE, **sample} if url == URL else sample
        return await self.client.post(url, json=body, headers=with_key(secret) if secret else None)


class HeldRequest:
    """A request whose body does not end until it is told to."""

    def __init__(self, service: Running, secret: str = "") -> None:
        self._service = service
        self._secret = secret
        self._begun, self._ending = asyncio.Event(), asyncio.Event()

    async def __aenter__(self) -> "HeldRequest":
        headers = {"Content-Type": "application/json", **(with_key(self._secret) if self._secret else {})}
        self.task = asyncio.create_task(self._service.client.post(URL, content=self._body(), headers=headers))
        # the body is asked for once the request has its place
        await self._begun.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._ending.set()
        await asyncio.gather(self.task, return_exceptions=True)

    async def _body(self) -> AsyncIterator[bytes]:
        self._begun.set()
        await self._ending.wait()
        yield b'{"contexts": [], "answer": ""}'


@contextlib.asynccontextmanager
async def served_with(settings: Settings) -> AsyncIterator[Running]:
    app = create_app(settings, encoder=WordEncoder())
    async with app.router.lifespan_context(app), client_of(app) as client:
        yield Running(app, client)


# --- scopes


@pytest.mark.parametrize("scope", list(Scope))
async def test_a_key_is_good_for_the_routes_of_its_scopes_alone(tmp_path: Path, scope: Scope) -> None:
    secret = made_key(tmp_path, "a", scope)
    async with served_with(keyed_settings(tmp_path)) as service:
        service.client.headers.update(with_key(secret))
        document = (await service.client.get("/openapi.json")).json()
        statuses = {
            (path, method): (
                await service.client.request(
                    method, re.sub(r"\{.*?\}", "job_1", path), json={} if method == "post" else None
                )
            ).status_code
            for path, item in document["paths"].items()
            for method in item
            if path.startswith("/v1/")
        }
        metrics = await service.client.get("/metrics")

    assert (metrics.status_code == 200) == (scope is Scope.ADMIN)
    assert len(statuses) >= 15
    for (path, method), status in statuses.items():
        needed = Scope.JOBS if path.startswith(JOBS_URL) else Scope.EVALUATE
        assert (status == 403) == (needed is not scope), (method, path, status)
        assert status != 401


async def test_a_missing_scope_is_a_problem_that_names_it(tmp_path: Path) -> None:
    secret = made_key(tmp_path, "a", Scope.JOBS)
    async with served_with(keyed_settings(tmp_path)) as service:
        problem = read_problem(await service.post(secret), 403)

    assert problem.type == "urn:plumbline:problem:scope-missing"
    assert problem.detail == "the scope 'evaluate' is needed; the key has jobs"


# --- changes while the service runs


async def _until(service: Running, secret: str, status: int) -> None:
    """Asks until the answer has this status; the time limit of tests ends it otherwise."""
    async with asyncio.timeout(30):
        while (await service.post(secret, tiers=["lexical"])).status_code != status:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_no_secret_and_no_digest_is_in_any_log_or_answer(tmp_path: Path) -> None:
    path = tmp_path / KEYS_FILE_NAME
    with capture_logs() as logs:
        secret = made_key(tmp_path, "a", concurrency=3)
        other = made_key(tmp_path, "b", Scope.JOBS)
        async with served_with(keyed_settings(tmp_path)) as service:
            answers = [await service.post(key) for key in (secret, other, "plumbline_nobody")]
            answers.append(await service.client.get("/openapi.json"))
            rotate_key(path, "a")
            await _until(service, secret, 401)

    said = repr(logs) + "".join(answer.text + repr(answer.headers) for answer in answers)
    assert [answer.status_code for answer in answers] == [200, 403, 401, 200]
    for hidden in (secret, other, "plumbline_nobody", *re.findall(r"[0-9a-f]{64}", path.read_text())):
        assert hidden not in said


# --- nothing is read of who is not let in


async def test_the_body_of_a_caller_without_a_key_is_not_read(tmp_path: Path) -> None:
    made_key(tmp_path, "a")
    asked = 0

    async def receive() -> dict[str, Any]:
        nonlocal asked
        asked += 1
        return {"type": "http.request", "body": b"x" * 1_000, "more_body": asked < 3}

    async with served_with(keyed_settings(tmp_path)) as service:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append((asked, message))

        scope = {
            "type": "http",
            "method": "POST",
            "path": "/v1/retrieval/evaluations",
            "query_string": b"",
            "headers": [(b"host", b"127.0.0.1"), (b"content-length", b"3000")],
            "server": ("127.0.0.1", 8000),
        }
        await service.app(scope, receive, send)

    (when, start), (_, body), *_ = sent
    assert start["status"] == 401
    # the answer is whole before a byte is taken, then what is on its way is thrown away
    assert when == 0
    assert b"key-missing" in body["body"]
    assert (b"connection", b"close") in [(name.lower(), value) for name, value in start["headers"]]


# --- limits


async def test_a_key_beyond_its_concurrency_is_refused_and_others_are_not(tmp_path: Path) -> None:
    mine, other = made_key(tmp_path, "a", concurrency=1), made_key(tmp_path, "b", concurrency=1)
    async with served_with(keyed_settings(tmp_path)) as service:
        async with HeldRequest(service, mine) as held:
            refused = await service.post(mine)
            free = await service.post(other)
        again = await service.post(mine)

    assert read_problem(refused, 429).type == "urn:plumbline:problem:concurrency-exceeded"
    assert refused.headers["retry-after"] == "1"
    assert [each.status_code for each in (free, held.task.result(), again)] == [200, 200, 200]


@pytest.mark.parametrize("path", EXEMPT)
async def test_beyond_the_bound_of_all_it_is_503_and_health_answers(path: str) -> None:
    async with served_with(plain_settings(max_concurrent_requests=1)) as service:
        async with HeldRequest(service):
            refused = await service.post()
            exempt = await service.client.get(path)
        after = await service.post()

    problem = read_problem(refused, 503)
    assert problem.type == "urn:plumbline:problem:too-busy"
    assert int(refused.headers["retry-after"]) >= 1
    assert exempt.status_code == 200
    assert after.status_code == 200


async def test_a_place_comes_back_whatever_becomes_of_the_request(tmp_path: Path) -> None:
    secret = made_key(tmp_path, "a", concurrency=1)
    async with served_with(keyed_settings(tmp_path)) as service:
        async with HeldRequest(service, secret) as held:
            held.task.cancel()
        for sample in ({"answer": None}, {}, {"threshold": 7}):
            await service.post(secret, **sample)

        assert service.access.gate.under_way == 0


async def test_a_route_beside_v1_asks_for_its_scope_by_itself(tmp_path: Path) -> None:
    secrets = [made_key(tmp_path, scope, scope) for scope in Scope]
    app = FastAPI()
    install_problem_handlers(app)
    authenticator = Authenticator(build_access(keyed_settings(tmp_path)), allow_anonymous=False)

    @app.get("/numbers", dependencies=[Depends(make_key_check(authenticator, Scope.ADMIN))])
    async def numbers() -> int:
        return 1

    async with client_of(app) as client:
        statuses = [(await client.get("/numbers", headers=with_key(secret))).status_code for secret in secrets]
        without = await client.get("/numbers")

    assert dict(zip(Scope, statuses, strict=True)) == {Scope.EVALUATE: 403, Scope.JOBS: 403, Scope.ADMIN: 200}
    assert without.status_code == 401
