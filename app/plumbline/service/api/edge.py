"""The edge of the service: request id, access log, security headers and bounds on the body, for every request."""

import asyncio
import contextlib
import re
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import structlog
from fastapi import FastAPI
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from plumbline.ground.errors import BadRequest, BodyTooSlow, MalformedBody, UnsupportedBody
from plumbline.judging.ports.observation import NULL_OBSERVER, Observer, RequestRecord
from plumbline.service.api.body_stream import (
    ACCEPTED_CODING,
    BodyLimit,
    GunzippedBody,
    StreamedBody,
    answer_early,
    forget_coding,
    is_gzip,
)
from plumbline.service.api.problems import ErrorBoundary, error_response

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
_CONTENT_LENGTH = re.compile(r"0*([0-9]{1,15})")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
METHODS_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
_CLIENT_CLOSED = 499  # nginx's status for a client that disconnected before the response

_LOG = structlog.get_logger()


def install_edge(
    app: FastAPI,
    *,
    max_body_bytes: int,
    body_timeout_seconds: float,
    body_limit_by_prefix: Mapping[str, BodyLimit] | None = None,
    max_streamed_bytes_by_path: Mapping[str, int] | None = None,
    admission: Callable[[ASGIApp], ASGIApp] | None = None,
    cors_origins: Sequence[str] = (),
    observer: Observer = NULL_OBSERVER,
) -> None:
    """Install the edge middlewares; call it after every other `add_middleware`, so that they are outermost.

    From the outside: `RequestContext` (so that failures carry the id and are logged), CORS (so that browsers may read
    failures, and preflights need no key), `ErrorBoundary`, `admission` (so that no body is read of a refused caller),
    `BodyLimits`.

    Args:
        body_timeout_seconds: for a whole body, or for each `PROGRESS_BYTES` of a streamed one.
        max_streamed_bytes_by_path: limits of the paths whose routes read their body as it arrives.
        cors_origins: origins whose pages browsers let read the responses; `*` for all.
    """
    app.add_middleware(
        BodyLimits,
        max_bytes=max_body_bytes,
        timeout_seconds=body_timeout_seconds,
        limit_by_prefix=body_limit_by_prefix or {},
        max_streamed_bytes_by_path=max_streamed_bytes_by_path or {},
    )
    if admission is not None:
        app.add_middleware(admission)
    app.add_middleware(ErrorBoundary)
    if cors_origins:
        # Keys are headers, never cookies: credentials stay off.
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(cors_origins),
            allow_methods=sorted(_METHODS),
            allow_headers=["*"],
            expose_headers=["X-Request-ID", "Location", "Retry-After", "Idempotency-Replayed"],
        )
    app.add_middleware(RequestContext, observer=observer)


class RequestContext:
    """ASGI middleware: sets the request id and security headers, and logs one `request_completed` per request.

    The event has the route's template, never the raw path, query, headers or body; status 499: the client disconnected.
    """

    def __init__(self, app: ASGIApp, observer: Observer = NULL_OBSERVER) -> None:
        self._app = app
        self._observer = observer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started_at = time.perf_counter()
        headers = Headers(scope=scope)
        method = scope["method"] if scope["method"] in _METHODS else "other"
        record = RequestRecord(method, headers.get("traceparent"), status=_CLIENT_CLOSED)
        sent_id = headers.get("x-request-id", "")
        request_id = sent_id if _REQUEST_ID.fullmatch(sent_id) else uuid.uuid4().hex
        scope.setdefault("state", {})["request_id"] = request_id
        is_private = is_under_v1(scope)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                record.status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-ID"] = request_id
                headers["X-Content-Type-Options"] = "nosniff"
                headers.setdefault("Referrer-Policy", "no-referrer")
                if is_private:
                    headers["Cache-Control"] = "no-store"
            await send(message)

        with structlog.contextvars.bound_contextvars(request_id=request_id), self._observer.request(record):
            try:
                await self._app(scope, receive, send_with_headers)
            finally:
                record.route = _route_template(scope)
                _LOG.info(
                    "request_completed",
                    method=record.method,
                    route=record.route,
                    status=record.status,
                    milliseconds=round((time.perf_counter() - started_at) * 1000, 1),
                )


