"""The scripted judge follows its script, tells what it saw and leaves nothing behind."""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack
from typing import Any

import httpx2
import pytest

from tests.doubles.scripted_faults import delayed, hang, reset
from tests.doubles.scripted_judge import ScriptedJudge, running_judge
from tests.doubles.scripted_replies import RecordedRequest, Step, completion, openai_error


@pytest.fixture
async def judge() -> AsyncIterator[ScriptedJudge]:
    async with ScriptedJudge() as judge:
        yield judge


@pytest.fixture
async def client(judge: ScriptedJudge) -> AsyncIterator[httpx2.AsyncClient]:
    async with client_of(judge) as client:
        yield client


def client_of(judge: ScriptedJudge, key: str = "test-key") -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=judge.base_url, headers={"Authorization": f"Bearer {key}"}, trust_env=False)


def question(text: str = "Is it so?") -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": text}]}


async def ask(client: httpx2.AsyncClient, text: str = "Is it so?") -> httpx2.Response:
    return await client.post("/chat/completions", json=question(text))


async def content_of(client: httpx2.AsyncClient, text: str = "Is it so?") -> str:
    content: str = (await ask(client, text)).json()["choices"][0]["message"]["content"]
    return content


# --- the script


async def test_steps_are_played_in_turn_and_the_last_for_ever(judge: ScriptedJudge, client: httpx2.AsyncClient) -> None:
    judge.reply_with(completion("a"), completion("b"))

    contents = [await content_of(client) for _ in range(4)]

    assert contents == ["a", "b", "b", "b"]


async def test_a_new_script_replaces_the_old_one(judge: ScriptedJudge, client: httpx2.AsyncClient) -> None:
    judge.reply_with(completion("a"), completion("b"))
    judge.reply_with(completion("c"))

    content = await content_of(client)

    assert content == "c"


async def test_a_step_can_depend_on_the_request(judge: ScriptedJudge, client: httpx2.AsyncClient) -> None:
    def supports_all(request: RecordedRequest) -> Step:
        ids = re.findall(r"^(\d+)\. ", request.prompt, re.MULTILINE)
        return completion(json.dumps(dict.fromkeys(ids, "supported")))

    judge.reply_with(supports_all)

    content = await content_of(client, "1. Paris is in France.\n2. Rome is in Italy.")

    assert json.loads(content or "") == {"1": "supported", "2": "supported"}


async def test_requests_that_match_have_a_script_of_their_own(judge: ScriptedJudge, client: httpx2.AsyncClient) -> None:
    judge.reply_with(completion("ordinary"))
    judge.reply_when(lambda request: "Rome" in request.prompt, completion("first"), completion("later"))

    contents = [await content_of(client, text) for text in ("Rome", "Paris", "Rome", "Rome")]

    assert contents == ["first", "ordinary", "later", "later"]


async def test_an_error_in_the_script_is_raised_when_the_judge_goes_away() -> None:
    def fails(request: RecordedRequest) -> Step:
        raise LookupError(request.path)

    stack = AsyncExitStack()
    judge = await stack.enter_async_context(ScriptedJudge())
    judge.reply_with(fails)
    async with client_of(judge) as client:
        with pytest.raises(httpx2.TransportError):
            await ask(client)

    with pytest.raises(LookupError, match="/v1/chat/completions"):
        await stack.aclose()


async def test_a_judge_without_a_script_says_so(client: httpx2.AsyncClient) -> None:
    reply = await ask(client)

    assert reply.status_code == 501
    assert "reply_with" in reply.text


async def test_another_route_is_not_found_and_costs_no_step(judge: ScriptedJudge, client: httpx2.AsyncClient) -> None:
    judge.reply_with(completion("first"), completion("second"))

    other = await client.get("/models")
    content = await content_of(client)

    assert (other.status_code, content) == (404, "first")


async def test_a_required_key_is_checked(judge: ScriptedJudge, client: httpx2.AsyncClient) -> None:
    judge.reply_with(completion("yes"))
    judge.require_key("sk-right")

    refused = await ask(client)
    async with client_of(judge, "sk-right") as other:
        content = await content_of(other)

    assert (refused.status_code, content) == (401, "yes")


# --- what is observed


