"""A small service behind the real edge, and ways to call it: in process, or over a socket."""

import contextlib
import os
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import httpx2
import uvicorn
from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field, field_validator

from plumbline.ground.errors import CalibrationError, PlumblineError
from plumbline.schemas.problem import Problem
from plumbline.schemas.wire import invalid_value
from plumbline.service.access.access import Access, Keyring, RequestGate
from plumbline.service.access.keys import Scope
from plumbline.service.api.auth import Admission, Authenticator, make_key_check
from plumbline.service.api.body_stream import BodyLimits
from plumbline.service.api.edge import install_edge
from plumbline.service.api.json_body import StrictRoute
from plumbline.service.api.problems import (
    MAX_PROBLEM_BYTES,
    PROBLEM_RESPONSES,
    install_problem_handlers,
)
from plumbline.service.api.responses import PROBLEM_MEDIA_TYPE

MAX_BODY_BYTES = 4_194_304
# A refusal is bounded work: what this guards against took from four seconds to minutes.
SOON_SECONDS = 3.5
LOOPBACK_URL = "http://127.0.0.1:8000"


class Passage(BaseModel):
    model_config = ConfigDict(extra="forbid")

    text: str
    source: str = ""


class Sample(BaseModel):
    model_config = ConfigDict(extra="forbid")

    question: str = ""
    contexts: list[Annotated[str, Field(max_length=1000)]] = Field(max_length=200)
    answer: str
    threshold: float | None = Field(default=None, ge=0, le=1)
    tiers: list[Literal["llm", "embedding", "lexical"]] | None = Field(default=None, max_length=3)
    passages: list[str | Passage] = Field(default=[], max_length=10)
    notes: list[str] = []

    @field_validator("question")
    @classmethod
    def _question_is_a_question(cls, question: str) -> str:
        if question.startswith("tell:"):
            raise ValueError(f"{question!r} is not a question")
        if question.startswith("say:"):
            raise invalid_value("labels_alike")
        return question


def edge_app(
    *,
    max_body_bytes: int = MAX_BODY_BYTES,
    body_timeout_seconds: float = 5.0,
    keys: Sequence[str] = (),
    allow_anonymous: bool = True,
) -> FastAPI:
    """A service with one scoring route and several that fail."""
    app = FastAPI(title="edge", redirect_slashes=False)
    access = Access(
        Keyring(keys, Path(os.devnull, "no-keys")),
        RequestGate(max_requests=1_000),
    )
    authenticator = Authenticator(access, allow_anonymous=allow_anonymous)
    app.include_router(_router(), prefix="/v1", dependencies=[Depends(make_key_check(authenticator, Scope.EVALUATE))])
    install_problem_handlers(app)
    install_edge(
        app,
        body_limits=partial(BodyLimits, max_bytes=max_body_bytes, timeout_seconds=body_timeout_seconds),
        admission=partial(Admission, authenticator=authenticator),
    )
    return app


def client_of(app: FastAPI, *, base_url: str = LOOPBACK_URL, raise_app_exceptions: bool = True) -> httpx2.AsyncClient:
    transport = httpx2.ASGITransport(app=app, raise_app_exceptions=raise_app_exceptions)
    return httpx2.AsyncClient(transport=transport, base_url=base_url)


def scope_of(path: str, method: str = "GET", **headers: str) -> dict[str, Any]:
    """Return the ASGI scope of a request over HTTP."""
    sent = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", b"127.0.0.1"), *sent],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8000),
    }


def read_problem(response: httpx2.Response, status: int) -> Problem:
    """The problem of a response, once its status, media type, size and shape are proven."""
    assert response.status_code == status, response.text[:300]
    assert response.headers["content-type"] == PROBLEM_MEDIA_TYPE
    assert len(response.content) < MAX_PROBLEM_BYTES
    problem = Problem.model_validate_json(response.content)
    assert problem.status == status
    assert problem.request_id == response.headers["x-request-id"]
    return problem


@contextlib.contextmanager
def serve(
    app: FastAPI, *, lifespan: Literal["on", "off"] = "off", send_buffer_bytes: int | None = None
) -> Iterator[int]:
    """The port of a real uvicorn on loopback, in a thread; the kernel keeps so much of an answer that nobody reads."""
    listener = socket.create_server(("127.0.0.1", 0))
    if send_buffer_bytes is not None:
        # connections take it over from the listener
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
    with in_thread(uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, lifespan=lifespan)), listener):
        yield listener.getsockname()[1]


@contextlib.contextmanager
def in_thread(server: uvicorn.Server, listener: socket.socket) -> Iterator[None]:
    """The server, from its start to its end, on a listener that is closed then."""
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    with listener:
        thread.start()
        try:
            while not server.started and thread.is_alive():
                time.sleep(0.005)
            yield
        finally:
            server.should_exit = True
            thread.join()


def _router() -> APIRouter:
    router = APIRouter(route_class=StrictRoute, responses=PROBLEM_RESPONSES)

    @router.post("/evaluations")
    async def evaluate(sample: Sample) -> dict[str, Any]:
        return sample.model_dump()

    @router.post("/crash")
    async def crash(sample: Sample) -> None:
        try:
            raise KeyError(sample.question)
        except KeyError as error:
            raise RuntimeError(sample.answer) from error

    @router.post("/fail")
    async def fail(sample: Sample) -> None:
        raise CalibrationError(sample.answer)

    @router.post("/crash-late")
    async def crash_late(sample: Sample) -> StreamingResponse:
        async def parts() -> AsyncIterator[str]:
            yield "first"
            raise RuntimeError(sample.answer)

        return StreamingResponse(parts())

    @router.post("/wrong-answer", response_model=Passage)
    async def wrong_answer(sample: Sample) -> dict[str, Any]:
        return {"text": [sample.answer]}

    @router.post("/raw")
    async def read_raw(request: Request) -> dict[str, Any]:
        return {"bytes": len(await request.body()), "is_disconnected": await request.is_disconnected()}

    @router.get("/things/{number}")
    async def read_thing(number: int, limit: int = 1) -> int:
        return number * limit

    return router


def subclasses(error_class: type[PlumblineError]) -> Iterator[type[PlumblineError]]:
    """The class and all below it, those of the app only."""
    if error_class.__module__.startswith("plumbline."):
        yield error_class
    for child in error_class.__subclasses__():
        yield from subclasses(child)
