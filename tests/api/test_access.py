"""Scopes, limits and budgets over HTTP: who is turned away, how it is told, and what is never turned away."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import Depends, FastAPI
from structlog.testing import capture_logs

from plumbline.ground.settings import Settings
from plumbline.main import create_app
from plumbline.service.access.access import Access, build_access
from plumbline.service.access.keys import KEYS_FILE_NAME, Scope, revoke_key, rotate_key
from plumbline.service.api.auth import SPENDING_OPERATIONS, Authenticator, make_key_check
from plumbline.service.api.problems import install_problem_handlers
from tests.doubles.fakes import WordEncoder
from tests.doubles.scripted_judge import ScriptedJudge
from tests.doubles.scripted_replies import completion
from tests.running.batch_service import BATCH_URL, read_lines, row
from tests.running.edge_app import client_of, read_problem
from tests.running.job_service import JOBS_URL
from tests.running.keyed_service import keyed_settings, made_key, with_key
from tests.running.service import URL, claim, judge_settings, plain_settings, running, verdicts

CONTEXT = "The Marlow Bridge was opened in 1931."
SAMPLE = {"contexts": [CONTEXT], "answer": CONTEXT}
SUPPORTED = verdicts([claim(CONTEXT, "supported", CONTEXT)])
# Operations that take a body or change something, and spend nothing.
FREE_OPERATIONS = {
    *("evaluate_retrieval", "compare_retrieval", "fuse_retrieval", "parse_rankings", "estimate_rates"),
    *("pause_job", "cancel_job", "delete_job"),
}
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


async def test_an_expired_key_is_told_so(tmp_path: Path) -> None:
    secret = made_key(tmp_path, "a", expires_days=1e-9)
    async with served_with(keyed_settings(tmp_path)) as service:
        response = await service.post(secret)

    assert read_problem(response, 401).type == "urn:plumbline:problem:key-expired"
    assert response.headers["www-authenticate"] == "Bearer"


# --- changes while the service runs


async def _until(service: Running, secret: str, status: int) -> None:
    """Asks until the answer has this status; the time limit of tests ends it otherwise."""
    async with asyncio.timeout(30):
        while (await service.post(secret, tiers=["lexical"])).status_code != status:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_keys_are_made_rotated_and_revoked_without_a_restart(tmp_path: Path) -> None:
    path = tmp_path / KEYS_FILE_NAME
    first = made_key(tmp_path, "first")
    async with served_with(keyed_settings(tmp_path)) as service:
        assert (await service.post(first)).status_code == 200
        second = made_key(tmp_path, "second")
        await _until(service, second, 200)
        third = rotate_key(path, "second")
        await _until(service, second, 401)
        assert (await service.post(third)).status_code == 200
        revoke_key(path, "first")
        revoke_key(path, "second")
        await _until(service, first, 401)

        # the last key is gone, and nobody is let in for that
        refused = [await service.post(third), await service.client.post(URL, json=SAMPLE)]
        health = await service.client.get("/healthz")

    assert [response.status_code for response in refused] == [401, 401]
    assert health.status_code == 200


async def test_no_secret_and_no_digest_is_in_any_log_or_answer(tmp_path: Path) -> None:
    path = tmp_path / KEYS_FILE_NAME
    with capture_logs() as logs:
        secret = made_key(tmp_path, "a", requests_per_minute=3)
        other = made_key(tmp_path, "b", Scope.JOBS)
        async with served_with(keyed_settings(tmp_path)) as service:
            answers = [await service.post(key) for key in (secret, secret, other, "plumbline_nobody", secret, secret)]
            answers.append(await service.client.get("/openapi.json"))
            rotate_key(path, "a")
            await _until(service, secret, 401)

    said = repr(logs) + "".join(answer.text + repr(answer.headers) for answer in answers)
    assert [answer.status_code for answer in answers] == [200, 200, 403, 401, 200, 429, 200]
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
            "headers": [(b"host", b"127.0.0.1")],
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


async def test_every_answer_to_a_key_with_limits_says_where_it_stands(tmp_path: Path) -> None:
    limited = made_key(tmp_path, "a", requests_per_minute=3, concurrency=2)
    unlimited = made_key(tmp_path, "b")
    async with served_with(keyed_settings(tmp_path)) as service:
        # no time passes: a third of a minute is 20 s
        service.access.gate._clock = lambda: 1_000.0
        answers = [await service.post(limited, answer=answer) for answer in (CONTEXT, 3, CONTEXT, CONTEXT)]
        free = await service.post(unlimited)

    assert [answer.status_code for answer in answers] == [200, 422, 200, 429]
    for answer, left in zip(answers, (2, 1, 0, 0), strict=True):
        assert answer.headers["ratelimit-policy"] == ('"requests";q=3;w=60, "concurrency";q=2;qu="concurrent-requests"')
        assert answer.headers["ratelimit"] == f'"requests";r={left};t=20, "concurrency";r=1'
    problem = read_problem(answers[-1], 429)
    assert problem.type == "urn:plumbline:problem:rate-exceeded"
    assert answers[-1].headers["retry-after"] == "20"
    assert "ratelimit" not in free.headers


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


async def test_defaults_of_the_settings_hold_for_callers_without_a_key_too() -> None:
    async with served_with(plain_settings(key_requests_per_minute=1)) as service:
        statuses = [(await service.post()).status_code for _ in range(2)]

    assert statuses == [200, 429]


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


# --- budgets


def priced(judge: ScriptedJudge, folder: Path, **knobs: Any) -> Settings:
    prices = {"judge-1": {"input": 1_000.0, "output": 1_000.0}}
    return judge_settings(judge, data_dir=folder, llm_prices=prices, cache_ttl_seconds=0, **knobs)


async def test_a_key_that_has_spent_its_tokens_is_told_when_there_is_more(tmp_path: Path, judge: ScriptedJudge) -> None:
    judge.reply_with(completion(SUPPORTED, usage=(90, 10)))
    mine, other = made_key(tmp_path, "a", tokens_per_day=150), made_key(tmp_path, "b")
    async with served_with(priced(judge, tmp_path)) as service:
        statuses = [(await service.post(mine)).status_code for _ in range(2)]
        refused = await service.post(mine)
        calls = judge.calls
        others = await service.post(other)
        # what a key has, and what costs nothing, it still gets
        listed = await service.client.get(JOBS_URL, headers=with_key(mine))

    midnight = datetime.combine(datetime.now(UTC).date() + timedelta(days=1), datetime.min.time(), UTC)
    problem = read_problem(refused, 429)
    assert statuses == [200, 200]
    assert problem.type == "urn:plumbline:problem:budget-spent"
    assert "200 of its 150 tokens" in problem.detail
    assert f"{midnight:%Y-%m-%dT%H:%M:%SZ}" in problem.detail
    assert 1 <= int(refused.headers["retry-after"]) <= 86_400
    assert (calls, others.status_code, listed.status_code) == (2, 200, 200)


async def test_a_restart_does_not_give_a_budget_back(tmp_path: Path, judge: ScriptedJudge) -> None:
    judge.reply_with(completion(SUPPORTED, usage=(90, 10)))
    # 100 tokens cost 0.1
    secret = made_key(tmp_path, "a", cost_per_day=0.1)
    statuses = []
    for _ in range(2):
        async with served_with(priced(judge, tmp_path)) as service:
            statuses.append((await service.post(secret)).status_code)

    assert statuses == [200, 429]
    assert judge.calls == 1


async def test_a_call_without_a_price_spends_a_budget_of_money(tmp_path: Path, judge: ScriptedJudge) -> None:
    judge.reply_with(completion(SUPPORTED, usage=(90, 10)))
    secret = made_key(tmp_path, "a", cost_per_day=5)
    async with served_with(judge_settings(judge, data_dir=tmp_path)) as service:
        first, second = await service.post(secret), await service.post(secret)

    assert first.status_code == 200
    assert "PLUMBLINE_LLM_PRICES" in read_problem(second, 429).detail


async def test_the_rows_that_a_budget_is_not_enough_for_say_so(tmp_path: Path, judge: ScriptedJudge) -> None:
    judge.reply_with(completion(SUPPORTED, usage=(90, 10)))
    secret = made_key(tmp_path, "a", tokens_per_day=200)
    async with served_with(priced(judge, tmp_path, batch_concurrency=1)) as service:
        rows = [row(str(number), f"{CONTEXT}{' ' * number}") for number in range(5)]
        response = await service.post(secret, BATCH_URL, samples=rows, format="ndjson")

    lines, summary = read_lines(response)
    kinds = ["result" if "result" in line else line["error"]["type"] for line in lines]
    assert kinds == ["result", "result", *["urn:plumbline:problem:budget-spent"] * 3]
    assert {line["error"]["status"] for line in lines if "error" in line} == {429}
    assert (summary["errors"], judge.calls) == (3, 2)


async def test_kept_verdicts_cost_nothing(tmp_path: Path, judge: ScriptedJudge) -> None:
    judge.reply_with(completion(SUPPORTED, usage=(90, 10)))
    secret = made_key(tmp_path, "a", tokens_per_day=101)
    async with served_with(judge_settings(judge, data_dir=tmp_path)) as service:
        statuses = [(await service.post(secret)).status_code for _ in range(4)]

    assert statuses == [200] * 4
    assert judge.calls == 1


async def test_a_job_pauses_when_its_key_has_spent_its_budget(tmp_path: Path, judge: ScriptedJudge) -> None:
    judge.reply_with(completion(SUPPORTED, usage=(90, 10)))
    secret = made_key(tmp_path, "a", tokens_per_day=250)
    async with served_with(priced(judge, tmp_path, job_concurrency=1)) as service:
        service.client.headers.update(with_key(secret))
        rows = [row(str(number), f"{CONTEXT}{' ' * number}") for number in range(10)]
        path = (await service.client.post(JOBS_URL, json={"rows": rows})).headers["location"]
        async with asyncio.timeout(30):
            job = (await service.client.get(path)).json()
            # What was under way is kept behind the pause.
            while (job["status"], job["request_counts"]["completed"]) != ("paused", 3):
                await asyncio.sleep(0.02)
                job = (await service.client.get(path)).json()
        results = (await service.client.get(f"{path}/results")).text.splitlines()
        refused = [
            await service.client.post(f"{path}/resume"),
            await service.client.post(JOBS_URL, json={"rows": rows}),
        ]
        cancelled = await service.client.post(f"{path}/cancel")

    assert job["problem"].startswith("the key has used 300 of its 250 tokens a day; there is more at ")
    assert (job["request_counts"]["completed"], len(results), judge.calls) == (3, 3, 3)
    for response in refused:
        assert read_problem(response, 429).type == "urn:plumbline:problem:budget-spent"
    assert cancelled.status_code == 200


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


async def test_every_operation_either_asks_for_the_budget_or_is_known_to_spend_nothing() -> None:
    async with running(plain_settings()) as client:
        document = (await client.get("/openapi.json")).json()

    changing = {
        operation["operationId"]
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if path.startswith("/v1/") and method != "get"
    }
    assert changing == SPENDING_OPERATIONS | FREE_OPERATIONS
    assert not SPENDING_OPERATIONS & FREE_OPERATIONS
