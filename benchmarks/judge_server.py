"""A judge in a process of its own that costs next to nothing, and the samples that it knows the replies to.

Its replies are made before the first request; a request is its length and the number in its first context. What it
took of a processor is told when it ends, so that a figure of a benchmark can say that the judge was not its bound.
"""

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

from plumbline.judging.text.sample import Sample
from tests.running.judge_process import served_apart

SAMPLES = 1_000
_NUMBER = b"Sample "
_LENGTH = b"content-length:"
_ID = rb"\"contexts\": [{\"id\":"
_OK = b"200 OK"
# A judge that answers too many: every call of the transport alone is answered with this.
_TWENTY = json.dumps({"sentences": [{"id": i, "claims": [{"verdict": "supported"}]} for i in range(20)]})
_REFUSAL = json.dumps({"error": {"message": "scripted", "type": "scripted", "param": None, "code": "limit_requests"}})


def sample(number: int) -> Sample:
    """Five contexts of a sentence each, and an answer that repeats three of them."""
    contexts = _contexts(number)
    return Sample("What?", contexts, " ".join(contexts[:3]))


@dataclass(frozen=True, slots=True)
class Seen:
    """What a judge saw of requests, and took of a processor for them."""

    requests: int
    most_in_flight: int
    cpu_ms_each: float
    arrived_seconds: tuple[float, ...]


class JudgeServer:
    """The judge from outside."""

    def __init__(self, base_url: str, pipe: Connection) -> None:
        self.base_url = base_url
        self._pipe = pipe

    def seen(self) -> Seen:
        """What it saw since it was last asked."""
        self._pipe.send("seen")
        seen: Seen = self._pipe.recv()
        return seen


@contextmanager
def judge_server(latency_seconds: float, *, refused_every: int = 0) -> Iterator[JudgeServer]:
    """A judge that finds everything supported, and refuses one call in so many; for as long as the context lasts."""
    with served_apart(_serve, latency_seconds, refused_every) as pipe:
        yield JudgeServer(pipe.recv(), pipe)


def completion_bytes() -> bytes:
    """The reply to a call of the transport alone, head and body."""
    return _reply(_OK, _completion(_TWENTY))


def _contexts(number: int) -> tuple[str, ...]:
    return tuple(
        f"Sample {number} says that item {k} weighs {k + number} kilograms and was made in {1900 + k}."
        for k in range(5)
    )


def _verdicts(number: int) -> str:
    """Every sentence of the answer is supported, and quoted from its context; `@1` stands for the first id."""
    return json.dumps(
        {
            "sentences": [
                {"id": f"@{place}", "quotes": [text], "reason": "The context says so.", "verdict": "supported"}
                for place, text in enumerate(_contexts(number)[:3], start=1)
            ]
        }
    )


def _reply(status: bytes, body: bytes) -> bytes:
    head = b"HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    return head % (status, len(body)) + body


def _completion(content: str) -> bytes:
    message = {"role": "assistant", "content": content, "refusal": None}
    body = {
        "id": "chatcmpl-scripted",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "scripted-judge",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
        "usage": {"prompt_tokens": 2_000, "completion_tokens": 200, "total_tokens": 2_200},
    }
    return json.dumps(body).encode()


@dataclass(slots=True)
class _Judge:
    """What all connections share."""

    loop: asyncio.AbstractEventLoop
    latency_seconds: float
    refused_every: int
    in_flight: int = 0
    most_in_flight: int = 0
    arrived: list[float] = field(default_factory=list)
    replies: list[bytes] = field(default_factory=lambda: [_completion(_verdicts(i)) for i in range(SAMPLES)])
    other: bytes = field(default_factory=completion_bytes)
    refusal: bytes = _reply(b"429 Too Many Requests", _REFUSAL.encode())
    calls: int = 0

    def answer(self, request: bytes) -> bytes:
        """The reply to a request that has arrived."""
        self.arrived.append(time.monotonic())
        self.calls += 1
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        if self.refused_every and self.calls % self.refused_every == 0:
            return self.refusal
        if (start := request.find(_NUMBER)) < 0:
            return self.other
        start += len(_NUMBER)
        body = self.replies[int(request[start : request.index(b" ", start)])]
        first = _first_id(request)
        for place in range(3):
            body = body.replace(b"@%d" % (place + 1), b"%d" % (first + place))
        return _reply(_OK, body)


def _first_id(request: bytes) -> int:
    """The id of the first context, and of the first sentence."""
    start = request.index(_ID) + len(_ID)
    return int(request[start : request.index(b",", start)])


class _Connection(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(self, judge: _Judge) -> None:
        self._judge = judge
        self._data = b""
        self._wanted = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._data += data
        if not self._wanted:
            head, end, _ = self._data.partition(b"\r\n\r\n")
            if not end:
                return
            length = head.lower().split(_LENGTH, 1)[1].split(b"\r\n", 1)[0]
            self._wanted = len(head) + len(end) + int(length)
        if len(self._data) < self._wanted:
            return
        reply = self._judge.answer(self._data)
        self._data, self._wanted = b"", 0
        self._judge.loop.call_later(self._judge.latency_seconds, self._send, reply)

    def _send(self, reply: bytes) -> None:
        self._judge.in_flight -= 1
        if not self._transport.is_closing():
            self._transport.write(reply)


def _serve(pipe: Connection, latency_seconds: float, refused_every: int) -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        judge = _Judge(loop, latency_seconds, refused_every)
        server = await loop.create_server(lambda: _Connection(judge), "127.0.0.1", 0, backlog=2048)
        pipe.send(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")
        since = time.process_time()
        while await asyncio.to_thread(pipe.recv) == "seen":
            now = time.process_time()
            each = (now - since) / max(1, len(judge.arrived)) * 1_000
            pipe.send(Seen(len(judge.arrived), judge.most_in_flight, round(each, 3), tuple(judge.arrived)))
            judge.arrived.clear()
            judge.most_in_flight, since = judge.in_flight, now

    asyncio.run(run())
