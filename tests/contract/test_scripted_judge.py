"""The scripted judge follows its script, tells what it saw and leaves nothing behind."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import httpx2
import pytest

from tests.doubles.scripted_faults import hang
from tests.doubles.scripted_judge import ScriptedJudge
from tests.doubles.scripted_replies import RecordedRequest, Step, completion


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


# --- what is observed


async def test_a_hang_ends_when_the_judge_goes_away() -> None:
    async with AsyncExitStack() as stack:
        async with ScriptedJudge() as judge:
            judge.reply_with(hang())
            client = client_of(judge)
            await stack.enter_async_context(client)
            waiting = asyncio.create_task(ask(client))
            await judge.wait_until(lambda: judge.calls == 1)

        with pytest.raises(httpx2.TransportError):
            await waiting


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