@dataclass(eq=False)
class BodyLimits:
    """ASGI middleware: reads the whole body of POST, PUT and PATCH within limits, then hands it on in one piece.

    At the paths of large bodies it hands them on as they arrive. The limits apply to a gzipped body both as it is sent
    and expanded. A refused request is answered at once and its connection closed.
    """

    app: ASGIApp
    max_bytes: int
    timeout_seconds: float
    limit_by_prefix: Mapping[str, BodyLimit] = field(default_factory=dict)
    max_streamed_bytes_by_path: Mapping[str, int] = field(default_factory=dict)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if "content-length" in headers and "transfer-encoding" in headers:
            # RFC 9112, section 6.3: request smuggling
            await _refuse(MalformedBody("a body has either a Content-Length or chunks"), scope, receive, send)
            return
        if scope["method"] not in METHODS_WITH_BODY:
            await self.app(scope, receive, send)
            return
        path = str(scope["path"])
        streamed_bytes = self.max_streamed_bytes_by_path.get(path)
        by_prefix = (limit for prefix, limit in self.limit_by_prefix.items() if path.startswith(prefix))
        limit = next(by_prefix, BodyLimit(self.max_bytes)) if streamed_bytes is None else BodyLimit(streamed_bytes)
        scope.setdefault("state", {})["body_limit"] = limit
        plain = unread = receive
        try:
            _check_length(headers, limit)
            if is_gzip(headers):
                expanded = GunzippedBody(receive, limit)
                plain, unread = expanded.receive, expanded.unread
                forget_coding(scope)
            body = await self._read(plain, limit) if streamed_bytes is None else b""
        except BadRequest as error:
            await _refuse(error, scope, unread, send)
            return
        if streamed_bytes is not None:
            streamed = StreamedBody(
                plain, send, max_bytes=streamed_bytes, progress_seconds=self.timeout_seconds, unread=unread
            )
            with contextlib.suppress(ClientDisconnect):
                await self.app(scope, streamed.receive, streamed.send)
        elif body is not None:
            replay = _replay(body, receive)
            # free the body while a long response is sent
            del body
            await self.app(scope, replay, send)

    async def _read(self, receive: Receive, limit: BodyLimit) -> bytes | None:
        """Return the body; None if the client disconnected."""
        body = bytearray()
        try:
            async with asyncio.timeout(self.timeout_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    body += message.get("body", b"")
                    if len(body) > limit.max_bytes:
                        raise limit.error()
                    if not message.get("more_body", False):
                        return bytes(body)
        except TimeoutError:
            raise BodyTooSlow(f"the body did not arrive within {self.timeout_seconds:g} seconds") from None


def _check_length(headers: Headers, limit: BodyLimit) -> None:
    for length in headers.getlist("content-length"):
        match = _CONTENT_LENGTH.fullmatch(length)
        if match is None and not (length.isascii() and length.isdigit()):
            raise MalformedBody("Content-Length is not a number of bytes")
        if match is None or int(match[1]) > limit.max_bytes:
            raise limit.error()


async def _refuse(error: BadRequest, scope: Scope, receive: Receive, send: Send) -> None:
    response = error_response(scope, error)
    if isinstance(error, UnsupportedBody):
        # RFC 9110, section 15.5.16: tells a wrong coding from a wrong type
        response.headers["Accept-Encoding"] = ACCEPTED_CODING
    await answer_early(response, receive, send)


def _replay(body: bytes, receive: Receive) -> Receive:
    unsent = [body]

    async def replay() -> Message:
        if not unsent:
            return await receive()
        return {"type": "http.request", "body": unsent.pop(), "more_body": False}

    return replay


def is_under_v1(scope: Scope) -> bool:
    """Return True if the path needs a key."""
    path = str(scope["path"]).removeprefix(scope.get("root_path", ""))
    return path == "/v1" or path.startswith("/v1/")


def _route_template(scope: Scope) -> str:
    # A route of an included router lacks the prefix in its path; FastAPI keeps the whole one separately.
    included = scope.get("fastapi", {}).get("effective_route_context")
    path = getattr(included, "path", None) or getattr(scope.get("route"), "path", None)
    return path if isinstance(path, str) else "unmatched"
