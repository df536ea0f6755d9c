"""Every failure as RFC 9457 `application/problem+json`, and the boundary that no exception text crosses."""

import asyncio
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final, cast, get_args
from urllib.parse import quote

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from plumbline.ground import errors
from plumbline.ground.telemetry import log_failure
from plumbline.ground.texts import CodedText, coded_members
from plumbline.schemas.language import render_problem
from plumbline.schemas.problem import (
    FAILURE_DETAIL,
    INTERNAL,
    MOST_FIELD_PROBLEMS,
    VALIDATION,
    FieldProblem,
    Problem,
    ProblemKind,
    count_problems,
    describe_invalid,
)
from plumbline.service.api.openapi import DOCUMENTS, SCHEMA_REFERENCE, add_schemas, reference
from plumbline.service.api.responses import PROBLEM_MEDIA_TYPE, choose_language

MAX_PROBLEM_BYTES = 16_000
_MAX_DETAIL_CHARACTERS = 600
_MAX_INSTANCE_CHARACTERS = 200
# 20 field problems of this size and the rest of a problem stay far below 16 kB.
_MAX_POINTER_CHARACTERS = 160
_MAX_FIELD_DETAIL_CHARACTERS = 240
_MAX_NAME_CHARACTERS = 64
_METHODS: Final = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE")
# A 503 keeps its own text: the operator can mend it, and the caller can try again.
_HEADERS: Mapping[int, Mapping[str, str]] = MappingProxyType(
    {HTTPStatus.UNAUTHORIZED: {"WWW-Authenticate": "Bearer"}, HTTPStatus.SERVICE_UNAVAILABLE: {"Retry-After": "5"}}
)

