"""The edge of the service: request id, access log, security headers and bounds on the body, for every request."""

import asyncio
import contextlib
import re
import time
import uuid
from collections.abc import Callable, Mapping
from types import MappingProxyType

import structlog
from fastapi import FastAPI
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from plumbline.ground.errors import BadRequest, BodyTooSlow, MalformedBody, UnsupportedBody
from plumbline.judging.ports.observation import NULL_OBSERVER, Observer, RequestRecord
from plumbline.service.api.body_stream import (
    ACCEPTED_CODING,
    GunzippedBody,
    StreamedBody,
    end_early,
    forget_coding,
    is_gzip,
    too_large,
)
from plumbline.service.api.problems import ErrorBoundary, error_response

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
_CONTENT_LENGTH = re.compile(r"0*([0-9]{1,15})")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_METHODS_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
_CLIENT_CLOSED = 499  # nginx's code for a caller who left before the answer

_LOG = structlog.get_logger()


def install_edge(
    app: FastAPI,
    *,
    max_body_bytes: int,
    body_timeout_seconds: float,
    max_body_bytes_by_prefix: Mapping[str, int] | None = None,
    max_streamed_bytes_by_path: Mapping[str, int] | None = None,
    admission: Callable[[ASGIApp], ASGIApp] | None = None,
    observer: Observer = NULL_OBSERVER,
) -> None:
    """Install the edge middlewares; call it after every other `add_middleware`, so that they are outermost.

    From the outside: `RequestContext` (so that failures carry the id and are logged), `ErrorBoundary`, `admission` (so
    that nothing is read of who is not let in), `BodyLimits`.
    Paths under a prefix have a limit of their own. The routes at some paths, each named whole, read their body as it
    arrives: there the seconds are for `PROGRESS_BYTES` of it and not for the whole. `observer` is told of each request.
    """
    app.add_middleware(
        BodyLimits,
        max_bytes=max_body_bytes,
        timeout_seconds=body_timeout_seconds,
        max_bytes_by_prefix=max_body_bytes_by_prefix or {},
        max_streamed_bytes_by_path=max_streamed_bytes_by_path or {},
    )
    if admission is not None:
        app.add_middleware(admission)
    app.add_middleware(ErrorBoundary)
    app.add_middleware(RequestContext, observer=observer)


class RequestContext:
    """ASGI middleware: gives the request its id, the answer its headers, and the log one `request_completed`.

    The event has the route's template, never the raw path, query, headers or body; 499 is a caller who left.
    """

    def __init__(self, app: ASGIApp, observer: Observer = NULL_OBSERVER) -> None:
        self._app = app
        self._observer = observer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started_at = time.perf_counter()
        note = _request_note(scope)
        request_id = _request_id(scope)
        scope.setdefault("state", {})["request_id"] = request_id
        is_private = _is_private(scope)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                note.status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-ID"] = request_id
                headers["X-Content-Type-Options"] = "nosniff"
                headers["Referrer-Policy"] = "no-referrer"
                if is_private:
                    headers["Cache-Control"] = "no-store"
            await send(message)

        with structlog.contextvars.bound_contextvars(request_id=request_id), self._observer.request(note):
            try:
                await self._app(scope, receive, send_with_headers)
            finally:
                note.route = _route_template(scope)
                _LOG.info(
                    "request_completed",
                    method=note.method,
                    route=note.route,
                    status=note.status,
                    milliseconds=round((time.perf_counter() - started_at) * 1000, 1),
                )


