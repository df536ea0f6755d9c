"""The scripted judge follows its script, tells what it saw and leaves nothing behind."""

import asyncio
import json
import re
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack

import httpx2
import openai
import pytest
from openai import AsyncOpenAI, DefaultAsyncHttpxClient, DefaultHttpxClient, OpenAI
from openai.types.chat import ChatCompletion

from tests.doubles.scripted_faults import delayed, hang, reset
from tests.doubles.scripted_judge import ScriptedJudge, running_judge
from tests.doubles.scripted_replies import RecordedRequest, Step, completion, openai_error


@pytest.fixture
async def judge() -> AsyncIterator[ScriptedJudge]:
    async with ScriptedJudge() as judge:
        yield judge


@pytest.fixture
async def client(judge: ScriptedJudge) -> AsyncIterator[AsyncOpenAI]:
    async with client_of(judge) as client:
        yield client


def client_of(judge: ScriptedJudge) -> AsyncOpenAI:
    # Deaf to HTTP_PROXY; and a bare TLS context, as the default one reads the CA bundle: 30 ms a client.
    http_client = DefaultAsyncHttpxClient(trust_env=False, verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    return AsyncOpenAI(base_url=judge.base_url, api_key="test-key", max_retries=0, http_client=http_client)


def sync_client_of(judge: ScriptedJudge) -> OpenAI:
    http_client = DefaultHttpxClient(trust_env=False)
    return OpenAI(base_url=judge.base_url, api_key="test-key", max_retries=0, http_client=http_client)


async def ask(client: AsyncOpenAI, text: str = "Is it so?") -> ChatCompletion:
    return await client.chat.completions.create(model="m", messages=[{"role": "user", "content": text}])


async def content_of(client: AsyncOpenAI, text: str = "Is it so?") -> str | None:
    return (await ask(client, text)).choices[0].message.content


# --- the script


async def test_steps_are_played_in_turn_and_the_last_for_ever(judge: ScriptedJudge, client: AsyncOpenAI) -> None:
    judge.reply_with(completion("a"), completion("b"))

    contents = [await content_of(client) for _ in range(4)]

    assert contents == ["a", "b", "b", "b"]


async def test_a_new_script_replaces_the_old_one(judge: ScriptedJudge, client: AsyncOpenAI) -> None:
    judge.reply_with(completion("a"), completion("b"))
    judge.reply_with(completion("c"))

    content = await content_of(client)

    assert content == "c"


async def test_a_step_can_depend_on_the_request(judge: ScriptedJudge, client: AsyncOpenAI) -> None:
    def supports_all(request: RecordedRequest) -> Step:
        ids = re.findall(r"^(\d+)\. ", request.prompt, re.MULTILINE)
        return completion(json.dumps(dict.fromkeys(ids, "supported")))

    judge.reply_with(supports_all)

    content = await content_of(client, "1. Paris is in France.\n2. Rome is in Italy.")

    assert json.loads(content or "") == {"1": "supported", "2": "supported"}


async def test_requests_that_match_have_a_script_of_their_own(judge: ScriptedJudge, client: AsyncOpenAI) -> None:
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
        with pytest.raises(openai.APIConnectionError):
            await ask(client)

    with pytest.raises(LookupError, match="/v1/chat/completions"):
        await stack.aclose()


async def test_a_judge_without_a_script_says_so(client: AsyncOpenAI) -> None:
    with pytest.raises(openai.InternalServerError, match="reply_with"):
        await ask(client)


async def test_another_route_is_not_found_and_costs_no_step(judge: ScriptedJudge, client: AsyncOpenAI) -> None:
    judge.reply_with(completion("first"), completion("second"))

    with pytest.raises(openai.NotFoundError):
        await client.models.list()
    content = await content_of(client)

    assert content == "first"


async def test_a_required_key_is_checked(judge: ScriptedJudge, client: AsyncOpenAI) -> None:
    judge.reply_with(completion("yes"))
    judge.require_key("sk-right")

    with pytest.raises(openai.AuthenticationError):
        await ask(client)
    content = await content_of(client.with_options(api_key="sk-right"))

    assert content == "yes"


# --- what is observed


async def test_a_request_is_recorded(judge: ScriptedJudge, client: AsyncOpenAI) -> None:
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


async def test_tokens_add_up_over_replies(judge: ScriptedJudge, client: AsyncOpenAI) -> None:
    judge.reply_with(completion("a", usage=(10, 1)), reset(), completion("b", usage=(5, 2)))

    await ask(client)
    with pytest.raises(openai.APIConnectionError):
        await ask(client)
    await ask(client)

    assert judge.tokens_served == (15, 3)


async def test_a_connection_is_kept_alive(judge: ScriptedJudge, client: AsyncOpenAI) -> None:
    judge.reply_with(completion("a"), openai_error(429, None), completion("b"))

    await ask(client)
    with pytest.raises(openai.RateLimitError):
        await ask(client)
    await ask(client)

    assert (judge.calls, judge.connections) == (3, 1)


async def test_the_gauge_shows_how_many_were_answered_at_once(client: AsyncOpenAI, judge: ScriptedJudge) -> None:
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

        with pytest.raises(openai.APIConnectionError):
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
        with pytest.raises(openai.APIConnectionError) as caught:
            await ask(client)
    assert isinstance(caught.value.__cause__, httpx2.ConnectError)


def test_a_judge_on_its_own_thread_serves_code_that_is_not_async() -> None:
    with running_judge() as judge:
        judge.reply_with(completion("yes"))
        with sync_client_of(judge) as client:
            reply = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Is it so?"}])

    assert reply.choices[0].message.content == "yes"
    assert judge.calls == 1


def test_a_judge_on_its_own_thread_raises_the_errors_of_its_script() -> None:
    def fails(request: RecordedRequest) -> Step:
        raise LookupError(request.path)

    stack = ExitStack()
    judge = stack.enter_context(running_judge())
    judge.reply_with(fails)
    with sync_client_of(judge) as client, pytest.raises(openai.APIConnectionError):
        client.chat.completions.create(model="m", messages=[])

    with pytest.raises(LookupError, match="/v1/chat/completions"):
        stack.close()