KIND_BY_ERROR: Mapping[type[errors.PlumblineError], ProblemKind] = MappingProxyType(
    {
        errors.PlumblineError: INTERNAL,
        errors.BadRequest: ProblemKind(400, "bad-request"),
        errors.MalformedBody: ProblemKind(400, "malformed-body"),
        errors.InvalidInput: ProblemKind(422, "invalid-input"),
        errors.ClientOutdated: ProblemKind(400, "client-outdated"),
        errors.UnsupportedBody: ProblemKind(415, "unsupported-body"),
        errors.BodyTooLarge: ProblemKind(413, "body-too-large"),
        errors.FileTooLarge: ProblemKind(413, "file-too-large"),
        errors.BodyTooSlow: ProblemKind(408, "body-too-slow"),
        errors.JobRefused: ProblemKind(409, "job-refused"),
        errors.JobUnknown: ProblemKind(404, "job-unknown"),
        errors.JobStateConflict: ProblemKind(409, "job-state"),
        errors.IdempotencyConflict: ProblemKind(422, "idempotency-key-reused"),
        errors.StoreUnavailable: ProblemKind(503, "store-unavailable"),
        errors.TooBusy: ProblemKind(503, "too-busy"),
        errors.Ending: ProblemKind(503, "ending"),
        errors.AccessDenied: ProblemKind(401, "access-denied"),
        errors.KeyMissing: ProblemKind(401, "key-missing"),
        errors.KeyUnknown: ProblemKind(401, "key-unknown"),
        errors.KeyExpired: ProblemKind(401, "key-expired"),
        errors.ScopeMissing: ProblemKind(403, "scope-missing"),
        errors.ConcurrencyExceeded: ProblemKind(429, "concurrency-exceeded"),
        errors.Locked: ProblemKind(401, "locked"),
    }
)


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the `responses=` of a route that documents its problems; needs `install_problem_handlers`."""
    content = {PROBLEM_MEDIA_TYPE: {"schema": reference("Problem")}}
    return {
        status: {
            "description": HTTPStatus(status).phrase,
            "content": content,
            **DOCUMENTS["problems"].get(str(status), {}),
        }
        for status in statuses
    }


# Of a route that takes a body and needs a key.
PROBLEM_RESPONSES: dict[int | str, dict[str, Any]] = problem_responses(400, 401, 403, 408, 413, 415, 422, 429, 500, 503)


def install_problem_handlers(app: FastAPI) -> None:
    """Turn every failure of the app into a problem, and add the schema to its OpenAPI document."""
    app.add_exception_handler(HTTPException, _on_http_exception)
    app.add_exception_handler(RequestValidationError, _on_validation_error)
    app.add_exception_handler(errors.PlumblineError, _on_plumbline_error)
    add_schemas(app, _problem_schemas)


def _problem_schemas() -> dict[str, Any]:
    schema = Problem.model_json_schema(ref_template=SCHEMA_REFERENCE)
    return {**schema.pop("$defs"), "Problem": schema}


def kind_of(error_class: type[errors.PlumblineError]) -> ProblemKind:
    return next(KIND_BY_ERROR[ancestor] for ancestor in error_class.__mro__ if ancestor in KIND_BY_ERROR)


def error_response(scope: Scope, error: errors.PlumblineError) -> Response:
    """Return the response to a declared error: its own text below 500 and for 503, else a logged generic one."""
    kind = kind_of(type(error))
    if kind.status >= INTERNAL.status and kind.status not in _HEADERS:
        return failure_response(scope, error)
    headers = dict(_HEADERS.get(kind.status, {}))
    if isinstance(error, errors.ConcurrencyExceeded | errors.TooBusy) and error.retry_after_seconds is not None:
        headers["Retry-After"] = str(max(1, math.ceil(error.retry_after_seconds)))
    return problem_response(scope, kind, detail=error.text, headers=headers)


def failure_response(scope: Scope, error: Exception) -> Response:
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
    """Return a problem in the caller's language, in less than 16,000 bytes; `errors` that do not fit are left out."""
    problem = Problem(
        type=kind.urn,
        title=kind.title,
        status=kind.status,
        **coded_members("detail", _cut(detail, _MAX_DETAIL_CHARACTERS)),
        instance=quote(scope["path"], errors="replace")[:_MAX_INSTANCE_CHARACTERS],
        request_id=request_id_of(scope),
        errors=list(errors),
    )
    document = problem.model_dump()
    render_problem(document, choose_language(HTTPConnection(scope)))
    # json.dumps and not pydantic: it escapes what UTF-8 cannot hold, pydantic raises
    body = json.dumps(document).encode("ascii")
    if len(body) >= MAX_PROBLEM_BYTES and errors:
        return problem_response(scope, kind, detail=detail, errors=errors[: len(errors) // 2], headers=headers)
    return Response(body, kind.status, headers, PROBLEM_MEDIA_TYPE)


def invalid_response(scope: Scope, error: RequestValidationError, annotation: object) -> Response:
    """Return the response to a request that does not validate; `annotation`: the type of its body, to suggest names."""
    errors = field_problems(error, annotation)
    return problem_response(
        scope, VALIDATION, detail=count_problems(len(error.errors()), CodedText("whole_request")), errors=errors
    )


def request_id_of(scope: Scope) -> str | None:
    return cast(str | None, scope.get("state", {}).get("request_id"))


class ErrorBoundary:
    """ASGI middleware from which no exception escapes, so that no server prints its message.

    Answers with a generic problem; once the response has started it only returns, and the server cuts the connection.
    A request that is cancelled at shutdown is answered 503.
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
                response = error_response(scope, errors.Ending(CodedText("not_handled")))
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
        detail = CodedText("nothing_at_path")
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        # the exception has the methods of the first route at the path only (RFC 9110, section 10.2.1)
        routes = request.app.router.routes
        allowed = [
            method
            for method in _METHODS
            if any(route.matches({**request.scope, "method": method})[0] is Match.FULL for route in routes)
        ]
        headers = {**(headers or {}), "Allow": ", ".join(allowed)}
        detail = CodedText("path_takes", methods=headers["Allow"])
    kind = ProblemKind(status, re.sub(r"[^a-z]+", "-", phrase.lower()))
    return problem_response(request.scope, kind, detail=detail, headers=headers)


async def _on_validation_error(request: Request, error: Exception) -> Response:
    invalid = cast(RequestValidationError, error)
    body_field = getattr(request.scope.get("route"), "body_field", None)
    annotation = body_field.field_info.annotation if body_field else None
    return invalid_response(request.scope, invalid, annotation)


async def _on_plumbline_error(request: Request, error: Exception) -> Response:
    return error_response(request.scope, cast(errors.PlumblineError, error))


def field_problems(error: RequestValidationError, body_annotation: object) -> list[FieldProblem]:
    """Return the first problems of a validation error, at most 20, each once.

    The text of a `ValueError` raised in a validator is not shown, because it may quote the value; raise
    `PydanticCustomError` instead. `body_annotation`: the type of the body, to suggest names for unknown fields.
    """
    problems = (_field_problem(item, error.body, body_annotation) for item in error.errors()[:MOST_FIELD_PROBLEMS])
    return list({(each.pointer, each.detail): each for each in problems}.values())


def printable(name: object) -> str:
    text = ascii(str(name)[: _MAX_NAME_CHARACTERS + 1])[1:-1]
    return text if len(text) <= _MAX_NAME_CHARACTERS else text[: _MAX_NAME_CHARACTERS - 3] + "..."


def json_pointer(path: Sequence[str | int]) -> str:
    """Return the RFC 6901 pointer of a path, its names made printable; cut at 160 characters."""
    pointer = "".join("/" + printable(part).replace("~", "~0").replace("/", "~1") for part in path)
    return _cut(pointer, _MAX_POINTER_CHARACTERS)


def _field_problem(item: Mapping[str, Any], body: object, body_annotation: object) -> FieldProblem:
    place, *rest = item["loc"] or ("body",)
    path = list(_path_in_body(rest, body, is_missing=item["type"] == "missing"))
    is_unknown = item["type"] == "extra_forbidden" and path
    detail = _unknown_field(path[-1], body_annotation) if is_unknown else describe_invalid(item)
    pointer = json_pointer(path)
    if place != "body":
        name, pointer = printable(rest[0] if rest else ""), ""
        # A parameter may hold JSON, of which the body says the form
        if path[1:]:
            within = json_pointer(path[1:])
            detail = CodedText("parameter_says_at", kind=place, name=name, pointer=within, flaw=detail)
        else:
            detail = CodedText("parameter_says", kind=place, name=name, flaw=detail)
    return FieldProblem(pointer=pointer, **coded_members("detail", _cut(detail, _MAX_FIELD_DETAIL_CHARACTERS)))


def _path_in_body(location: Sequence[str | int], body: object, *, is_missing: bool) -> Iterator[str | int]:
    here = body
    for index, part in enumerate(location):
        is_key = isinstance(here, dict) and part in here
        is_index = isinstance(here, list) and isinstance(part, int) and part < len(here)
        if is_key or is_index:
            here = cast(Any, here)[part]
            yield part
        elif is_missing and index == len(location) - 1:
            yield part
        # anything else is the tag of a union or the name of a validator


def _unknown_field(name: str | int, body_annotation: object) -> str:
    shown = printable(name)
    close = get_close_matches(shown, sorted(_field_names(body_annotation)), n=1)
    if close:
        return CodedText("unknown_field_like", name=shown, other=close[0])
    return CodedText("unknown_field", name=shown)


def _field_names(annotation: Any) -> set[str]:
    if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
        return set[str]().union(*map(_field_names, get_args(annotation)))
    fields = annotation.model_fields
    inner = (_field_names(field.annotation) for field in fields.values())
    return {field.alias or name for name, field in fields.items()}.union(*inner)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 3] + "..."
