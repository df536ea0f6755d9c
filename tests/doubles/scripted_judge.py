"""A scripted OpenAI-compatible judge on a real loopback socket.

HTTP/1.1 is written by hand: a fault such as a RST half-way through a body needs the socket itself.
"""

import asyncio
import json
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Self

from anyio.from_thread import start_blocking_portal

from tests.doubles.scripted_replies import RecordedRequest, Scripted, TokenCount, openai_error, resolve

_PATHS = ("/chat/completions", "/embeddings", "/predict", "/decisions", "/systemone")
_HEAD_LIMIT_BYTES = 1_048_576
# With SO_LINGER on and 0 seconds, close() sends a RST in place of a FIN: socket(7).
_LINGER_ZERO = struct.pack("ii", 1, 0)
# Turns of the event loop that a connection takes from accept() to our callback: asyncio's selector_events.
_TURNS_TO_ACCEPT = 4
_POLL_SECONDS = 0.005


class ScriptedJudge:
    """Serves the script for as long as its context lasts; without a script every request gets a 501.

    Args:
        latency_seconds: what every step takes at least.

    Attributes:
        requests: every request read, in order of arrival, refused ones too.
        connections: connections accepted; fewer than requests where the client keeps them alive.
        in_flight: requests that are being answered now; max_in_flight: the most there were at one time.
        abandoned: requests whose client went away before its reply was complete.
        tokens_served: sums of what the replies put in their `usage` field.
    """

    def __init__(self, *, latency_seconds: float = 0.0) -> None:
        self.requests: list[RecordedRequest] = []
        self.connections = 0
        self.in_flight = 0
        self.max_in_flight = 0
        self.abandoned = 0
        self.tokens_served = TokenCount()
        self._latency_seconds = latency_seconds
        self._script = _Script((openai_error(501, "unscripted", "the judge has no script: call reply_with first"),))
        self._special_scripts: list[tuple[Callable[[RecordedRequest], bool], _Script]] = []
        self._elsewhere: Scripted | None = None
        self._is_closing = False
        self._errors: list[Exception] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._port = 0
        self._server: asyncio.Server | None = None

    @property
    def base_url(self) -> str:
        """The URL to give to the client; known once the context is entered."""
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def calls(self) -> int:
        """How many requests were read."""
        return len(self.requests)

    def reply_with(self, *steps: Scripted) -> None:
        """Replaces the script: one step a request, the last one for ever."""
        self._script = _Script(steps)

    def reply_when(self, predicate: Callable[[RecordedRequest], bool], *steps: Scripted) -> None:
        """Gives requests that match a script of their own; the first predicate that holds wins over `reply_with`."""
        self._special_scripts.append((predicate, _Script(steps)))

    def reply_elsewhere(self, step: Scripted) -> None:
        """Gives requests for anything but chat completions to this step, in place of a 404."""
        self._elsewhere = step

    async def wait_until(self, condition: Callable[[], bool], *, deadline_seconds: float = 2.0) -> None:
        """Returns when the condition holds: `await judge.wait_until(lambda: judge.in_flight == 0)`.

        Raises:
            TimeoutError: it did not in time.
        """
        async with asyncio.timeout(deadline_seconds):
            # Polled, as the caller's event loop is not the judge's where that runs on a thread of its own.
            while not condition():  # noqa: ASYNC110
                await asyncio.sleep(_POLL_SECONDS)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=_HEAD_LIMIT_BYTES)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Aborts every connection; raises what a callable of the script raised, were it hidden by a fallback."""
        self._is_closing = True
        if self._server is not None:
            self._server.close()
            for _ in range(_TURNS_TO_ACCEPT):
                await asyncio.sleep(0)
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._server.wait_closed()
        if self._errors:
            raise self._errors[0]

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.create_task(self._serve(_Connection(self, reader, writer)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if self._is_closing:
            writer.transport.abort()

    async def _serve(self, connection: "_Connection") -> None:
        try:
            while connection.is_open and (request := await connection.read_request()) is not None:
                await self._answer(request, connection)
            await connection.finish()
        except ConnectionError:
            self.abandoned += 1
        except Exception as error:  # a bug in the script or in the judge itself: told when the context ends
            self._errors.append(error)
        finally:
            await connection.abort()

    async def _answer(self, request: RecordedRequest, connection: "_Connection") -> None:
        self.requests.append(request)
        self.in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self.in_flight)
        try:
            await connection.wait(self._latency_seconds)
            await resolve(self._step_for(request), request).play(connection, request)
        finally:
            self.in_flight -= 1

    def _step_for(self, request: RecordedRequest) -> Scripted:
        if request.method != "POST" or not request.path.endswith(_PATHS):
            if self._elsewhere is not None:
                return self._elsewhere
            return openai_error(404, None, f"no such route: {request.method} {request.path}")
        for predicate, script in self._special_scripts:
            if predicate(request):
                return script.next_step()
        return self._script.next_step()


@contextmanager
def running_judge(*, latency_seconds: float = 0.0) -> Iterator[ScriptedJudge]:
    """A judge on an event loop and a thread of its own, for tests that are not async."""
    with start_blocking_portal("asyncio") as portal:
        judge = ScriptedJudge(latency_seconds=latency_seconds)
        with portal.wrap_async_context_manager(judge):
            yield judge


class _Script:
    """Steps in turn, the last one for ever."""

    def __init__(self, steps: tuple[Scripted, ...]) -> None:
        if not steps:
            raise ValueError("a script needs one step or more, got none")
        self._steps = deque(steps)

    def next_step(self) -> Scripted:
        return self._steps.popleft() if len(self._steps) > 1 else self._steps[0]


class _Connection:
    """One client's socket: reads requests, and is the `Wire` that steps play on."""

    def __init__(self, judge: ScriptedJudge, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.is_open = True
        self._judge = judge
        self._reader = reader
        self._writer = writer
        self._is_half_closed = False
        # drain() then returns only when the kernel has every byte, so that an abort cannot discard one.
        writer.transport.set_write_buffer_limits(high=0)

    async def read_request(self) -> RecordedRequest | None:
        """The next request; None when the client left, orderly or not, before it was complete."""
        try:
            head = await self._reader.readuntil(b"\r\n\r\n")
            start, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
            method, path, _ = start.split(" ", 2)
            pairs = (line.split(":", 1) for line in lines)
            headers = {name.strip().lower(): value.strip() for name, value in pairs}
            body = await self._reader.readexactly(int(headers.get("content-length", "0")))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        if headers.get("connection", "").lower() == "close":
            self.is_open = False
        return RecordedRequest(method, path, headers, body, _parsed(body), time.monotonic())

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def wait(self, seconds: float | None) -> None:
        if seconds is not None and seconds <= 0:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                if await self._reader.read(1):
                    raise NotImplementedError("the client sent a byte before it had its reply; nothing here pipelines")
                raise ConnectionAbortedError("the client went away before its reply was complete")

    def close(self) -> None:
        self.is_open = False
        self._writer.close()

    def half_close(self) -> None:
        self.is_open = False
        self._is_half_closed = True
        self._writer.write_eof()

    def reset(self) -> None:
        self.is_open = False
        self._writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_ZERO)
        self._writer.transport.abort()

    def count_tokens(self, tokens: TokenCount) -> None:
        served = self._judge.tokens_served
        self._judge.tokens_served = TokenCount(served.prompt + tokens.prompt, served.completion + tokens.completion)

    async def finish(self) -> None:
        """Closes after the last reply; a half-closed connection reads on until the client closes its half."""
        if self._is_half_closed:
            with suppress(ConnectionError):
                await self._reader.read()
        self._writer.close()

    async def abort(self) -> None:
        """Frees the socket whatever state it is in; bytes that were sent stay sent."""
        self._writer.transport.abort()
        with suppress(ConnectionError):
            await self._writer.wait_closed()


def _parsed(body: bytes) -> object:
    try:
        parsed: object = json.loads(body)
    except ValueError:
        return None
    return parsed
