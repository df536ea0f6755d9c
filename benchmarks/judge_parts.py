"""CPU time of the parts of a call, each by itself: building the request above the connections, reading a reply.

Nothing here opens a socket: a transport in memory answers at once. What a call costs beyond these parts is sockets,
httpx2, retries, limits, budgets, and the event loop.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from statistics import median

import httpx2
from httpx2 import ByteStream

from benchmarks.judge_server import completion_bytes
from plumbline.judging.ports.exchange import ChatRequest
from plumbline.judging.ports.observation import JudgeCallRecord
from plumbline.models.chat.api_client import ApiClient
from plumbline.models.chat.completions import read_completion
from plumbline.models.chat.endpoints import Endpoint
from plumbline.models.chat.request_forms import RequestForm

CALLS = 500


class InMemory(httpx2.AsyncBaseTransport):
    """Answers every request at once, as the connections to a judge do later."""

    def __init__(self) -> None:
        self.content = completion_bytes().split(b"\r\n\r\n", 1)[1]

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return the response, once the request was read."""
        await request.aread()
        return httpx2.Response(200, headers={"content-type": "application/json"}, stream=ByteStream(self.content))


def parts(endpoint: Endpoint, request: ChatRequest, *, rounds: int) -> dict[str, float]:
    """Return the milliseconds of processor time a call, the median of the rounds, by part."""
    return asyncio.run(_measured(endpoint, request, rounds))


async def _measured(endpoint: Endpoint, request: ChatRequest, rounds: int) -> dict[str, float]:
    client, memory = ApiClient(endpoint), InMemory()
    client._http._connections = memory  # type: ignore[assignment]
    sent = RequestForm.strictest(endpoint.provider).parameters(request, endpoint)

    async def read() -> None:
        read_completion(memory.content).reply(endpoint)

    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "building_the_request": lambda: client.post(sent, JudgeCallRecord("generic", "m", "h", 1)),
        "reading_the_reply": read,
    }
    return {name: round(median([await _cpu_ms(call) for _ in range(rounds)]), 3) for name, call in calls.items()}


async def _cpu_ms(call: Callable[[], Awaitable[object]]) -> float:
    started = time.process_time()
    for _ in range(CALLS):
        await call()
    return (time.process_time() - started) / CALLS * 1_000