async def test_a_request_is_recorded(judge: ScriptedJudge, client: httpx2.AsyncClient) -> None:
    judge.reply_with(completion("yes"))
    before_seconds = time.monotonic()

    await ask(client, "Is “naïve” spelt so?")

    (request,) = judge.requests
    assert (request.method, request.path) == ("POST", "/v1/chat/completions")
    assert request.headers["authorization"] == "Bearer test-key"
    assert request.json["model"] == "m"
    assert request.prompt == "Is “naïve” spelt so?"
    assert json.loads(request.body) == request.json
    assert before_seconds <= request.arrived_seconds <= time.monotonic()


async def test_tokens_add_up_over_replies(judge: ScriptedJudge, client: httpx2.AsyncClient) -> None:
    judge.reply_with(completion("a", usage=(10, 1)), reset(), completion("b", usage=(5, 2)))

    await ask(client)
    with pytest.raises(httpx2.TransportError):
        await ask(client)
    await ask(client)

    assert judge.tokens_served == (15, 3)


async def test_a_connection_is_kept_alive(judge: ScriptedJudge, client: httpx2.AsyncClient) -> None:
    judge.reply_with(completion("a"), openai_error(429, None), completion("b"))

    statuses = [(await ask(client)).status_code for _ in range(3)]

    assert statuses == [200, 429, 200]
    assert (judge.calls, judge.connections) == (3, 1)


async def test_the_gauge_shows_how_many_were_answered_at_once(client: httpx2.AsyncClient, judge: ScriptedJudge) -> None:
    judge.reply_with(completion("yes", delay_seconds=0.1))

    await asyncio.gather(*(ask(client) for _ in range(5)))
    await ask(client)

    assert (judge.calls, judge.max_in_flight) == (6, 5)


@pytest.mark.parametrize("step", [completion("yes", delay_seconds=0.1), delayed(lambda _: completion("yes"), 0.1)])
async def test_a_delay_adds_to_the_latency_of_the_judge(step: Step) -> None:
    async with ScriptedJudge(latency_seconds=0.1) as judge:
        judge.reply_with(step)
        async with client_of(judge) as client:
            started_seconds = time.monotonic()

            content = await content_of(client)

    assert content == "yes"
    assert time.monotonic() - started_seconds >= 0.2


async def test_a_hang_ends_when_the_judge_goes_away() -> None:
    async with AsyncExitStack() as stack:
        async with ScriptedJudge() as judge:
            judge.reply_with(hang())
            client = client_of(judge)
            await stack.enter_async_context(client)
            waiting = asyncio.create_task(ask(client))
            await judge.wait_until(lambda: judge.calls == 1)
            leaving_seconds = time.monotonic()

        with pytest.raises(httpx2.TransportError):
            await waiting

    assert time.monotonic() - leaving_seconds < 10


async def test_nothing_is_left_behind() -> None:
    tasks_before = asyncio.all_tasks()

    async with ScriptedJudge() as judge:
        judge.reply_with(completion("yes"))
        async with client_of(judge) as client:
            await ask(client)
        idle = await asyncio.open_connection("127.0.0.1", httpx2.URL(judge.base_url).port)

    idle[1].transport.abort()
    assert asyncio.all_tasks() == tasks_before
    async with client_of(judge) as client:
        with pytest.raises(httpx2.ConnectError):
            await ask(client)


def test_a_judge_on_its_own_thread_serves_code_that_is_not_async() -> None:
    with running_judge() as judge:
        judge.reply_with(completion("yes"))
        reply = httpx2.post(f"{judge.base_url}/chat/completions", json=question(), trust_env=False)

    assert reply.json()["choices"][0]["message"]["content"] == "yes"
    assert judge.calls == 1


def test_a_judge_on_its_own_thread_raises_the_errors_of_its_script() -> None:
    def fails(request: RecordedRequest) -> Step:
        raise LookupError(request.path)

    stack = ExitStack()
    judge = stack.enter_context(running_judge())
    judge.reply_with(fails)
    with pytest.raises(httpx2.TransportError):
        httpx2.post(f"{judge.base_url}/chat/completions", json=question(), trust_env=False)

    with pytest.raises(LookupError, match="/v1/chat/completions"):
        stack.close()
