"""Every failure as RFC 9457 `application/problem+json`, and the boundary that no exception text crosses."""

import asyncio
import json
import math
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final, cast
from urllib.parse import quote

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from plumbline.ground.errors import (
    AccessDenied,
    BadRequest,
    BodyTooLarge,
    BodyTooSlow,
    BudgetSpent,
    ConcurrencyExceeded,
    Ending,
    IdempotencyConflict,
    InvalidInput,
    JobRefused,
    JobStateConflict,
    JobUnknown,
    KeyExpired,
    KeyMissing,
    KeyUnknown,
    LimitReached,
    Locked,
    MalformedBody,
    NotAcceptable,
    PlumblineError,
    RateExceeded,
    ScopeMissing,
    StoreUnavailable,
    TooBusy,
    UnsupportedBody,
)
from plumbline.ground.telemetry import log_failure
from plumbline.schemas.problem import FAILURE_DETAIL, INTERNAL, VALIDATION, FieldProblem, Problem, ProblemKind
from plumbline.service.api.field_problems import MAX_FIELD_PROBLEMS, field_problems
from plumbline.service.api.openapi import add_schemas

PROBLEM_MEDIA_TYPE = "application/problem+json"
MAX_PROBLEM_BYTES = 16_000
_MAX_DETAIL_CHARACTERS = 600
_MAX_INSTANCE_CHARACTERS = 200
_METHODS: Final = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE")
# A 503 is told in its own words: it is the operator's to mend, and the caller's to try again.
_HEADERS: Mapping[int, Mapping[str, str]] = MappingProxyType(
    {HTTPStatus.UNAUTHORIZED: {"WWW-Authenticate": "Bearer"}, HTTPStatus.SERVICE_UNAVAILABLE: {"Retry-After": "5"}}
)


