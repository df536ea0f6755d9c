"""The kept connections to a provider: used again while they are sound, and never while they are not."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from plumbline.judging.ports.numbering import Numbering
from tests.doubles.scripted_faults import hang
from tests.doubles.scripted_judge import ScriptedJudge
from tests.doubles.scripted_replies import completion, completion_payload, raw_body
from tests.doubles.scripted_transport import REQUEST, ask, transport

GOOD = '{"ok": true}'
BODY = json.dumps(completion_payload([{"index": 0, "message": {"content": GOOD}, "finish_reason": "stop"}])).encode()
REPLY = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(BODY), BODY)

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def answering(answer: Answer) -> AsyncIterator[tuple[str, list[int]]]:
    """The address of a server that answers every request so, and the number of requests of each of its connections."""
    served: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.append(0)
        place = len(served) - 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                await reader.readexactly(int(head.split(b"content-length:")[1].split(b"\r\n")[0]))
                served[place] += 1
                await answer(writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", served
    finally:
        server.close()


async def test_calls_in_turn_share_a_connection_and_calls_at_one_time_have_one_each(judge: ScriptedJudge) -> None:
    judge.reply_with(completion(GOOD, delay_seconds=0.05))

    async with transport(judge) as chat:
        for _ in range(3):
            await ask(chat)
        in_turn = judge.connections
        await asyncio.gather(*(ask(chat) for _ in range(4)))

    assert (in_turn, judge.connections, judge.calls) == (1, 4, 7)


@pytest.mark.parametrize("stray", [b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nno", b"\r\n"])
@pytest.mark.parametrize("pause_seconds", [0.0, 0.02])
async def test_a_connection_on_which_more_came_than_was_asked_for_is_not_used_again(
    stray: bytes, pause_seconds: float
) -> None:
    strayed = asyncio.Event()

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(REPLY)
        await asyncio.sleep(pause_seconds)
        writer.write(stray)
        await writer.drain()
        strayed.set()

    async with answering(answer) as (url, served), transport(llm_base_url=url) as chat:
        for _ in range(3):
            strayed.clear()
            assert (await ask(chat)).content == GOOD
            await strayed.wait()
            await asyncio.sleep(0.05)

    assert served == [1, 1, 1]


async def test_after_a_foreign_reply_no_connection_is_used_again_and_calls_under_way_end(judge: ScriptedJudge) -> None:
    foreign = completion('{"sentences": [{"id": 7001, "claims": []}]}')
    judge.reply_with(completion(GOOD, delay_seconds=0.3), completion(GOOD), foreign, completion(GOOD))

    async with transport(judge) as chat:
        slow = asyncio.create_task(ask(chat))
        await judge.wait_until(lambda: judge.calls == 1)
        await ask(chat)
        await ask(chat, request=replace(REQUEST, numbering=Numbering(4_000, frozenset({4_001}))))
        under_way = not slow.done()
        await slow
        before = judge.connections
        await ask(chat)

    # the last call is on the connection of the repeated one: that of the slow one was not kept
    assert (under_way, before, judge.connections) == (True, 3, 3)


async def test_a_call_given_up_costs_its_own_connection_alone(judge: ScriptedJudge) -> None:
    judge.reply_with(completion(GOOD), hang(), completion(GOOD))

    async with transport(judge) as chat:
        await ask(chat)
        given_up = asyncio.create_task(ask(chat))
        await judge.wait_until(lambda: judge.calls == 2)
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        await judge.wait_until(lambda: judge.in_flight == 0)
        await asyncio.gather(*(ask(chat) for _ in range(2)))

    assert judge.connections <= 3


async def test_a_cookie_is_not_sent_back(judge: ScriptedJudge) -> None:
    judge.reply_with(raw_body(BODY, headers={"set-cookie": "session=1; path=/"}))

    async with transport(judge) as chat:
        await ask(chat)
        await ask(chat)

    assert "cookie" not in judge.requests[1].headers
