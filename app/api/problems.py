"""Every failure as RFC 9457 `application/problem+json`, and the boundary that no exception text crosses."""

import asyncio
import json
import re
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, cast
from urllib.parse import quote

import structlog
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.field_problems import MAX_FIELD_PROBLEMS, field_problems
from app.api.openapi_schemas import add_schemas
from app.errors import (
    AccessDenied,
    BadRequest,
    BodyTooLarge,
    BodyTooSlow,
    InvalidInput,
    KeyMissing,
    KeyUnknown,
    Locked,
    MalformedBody,
    NotAcceptable,
    PlumblineError,
    UnsupportedBody,
)
from app.schemas.problem import FieldProblem, Problem

PROBLEM_MEDIA_TYPE = "application/problem+json"
MAX_PROBLEM_BYTES = 16_000
FAILURE_DETAIL = "The failure was logged; quote the request id to ask about it."
_MAX_DETAIL_CHARACTERS = 600
_MAX_INSTANCE_CHARACTERS = 200
_MAX_FRAMES = 30
_MAX_CAUSES = 5

_LOG = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """One kind of problem: its HTTP status, the tail of its URN and its title."""

    status: int
    slug: str
    title: str

    @property
    def urn(self) -> str:
        """The `type` of its problems."""
        return f"urn:plumbline:problem:{self.slug}"


VALIDATION = ProblemKind(422, "validation", "The request does not validate")
INTERNAL = ProblemKind(500, "internal", "Something failed on our side")

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
        AccessDenied: ProblemKind(401, "access-denied", "Access is denied"),
        KeyMissing: ProblemKind(401, "key-missing", "A key is needed"),
        KeyUnknown: ProblemKind(401, "key-unknown", "The key is not known"),
        Locked: ProblemKind(401, "locked", "No key is configured, so only loopback may call"),
    }
)


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What a route hands to `responses=` to document its problems; needs `install_problem_handlers` for the schema."""
    reference = {"$ref": "#/components/schemas/Problem"}
    content = {PROBLEM_MEDIA_TYPE: {"schema": reference}}
    return {status: {"description": HTTPStatus(status).phrase, "content": content} for status in statuses}


# Of a route that takes a body and needs a key.
PROBLEM_RESPONSES: dict[int | str, dict[str, Any]] = problem_responses(400, 401, 408, 413, 415, 422, 500)


def install_problem_handlers(app: FastAPI) -> None:
    """Makes every failure of the app a problem and adds the schema to its OpenAPI document.

    Exceptions that nobody declared are `ErrorBoundary`'s; the handler here only serves an app without one.
    """
    app.add_exception_handler(HTTPException, _on_http_exception)
    app.add_exception_handler(RequestValidationError, _on_validation_error)
    app.add_exception_handler(PlumblineError, _on_plumbline_error)
    app.add_exception_handler(Exception, _on_exception)
    _document_problems(app)


def kind_of(error_class: type[PlumblineError]) -> ProblemKind:
    """The kind of the class or of its nearest ancestor that has one."""
    return next(KIND_BY_ERROR[ancestor] for ancestor in error_class.__mro__ if ancestor in KIND_BY_ERROR)


def error_response(scope: Scope, error: PlumblineError) -> Response:
    """The answer to a declared error: its own text below status 500, a generic one (and a log event) from there on."""
    kind = kind_of(type(error))
    if kind.status >= INTERNAL.status:
        return failure_response(scope, error)
    headers = {"WWW-Authenticate": "Bearer"} if kind.status == HTTPStatus.UNAUTHORIZED else None
    return problem_response(scope, kind, detail=str(error), headers=headers)


def failure_response(scope: Scope, error: Exception) -> Response:
    """The answer to an error of ours, which `log_failure` logs."""
    log_failure(error, "request_failed", request_id=request_id_of(scope))
    return problem_response(scope, INTERNAL, detail=FAILURE_DETAIL)


def log_failure(error: Exception, event: str, **fields: object) -> None:
    """Logs an error of ours as classes and places, never its message: that may quote a text."""
    _LOG.error(
        event,
        error=_class_name(error),
        frames=_frames(error)[-_MAX_FRAMES:],
        causes=[f"{_class_name(cause)} at {(_frames(cause) or ['?'])[-1]}" for cause in _causes(error)],
        **fields,
    )


def problem_response(
    scope: Scope,
    kind: ProblemKind,
    *,
    detail: str,
    errors: Sequence[FieldProblem] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    """A problem as a response of less than 16,000 bytes; when the field problems do not fit, fewer are listed."""
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
    """The answer to a request that does not validate; `annotation`: the type of its body, to suggest names."""
    errors = field_problems(error, annotation)
    return problem_response(scope, VALIDATION, detail=validation_detail(error, "request"), errors=errors)


def validation_detail(error: RequestValidationError, whole: str) -> str:
    """How many problems there are in the whole, and whether all are listed."""
    count = len(error.errors())
    rest = f"; the first {MAX_FIELD_PROBLEMS} follow" if count > MAX_FIELD_PROBLEMS else ""
    return f"{count} problem{'' if count == 1 else 's'} in the {whole}{rest}"


def request_id_of(scope: Scope) -> str | None:
    """The id that `RequestContext` gave the request; None outside of it."""
    return cast(str | None, scope.get("state", {}).get("request_id"))


class ErrorBoundary:
    """ASGI middleware from which no exception escapes, so that no server prints its message.

    Answers with a generic problem. When the answer has begun it returns, and the server cuts the connection.
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
    if status == HTTPStatus.METHOD_NOT_ALLOWED and headers and "Allow" in headers:
        detail = f"this path takes {headers['Allow']}"
    kind = ProblemKind(status, re.sub(r"[^a-z]+", "-", phrase.lower()), phrase)
    return problem_response(request.scope, kind, detail=detail, headers=headers)


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


def _class_name(error: BaseException) -> str:
    return f"{type(error).__module__}.{type(error).__qualname__}"


def _frames(error: BaseException) -> list[str]:
    frames = traceback.walk_tb(error.__traceback__)
    return [f"{frame.f_code.co_filename}:{line} {frame.f_code.co_qualname}" for frame, line in frames]


def _causes(error: BaseException) -> Iterator[BaseException]:
    for _ in range(_MAX_CAUSES):
        cause = error.__cause__ or error.__context__
        if cause is None and isinstance(error, BaseExceptionGroup):
            cause = error.exceptions[0]
        if cause is None:
            return
        yield cause
        error = cause
