"""The edge of the service: request id, access log, security headers and bounds on the body, for every request."""

import re
import time
import uuid
from collections.abc import Callable, Sequence

import structlog
from fastapi import FastAPI
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from plumbline.ground.errors import BadRequest
from plumbline.ground.texts import CodedText
from plumbline.judging.ports.observation import NULL_OBSERVER, Observer, RequestRecord
from plumbline.service.api.problems import ErrorBoundary, error_response
from plumbline.service.api.responses import JSON, PROBLEM_MEDIA_TYPE, choose_language

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_CLIENT_CLOSED = 499  # nginx's status for a client that disconnected before the response

_LOG = structlog.get_logger()


def install_edge(
    app: FastAPI,
    *,
    body_limits: Callable[[ASGIApp], ASGIApp],
    admission: Callable[[ASGIApp], ASGIApp] | None = None,
    cors_origins: Sequence[str] = (),
    observer: Observer = NULL_OBSERVER,
) -> None:
    """Install the edge middlewares; call it after every other `add_middleware`, so that they are outermost.

    From the outside: `RequestContext` (so that failures carry the id and are logged), CORS (so that browsers may read
    failures, and preflights need no key), `ErrorBoundary`, `admission` (so that no body is read of a refused caller),
    `BodyLimits`. `cors_origins`: origins whose pages browsers let read the responses; `*` for all.
    """
    app.add_middleware(body_limits)
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
        is_private, language = is_under_v1(scope), choose_language(HTTPConnection(scope))

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                record.status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-ID"] = request_id
                headers["X-Content-Type-Options"] = "nosniff"
                headers.setdefault("Referrer-Policy", "no-referrer")
                if is_private:
                    headers["Cache-Control"] = "no-store"
                kind = headers.get("content-type", "")
                if language != "en" and kind.startswith((JSON, PROBLEM_MEDIA_TYPE)):
                    headers["Content-Language"] = language
                    headers.add_vary_header("Accept-Language")
            await send(message)

        with structlog.contextvars.bound_contextvars(request_id=request_id), self._observer.request(record):
            try:
                if scope["path"].startswith("/"):
                    await self._app(scope, receive, send_with_headers)
                else:
                    # `*`, an authority, a whole URL: this is no proxy
                    refused = error_response(scope, BadRequest(CodedText("target_is_no_path")))
                    await refused(scope, receive, send_with_headers)
            finally:
                # A route of an included router lacks the prefix in its path; FastAPI keeps the whole one separately.
                included = scope.get("fastapi", {}).get("effective_route_context")
                path = getattr(included, "path", None) or getattr(scope.get("route"), "path", None)
                record.route = path if isinstance(path, str) else "unmatched"
                _LOG.info(
                    "request_completed",
                    method=record.method,
                    route=record.route,
                    status=record.status,
                    milliseconds=round((time.perf_counter() - started_at) * 1000, 1),
                )


def path_of(scope: Scope) -> str:
    """Return the path without the root under which a proxy serves this service."""
    return str(scope["path"]).removeprefix(scope.get("root_path", ""))


def is_under_v1(scope: Scope) -> bool:
    path = path_of(scope)
    return path == "/v1" or path.startswith("/v1/")
