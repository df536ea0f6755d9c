"""What the parts of a call cost, each by itself: the SDK, the HTTP client above the connections, reading a reply.

Nothing here opens a socket: a transport in memory answers at once. What a call costs beyond these parts is sockets,
h11, retries, limits, budgets, and the event loop.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from statistics import median
from typing import Any

import httpx2

from benchmarks.judge_server import completion_bytes
from plumbline.judging.ports.exchange import ChatRequest
from plumbline.models.chat.completions import read_completion
from plumbline.models.chat.completions_client import CompletionsClient, SendStatus
from plumbline.models.chat.endpoints import Endpoint
from plumbline.models.chat.judge_connections import Head
from plumbline.models.chat.request_form import LearntForm

CALLS = 500


class InMemory:
    """Answers every request at once, as the connections to a judge do later."""

    def __init__(self) -> None:
        self.body = completion_bytes().split(b"\r\n\r\n", 1)[1]

    async def exchange(self, request: httpx2.Request) -> tuple[Head, httpx2.AsyncByteStream]:
        """Head and body."""
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(self.body))]
        return Head(200, headers), _Whole(self.body)


class _Whole(httpx2.AsyncByteStream):
    def __init__(self, body: bytes) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        yield self._body


def parts(endpoint: Endpoint, request: ChatRequest, *, rounds: int) -> dict[str, float]:
    """Milliseconds of processor time a call, the median of the rounds, by part."""
    return asyncio.run(_measured(endpoint, request, rounds))


async def _measured(endpoint: Endpoint, request: ChatRequest, rounds: int) -> dict[str, float]:
    client = CompletionsClient(endpoint)
    sdk: Any = client._client
    http: Any = sdk._client
    http._connections = memory = InMemory()
    sent = LearntForm(endpoint.provider).form.parameters(request, endpoint.provider, endpoint.model)
    caught: list[httpx2.Request] = []
    built = http.build_request

    def catching(*given: Any, **options: Any) -> httpx2.Request:
        caught[:] = [built(*given, **options)]
        return caught[0]

    http.build_request = catching
    await client.post(sent, SendStatus())
    answer: httpx2.Response = await http.send(caught[0])
    del http.build_request

    async def read() -> None:
        read_completion(memory.body).reply(endpoint)

    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "sdk_and_http_client": lambda: client.post(sent, SendStatus()),
        "http_client_sending": lambda: http.send(caught[0]),
        "reading_the_reply": read,
    }
    found = {name: [await _cpu_ms(call) for _ in range(rounds)] for name, call in calls.items()}

    async def answered(*given: Any, **options: Any) -> httpx2.Response:
        return answer

    http.send, http.build_request = answered, lambda *given, **options: caught[0]
    found["sdk_alone"] = [await _cpu_ms(calls["sdk_and_http_client"]) for _ in range(rounds)]
    del http.send, http.build_request
    await client.close()
    return {name: round(median(figures), 3) for name, figures in found.items()}


async def _cpu_ms(call: Callable[[], Awaitable[object]]) -> float:
    started = time.process_time()
    for _ in range(CALLS):
        await call()
    return (time.process_time() - started) / CALLS * 1_000
