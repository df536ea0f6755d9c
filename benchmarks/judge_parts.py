"""CPU time of the parts of a call, each by itself: building the request above the connections, reading a reply.

Nothing here opens a socket: a transport in memory answers at once. What a call costs beyond these parts is sockets,
h11, retries, limits, budgets, and the event loop.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from statistics import median

import h11

from benchmarks.judge_server import completion_bytes
from plumbline.ground.connections import SendStatus
from plumbline.judging.ports.exchange import ChatRequest
from plumbline.models.chat.completions import LearntForm, read_completion
from plumbline.models.chat.completions_client import CompletionsClient
from plumbline.models.chat.endpoints import Endpoint

CALLS = 500


class InMemory:
    """Answers every request at once, as the connections to a judge do later."""

    def __init__(self) -> None:
        self._content = completion_bytes().split(b"\r\n\r\n", 1)[1]
        self.status = 200
        self.raw_headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(self._content))]

    async def send(self, head: h11.Request, body: Iterable[bytes], status: SendStatus) -> "InMemory":
        """Return the response."""
        return self

    async def body(self) -> AsyncGenerator[bytes, None]:
        """Yield the body."""
        yield self._content

    def close(self) -> None:
        """Do nothing."""


def parts(endpoint: Endpoint, request: ChatRequest, *, rounds: int) -> dict[str, float]:
    """Return the milliseconds of processor time a call, the median of the rounds, by part."""
    return asyncio.run(_measured(endpoint, request, rounds))


async def _measured(endpoint: Endpoint, request: ChatRequest, rounds: int) -> dict[str, float]:
    client, memory = CompletionsClient(endpoint), InMemory()
    client.close()
    client._connections = memory  # type: ignore[assignment]
    sent = LearntForm(endpoint.provider).form.parameters(request, endpoint)

    async def read() -> None:
        read_completion(memory._content).reply(endpoint)

    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "building_the_request": lambda: client.post(sent, SendStatus()),
        "reading_the_reply": read,
    }
    return {name: round(median([await _cpu_ms(call) for _ in range(rounds)]), 3) for name, call in calls.items()}


async def _cpu_ms(call: Callable[[], Awaitable[object]]) -> float:
    started = time.process_time()
    for _ in range(CALLS):
        await call()
    return (time.process_time() - started) / CALLS * 1_000