KIND_BY_ERROR: Mapping[type[PlumblineError], ProblemKind] = MappingProxyType(
    {
        PlumblineError: INTERNAL,
        BadRequest: ProblemKind(400, "bad-request", "The request cannot be read"),
        MalformedBody: ProblemKind(400, "malformed-body", "The body cannot be read as JSON"),
        InvalidInput: ProblemKind(422, "invalid-input", "The input cannot be evaluated"),
        NotAcceptable: ProblemKind(406, "not-acceptable", "No form of the answer is acceptable"),
        UnsupportedBody: ProblemKind(415, "unsupported-body", "This kind of body is not read here"),
        BodyTooLarge: ProblemKind(413, "body-too-large", "The body is too large"),
        BodyTooSlow: ProblemKind(408, "body-too-slow", "The body did not arrive in time"),
        JobRefused: ProblemKind(409, "job-refused", "The job does not allow this"),
        JobUnknown: ProblemKind(404, "job-unknown", "There is no such job"),
        JobStateConflict: ProblemKind(409, "job-state", "The job's state does not allow this"),
        IdempotencyConflict: ProblemKind(422, "idempotency-key-reused", "The Idempotency-Key was used before"),
        StoreUnavailable: ProblemKind(503, "store-unavailable", "Jobs cannot be kept or read now"),
        TooBusy: ProblemKind(503, "too-busy", "There is no room for one more now"),
        Ending: ProblemKind(503, "ending", "The service ends"),
        AccessDenied: ProblemKind(401, "access-denied", "Access is denied"),
        KeyMissing: ProblemKind(401, "key-missing", "A key is needed"),
        KeyUnknown: ProblemKind(401, "key-unknown", "The key is not known"),
        KeyExpired: ProblemKind(401, "key-expired", "The key has expired"),
        ScopeMissing: ProblemKind(403, "scope-missing", "The key is not for this"),
        LimitReached: ProblemKind(429, "limit-reached", "The key has had all that it may have for now"),
        RateExceeded: ProblemKind(429, "rate-exceeded", "The key makes too many requests a minute"),
        ConcurrencyExceeded: ProblemKind(429, "concurrency-exceeded", "The key has too many requests under way"),
        BudgetSpent: ProblemKind(429, "budget-spent", "The key has spent its budget of the day"),
        Locked: ProblemKind(401, "locked", "No key is configured, so only loopback may call"),
    }
)


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the `responses=` of a route that documents its problems; needs `install_problem_handlers`."""
    reference = {"$ref": "#/components/schemas/Problem"}
    content = {PROBLEM_MEDIA_TYPE: {"schema": reference}}
    return {
        status: {"description": HTTPStatus(status).phrase, "content": content, **_DOCUMENTED.get(status, {})}
        for status in statuses
    }


def _header(description: str, example: str) -> dict[str, Any]:
    return {"description": description, "schema": {"type": "string"}, "example": example}


_RETRY_AFTER: Final = {"Retry-After": _header("Seconds after which to try again.", "7")}
_DOCUMENTED: Final[Mapping[int, Mapping[str, Any]]] = MappingProxyType(
    {
        HTTPStatus.FORBIDDEN: {"description": "The key lacks the scope of this route."},
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE: {
            "description": "The body is of another type, or of another Content-Encoding than gzip. The bounds on a "
            "body hold for it as it is sent and for what it expands to.",
            "headers": {"Accept-Encoding": _header("Where it was the encoding: the one that is read.", "gzip")},
        },
        HTTPStatus.TOO_MANY_REQUESTS: {
            "description": "The key has used up its requests per minute, its concurrent requests, or its daily "
            "tokens or cost (`urn:plumbline:problem:budget-spent`).",
            "headers": {
                **_RETRY_AFTER,
                "RateLimit-Policy": _header(
                    "Limits of the key, on every answer to a key that has some.", '"requests";q=60;w=60'
                ),
                "RateLimit": _header("What is left of each: `r` now, one more in `t` seconds.", '"requests";r=12;t=1'),
            },
        },
        HTTPStatus.SERVICE_UNAVAILABLE: {"headers": _RETRY_AFTER},
    }
)
# Of a route that takes a body and needs a key.
PROBLEM_RESPONSES: dict[int | str, dict[str, Any]] = problem_responses(400, 401, 403, 408, 413, 415, 422, 429, 500, 503)


def install_problem_handlers(app: FastAPI) -> None:
    """Turn every failure of the app into a problem, and add the schema to its OpenAPI document.

    Exceptions that nobody declared are `ErrorBoundary`'s; the handler here only serves an app without one.
    """
    app.add_exception_handler(HTTPException, _on_http_exception)
    app.add_exception_handler(RequestValidationError, _on_validation_error)
    app.add_exception_handler(PlumblineError, _on_plumbline_error)
    app.add_exception_handler(Exception, _on_exception)
    _document_problems(app)


def kind_of(error_class: type[PlumblineError]) -> ProblemKind:
    """Return the kind of the class or of its nearest ancestor that has one."""
    return next(KIND_BY_ERROR[ancestor] for ancestor in error_class.__mro__ if ancestor in KIND_BY_ERROR)


def error_response(scope: Scope, error: PlumblineError) -> Response:
    """Return the response to a declared error: its own text below 500 and for 503, else a logged generic one."""
    kind = kind_of(type(error))
    if kind.status >= INTERNAL.status and kind.status not in _HEADERS:
        return failure_response(scope, error)
    headers = dict(_HEADERS.get(kind.status, {}))
    if isinstance(error, LimitReached | TooBusy) and error.retry_after_seconds is not None:
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after_seconds)))
    return problem_response(scope, kind, detail=str(error), headers=headers)


def failure_response(scope: Scope, error: Exception) -> Response:
    """Log an error of ours and return its generic response."""
    log_failure(error, "request_failed", request_id=request_id_of(scope))
    return problem_response(scope, INTERNAL, detail=FAILURE_DETAIL)


def problem_response(
    scope: Scope,
    kind: ProblemKind,
    *,
    detail: str,
    errors: Sequence[FieldProblem] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return a problem as a response of less than 16,000 bytes; if the field problems do not fit, fewer are listed."""
    problem = Problem(
        type=kind.urn,
        title=kind.title,
        status=kind.status,
        detail=detail[:_MAX_DETAIL_CHARACTERS],
        instance=quote(scope["path"], errors="replace")[:_MAX_INSTANCE_CHARACTERS],
        request_id=request_id_of(scope),
        errors=list(errors),
    )
    # json.dumps and not pydantic: it escapes what UTF-8 cannot hold, pydantic raises
    body = json.dumps(problem.model_dump()).encode("ascii")
    if len(body) >= MAX_PROBLEM_BYTES and errors:
        return problem_response(scope, kind, detail=detail, errors=errors[: len(errors) // 2], headers=headers)
    return Response(body, kind.status, headers, PROBLEM_MEDIA_TYPE)


def invalid_response(scope: Scope, error: RequestValidationError, annotation: object) -> Response:
    """Return the response to a request that does not validate; `annotation`: the type of its body, to suggest names."""
    errors = field_problems(error, annotation)
    return problem_response(scope, VALIDATION, detail=validation_detail(error, "request"), errors=errors)


def validation_detail(error: RequestValidationError, whole: str) -> str:
    """Return the number of problems as text, and if only the first are listed."""
    count = len(error.errors())
    rest = f"; the first {MAX_FIELD_PROBLEMS} follow" if count > MAX_FIELD_PROBLEMS else ""
    return f"{count} problem{'' if count == 1 else 's'} in the {whole}{rest}"


def request_id_of(scope: Scope) -> str | None:
    """Return the id that `RequestContext` gave the request; None outside of it."""
    return cast(str | None, scope.get("state", {}).get("request_id"))


class ErrorBoundary:
    """ASGI middleware from which no exception escapes, so that no server prints its message.

    Answers with a generic problem. When the answer has begun it returns, and the server cuts the connection. A server
    that ends cancels what it no longer waits for: that is answered 503.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_started = False

        async def watch(message: Message) -> None:
            nonlocal has_started
            has_started = has_started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, watch)
        except asyncio.CancelledError as cancelled:
            # the server prints it, and with it the message of what was being handled
            cancelled.__suppress_context__ = True
            if not has_started:
                response = error_response(scope, Ending("the service ends and did not get to this; try again"))
                response.headers["Connection"] = "close"
                await response(scope, receive, send)
            raise
        except Exception as error:
            response = failure_response(scope, error)
            if not has_started:
                await response(scope, receive, send)


async def _on_http_exception(request: Request, error: Exception) -> Response:
    exception = cast(HTTPException, error)
    status, headers = exception.status_code, exception.headers
    phrase = HTTPStatus(status).phrase if status in set(HTTPStatus) else "Error"
    detail = str(exception.detail or phrase)
    if status == HTTPStatus.NOT_FOUND and detail == phrase:
        detail = "nothing is served at this path"
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        headers = {**(headers or {}), "Allow": ", ".join(_methods_of(request))}
        detail = f"this path takes {headers['Allow']}"
    kind = ProblemKind(status, re.sub(r"[^a-z]+", "-", phrase.lower()), phrase)
    return problem_response(request.scope, kind, detail=detail, headers=headers)


def _methods_of(request: Request) -> list[str]:
    """Return the methods of all routes at the path; the exception has those of the first (RFC 9110, section 10.2.1)."""
    routes = request.app.router.routes
    return [
        method
        for method in _METHODS
        if any(route.matches({**request.scope, "method": method})[0] is Match.FULL for route in routes)
    ]


async def _on_validation_error(request: Request, error: Exception) -> Response:
    invalid = cast(RequestValidationError, error)
    body_field = getattr(request.scope.get("route"), "body_field", None)
    annotation = body_field.field_info.annotation if body_field else None
    return invalid_response(request.scope, invalid, annotation)


async def _on_plumbline_error(request: Request, error: Exception) -> Response:
    return error_response(request.scope, cast(PlumblineError, error))


async def _on_exception(request: Request, error: Exception) -> Response:
    return failure_response(request.scope, error)


def _document_problems(app: FastAPI) -> None:
    problem_schema = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    add_schemas(app, {**problem_schema.pop("$defs"), "Problem": problem_schema})
