"""Lets a request in or turns it away by its headers alone, before anything of its body is read."""

from typing import Final

import structlog
from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from plumbline.ground.errors import PlumblineError
from plumbline.service.access.access import Quota
from plumbline.service.api.auth import Door, remember_caller
from plumbline.service.api.body_stream import end_early
from plumbline.service.api.problems import error_response
from plumbline.service.api.rate_limit_fields import rate_limit_fields

_GUARDED: Final = "/v1"
_METHODS_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})


class Admission:
    """ASGI middleware: whoever calls under /v1 has a key and a place, as long as the answer is under way.

    Health, readiness and whatever else lies outside of /v1 is never turned away here. Answers to a key with limits say
    where it stands in them.
    """

    def __init__(self, app: ASGIApp, door: Door) -> None:
        self._app = app
        self._door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _is_guarded(scope):
            await self._app(scope, receive, send)
            return
        quotas: list[Quota] = []

        async def send_with_quotas(message: Message) -> None:
            if message["type"] == "http.response.start" and quotas:
                MutableHeaders(scope=message).update(rate_limit_fields(quotas))
            await send(message)

        connection, gate = HTTPConnection(scope), self._door.access.gate
        try:
            caller = self._door.caller_of(connection)
            gate.enter(caller, quotas)
        except PlumblineError as error:
            await _turn_away(error, scope, receive, send_with_quotas)
            return
        remember_caller(connection, caller)
        try:
            with structlog.contextvars.bound_contextvars(key=caller.name):
                await self._app(scope, receive, send_with_quotas)
        finally:
            gate.leave(caller)


async def _turn_away(error: PlumblineError, scope: Scope, receive: Receive, send: Send) -> None:
    response = error_response(scope, error)
    if scope["method"] not in _METHODS_WITH_BODY:
        await response(scope, receive, send)
        return
    # A body may be on its way: it is not read, so nothing can come behind it on this connection.
    response.headers["Connection"] = "close"
    await send({"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers})
    await end_early({"type": "http.response.body", "body": response.body}, receive, send)


def _is_guarded(scope: Scope) -> bool:
    path = str(scope["path"]).removeprefix(scope.get("root_path", ""))
    return path == _GUARDED or path.startswith(f"{_GUARDED}/")
