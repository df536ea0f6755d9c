"""A service that answers as a script says, on a real loopback socket: for what a good service never does."""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

from anyio.from_thread import start_blocking_portal

from plumbline.schemas.evaluation import EvaluationResult
from plumbline.schemas.jobs import JobInfo

NDJSON = "application/x-ndjson"
PROBLEM = "application/problem+json"


@dataclass(frozen=True)
class Asked:
    """A request as it came."""

    method: str
    path: str
    params: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Answer:
    """What is sent: pieces of a body; `is_cut`: the connection ends before the body does; `is_held`: it stays open."""

    pieces: Sequence[bytes] = ()
    status: int = 200
    media_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    is_cut: bool = False
    is_held: bool = False


Script = Callable[[Asked], Answer]


class ScriptedService:
    """Serves for as long as its context lasts.

    Attributes:
        asked: the requests, in order of arrival. left: held answers whose reader went away.
        in_flight: requests being answered; most: of them at one time.
    """

    def __init__(self, script: Script) -> None:
        self.script = script
        self.asked: list[Asked] = []
        self.left = self.in_flight = self.most = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._errors: list[Exception] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()
        if self._errors:
            raise self._errors[0]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Returns when the condition holds; looked at whenever a request begins or ends."""
        async with asyncio.timeout(10):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                while await self._answered(reader, writer):
                    pass
        except Exception as error:
            self._errors.append(error)
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _answered(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        asked = await _read(reader)
        self.asked.append(asked)
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        self._changed.set()
        try:
            return await self._send(self.script(asked), reader, writer)
        finally:
            self.in_flight -= 1
            self._changed.set()

    async def _send(self, answer: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Whether the connection stays."""
        if answer.status:
            kind = {"content-type": answer.media_type, "transfer-encoding": "chunked"}
            headers = {**({} if answer.status == HTTPStatus.NO_CONTENT else kind), **answer.headers}
            lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            writer.write(f"HTTP/1.1 {answer.status} Scripted\r\n{lines}\r\n".encode())
        for piece in answer.pieces:
            writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await writer.drain()
        if answer.is_held:
            await reader.read(1)
            self.left += 1
            return False
        if answer.is_cut:
            writer.close()
            await writer.wait_closed()
            return False
        if answer.status != HTTPStatus.NO_CONTENT:
            writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True


@contextmanager
def scripted(script: Script) -> Iterator[ScriptedService]:
    """The service on a thread of its own, for tests that are not async."""
    with start_blocking_portal("asyncio") as portal, portal.wrap_async_context_manager(ScriptedService(script)) as it:
        yield it


async def _read(reader: asyncio.StreamReader) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").rstrip("\r\n")
    start, *lines = head.split("\r\n")
    method, target, _ = start.split(" ")
    headers = {name.lower(): value.strip() for name, value in (line.split(":", 1) for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    url = urlsplit(target)
    return Asked(method, url.path, dict(parse_qsl(url.query)), headers, body)


def in_turn(*answers: Answer | Script) -> Script:
    """One answer a request, the last one for ever."""
    left = list(answers)

    def script(asked: Asked) -> Answer:
        answer = left.pop(0) if len(left) > 1 else left[0]
        return answer if isinstance(answer, Answer) else answer(asked)

    return script


def json_answer(value: object, status: int = 200, **headers: str) -> Answer:
    """JSON, or a model of the schemas."""
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return Answer([body], status, headers=headers)


def problem(status: int, slug: str = "x", detail: str = "so it is", **fields: Any) -> Answer:
    """A problem of the service; `headers` among the fields are the answer's."""
    headers = fields.pop("headers", {})
    value = {
        "type": f"urn:plumbline:problem:{slug}",
        "title": "A title",
        "status": status,
        "detail": detail,
        "instance": "/v1",
        "request_id": "r-1",
        "errors": [],
        **fields,
    }
    return Answer([json.dumps(value).encode()], status, PROBLEM, headers)


def batch_answer(asked: Asked, *, only: int | None = None) -> Answer:
    """A result for each sample asked for, the last one first, and the summary; `only` so many, and then a cut."""
    samples = list(enumerate(asked.json["samples"]))[::-1]
    lines = [row_line(index, sample) for index, sample in samples[:only]]
    whole = [] if only is not None else [b'{"summary":{}}\n']
    return Answer([*lines, *whole], media_type=NDJSON, is_cut=only is not None)


def row_line(index: int, sample: Mapping[str, Any]) -> bytes:
    """A line of a batch; the answer of the sample comes back as the name of the result."""
    name = sample.get("custom_id")
    row = {"custom_id": name, "index": index, "result": result_of(sample["answer"])}
    return json.dumps(row).encode() + b"\n"


NO_USAGE = dict.fromkeys(("calls", "unmetered_calls", "prompt_tokens", "completion_tokens", "cached_tokens"), 0)


def result_of(name: str | None, **fields: Any) -> dict[str, Any]:
    """A result, as the service sends it."""
    sent = {"tier": "llm", "passed": True, "hallucination_rate": None, "context_utilization": None}
    value = {"id": name, "status": "judged", "faithfulness": 1.0, **sent, "trace": {}, **fields}
    return EvaluationResult.model_validate(value).model_dump()


def job_info(status: str = "running", *, done: int = 0, total: int = 4, **fields: Any) -> dict[str, Any]:
    """A job, as the service sends it."""
    outcomes: dict[str, Any] = dict.fromkeys(
        ("judged", "abstained", "empty_answer", "not_judged", "invalid", "failed", "degraded"), 0
    )
    value = {
        "id": "job-1",
        "name": None,
        "status": status,
        "created_at": "2026-01-01T00:00:00Z",
        "started_at": None,
        "ended_at": None,
        "request_counts": {"total": total, "completed": done, "failed": 0},
        "outcomes": {**outcomes, "tiers": {}},
        "usage": {**NO_USAGE, "cost": 0.0},
        "max_cost": None,
        "rows_per_second": None,
        "eta_seconds": None,
        "problem": None,
        "options": {},
        "links": dict.fromkeys(("self", "results", "report"), "/v1/jobs/job-1"),
        **fields,
    }
    JobInfo.model_validate(value)
    return value