class BodyLimits:
    """ASGI middleware: reads the whole body of POST, PUT and PATCH within limits, then hands it on in one piece.

    At the paths of large bodies it hands them on as they arrive, likewise within limits. A body sent as gzip is
    expanded, and the limits hold for it as it is sent and for what it expands to. A refused request is answered at once
    and its connection closed.
    """

    def __init__(
        self,
        app: ASGIApp,
        max_bytes: int,
        timeout_seconds: float,
        max_bytes_by_prefix: Mapping[str, int] = MappingProxyType({}),
        max_streamed_bytes_by_path: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._timeout_seconds = timeout_seconds
        self._max_bytes_by_prefix = max_bytes_by_prefix
        self._max_streamed_bytes_by_path = max_streamed_bytes_by_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if "content-length" in headers and "transfer-encoding" in headers:
            # RFC 9112, section 6.3: a proxy that goes by the other one finds another request in the body.
            await _refuse(MalformedBody("a body has either a Content-Length or chunks"), scope, receive, send)
            return
        if scope["method"] not in _METHODS_WITH_BODY:
            await self._app(scope, receive, send)
            return
        path = str(scope["path"])
        streamed_bytes = self._max_streamed_bytes_by_path.get(path)
        max_bytes = self._limit(path) if streamed_bytes is None else streamed_bytes
        plain = unread = receive
        try:
            _check_length(headers, max_bytes)
            if is_gzip(headers):
                expanded = GunzippedBody(receive, max_bytes=max_bytes)
                plain, unread = expanded.receive, expanded.unread
                forget_coding(scope)
            body = await self._read(plain, max_bytes) if streamed_bytes is None else b""
        except BadRequest as error:
            await _refuse(error, scope, unread, send)
            return
        if streamed_bytes is not None:
            streamed = StreamedBody(
                plain, send, max_bytes=streamed_bytes, progress_seconds=self._timeout_seconds, unread=unread
            )
            # nobody is left to be answered
            with contextlib.suppress(ClientDisconnect):
                await self._app(scope, streamed.receive, streamed.send)
        elif body is not None:
            replay = _replay(body, receive)
            # an answer can take minutes to send, and its reader may drop the body long before
            del body
            await self._app(scope, replay, send)

    def _limit(self, path: str) -> int:
        limits = (limit for prefix, limit in self._max_bytes_by_prefix.items() if path.startswith(prefix))
        return next(limits, self._max_bytes)

    async def _read(self, receive: Receive, max_bytes: int) -> bytes | None:
        """Return the body; None if the client disconnected."""
        body = bytearray()
        try:
            async with asyncio.timeout(self._timeout_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    body += message.get("body", b"")
                    if len(body) > max_bytes:
                        raise too_large(max_bytes)
                    if not message.get("more_body", False):
                        return bytes(body)
        except TimeoutError:
            raise BodyTooSlow(f"the body did not arrive within {self._timeout_seconds:g} seconds") from None


def _check_length(headers: Headers, max_bytes: int) -> None:
    for length in headers.getlist("content-length"):
        match = _CONTENT_LENGTH.fullmatch(length)
        if match is None and not (length.isascii() and length.isdigit()):
            raise MalformedBody("Content-Length is not a number of bytes")
        if match is None or int(match[1]) > max_bytes:
            raise too_large(max_bytes)


async def _refuse(error: BadRequest, scope: Scope, receive: Receive, send: Send) -> None:
    response = error_response(scope, error)
    response.headers["Connection"] = "close"
    if isinstance(error, UnsupportedBody):
        # RFC 9110, section 15.5.16: so that a caller tells a wrong coding from a wrong type
        response.headers["Accept-Encoding"] = ACCEPTED_CODING
    await send({"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers})
    await end_early({"type": "http.response.body", "body": response.body}, receive, send)


def _replay(body: bytes, receive: Receive) -> Receive:
    unsent = [body]

    async def replay() -> Message:
        if not unsent:
            return await receive()
        return {"type": "http.request", "body": unsent.pop(), "more_body": False}

    return replay


def _request_note(scope: Scope) -> RequestRecord:
    method = scope["method"] if scope["method"] in _METHODS else "other"
    return RequestRecord(method, Headers(scope=scope).get("traceparent"), status=_CLIENT_CLOSED)


def _request_id(scope: Scope) -> str:
    sent = Headers(scope=scope).get("x-request-id", "")
    return sent if _REQUEST_ID.fullmatch(sent) else uuid.uuid4().hex


def _is_private(scope: Scope) -> bool:
    path = str(scope["path"]).removeprefix(scope.get("root_path", ""))
    return path == "/v1" or path.startswith("/v1/")


def _route_template(scope: Scope) -> str:
    # A route of an included router knows its path without the prefix; FastAPI keeps the whole one beside it.
    included = scope.get("fastapi", {}).get("effective_route_context")
    path = getattr(included, "path", None) or getattr(scope.get("route"), "path", None)
    return path if isinstance(path, str) else "unmatched"
