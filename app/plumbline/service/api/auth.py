"""Authentication, scopes and admission under /v1: an API key, or loopback where there are no keys."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Final
from urllib.parse import urlsplit

import structlog
from fastapi import Request, Security
from fastapi.security import APIKeyHeader, HTTPAuthorizationCredentials, HTTPBearer
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as AsgiScope

from plumbline.ground.errors import ClientOutdated, KeyMissing, KeyUnknown, Locked, PlumblineError, ScopeMissing
from plumbline.ground.proxies import is_loopback
from plumbline.ground.texts import CodedText
from plumbline.ground.version import VERSION
from plumbline.service.access.access import Access, RequestLoad, WrongKeys
from plumbline.service.access.keys import AccessKey, Scope
from plumbline.service.api.body_stream import CONTENT_LENGTH, RequestBody
from plumbline.service.api.edge import is_under_v1
from plumbline.service.api.problems import error_response

_SAID_OF_KEYS: Final = (
    "A key has scopes (403 without the one of the route), and may have a limit on concurrent requests; beyond it the "
    "answer is 429 with `Retry-After`. Jobs, results and cached verdicts belong to their key."
)
_BEARER = HTTPBearer(
    scheme_name="bearer", description=f"`Authorization: Bearer <key>`. {_SAID_OF_KEYS}", auto_error=False
)
_API_KEY = APIKeyHeader(
    name="X-API-Key", scheme_name="api_key", description=f"`X-API-Key: <key>`. {_SAID_OF_KEYS}", auto_error=False
)

_HOST = re.compile(r"(\[[^\]]*\]|[^:]*)(?::[0-9]{1,5})?")
# Its results were flat.
_OLD_CLIENT = re.compile(r"plumbline/(0\.[12]\.[0-9a-z.]+)")
# A request with one of these comes from a proxy; so does one with a header of `x-forwarded-`.
_FORWARDING_HEADERS = frozenset({"forwarded", "via", "x-real-ip", "x-original-host", "x-client-ip", "cf-connecting-ip"})


@dataclass(eq=False)
class Authenticator:
    """Identifies callers by their API key.

    Args:
        allow_anonymous: allow callers from beyond loopback if no keys are configured.
        more_keys: returns the keys that a request holds outside of its headers for keys.
    """

    access: Access
    _: KW_ONLY
    allow_anonymous: bool
    more_keys: Callable[[HTTPConnection], list[bytes]] = lambda _: []

    def caller_of(self, connection: HTTPConnection) -> AccessKey:
        """Return the caller of a request.

        Raises:
            KeyMissing: a key is required, and none was sent.
            KeyUnknown, KeyExpired: no key that was sent is valid.
            Locked: there are no keys, anonymous callers are not allowed, and this one is not on loopback.
        """
        keyring = self.access.keyring
        if keyring.is_needed:
            sent = _sent_keys(connection) or self.more_keys(connection)
            if not sent:
                raise KeyMissing(CodedText("key_missing"))
            return keyring.key_of(sent)
        if not self.allow_anonymous and not _is_on_loopback(connection):
            raise Locked(CodedText("no_key_configured"))
        return keyring.anonymous

    def is_operator(self, connection: HTTPConnection) -> bool:
        """Return True for callers on this machine, not through a proxy, and for keys with the scope `admin`."""
        if _is_on_loopback(connection):
            return True
        try:
            return self.access.keyring.is_needed and Scope.ADMIN in self.caller_of(connection).scopes
        except PlumblineError:
            return False


def make_key_check(authenticator: Authenticator, scope: Scope) -> Callable[..., Awaitable[None]]:
    """Return a dependency that checks key and scope, shown in OpenAPI; raises as `caller_of`, and ScopeMissing."""

    async def require_key(
        request: Request,
        bearer: Annotated[HTTPAuthorizationCredentials | None, Security(_BEARER)],
        api_key: Annotated[str | None, Security(_API_KEY)],
    ) -> None:
        caller: AccessKey = getattr(request.state, "caller", None) or authenticator.caller_of(request)
        request.state.caller = caller
        if scope not in caller.scopes:
            held = tuple(sorted(caller.scopes)) or "none"
            raise ScopeMissing(CodedText("scope_missing", scope=scope.value, scopes=held))

    return require_key


def tenant_of(request: Request) -> str:
    """Return the tenant of the request's key, empty if none is needed. Call it after the key check."""
    caller: AccessKey | None = getattr(request.state, "caller", None)
    return "" if caller is None else caller.tenant


def _sent_keys(connection: HTTPConnection) -> list[bytes]:
    scheme, _, credentials = connection.headers.get("authorization", "").partition(" ")
    bearer = credentials.strip() if scheme.lower() == "bearer" else ""
    # Headers arrive decoded as latin-1.
    return [key.encode("latin-1", "replace") for key in (bearer, connection.headers.get("x-api-key", "")) if key]


def _is_on_loopback(connection: HTTPConnection) -> bool:
    """Return True if the request came over loopback, to a loopback host name, and not through a proxy.

    A page on the internet can point its own name at 127.0.0.1 (DNS rebinding); its Host header gives it away. nginx as
    it is set by default sends Host 127.0.0.1 and no header of its own, but HTTP/1.0; one that is set to speak 1.1
    and nothing else cannot be known, which is why the start warns of it.
    """
    server = connection.scope.get("server")
    hosts = connection.headers.getlist("host")
    is_forwarded = connection.scope.get("http_version") == "1.0" or any(
        name in _FORWARDING_HEADERS or name.startswith("x-forwarded-") for name in connection.headers
    )
    if not server or len(hosts) != 1 or is_forwarded:
        return False
    match = _HOST.fullmatch(hosts[0])
    return match is not None and is_loopback(match[1]) and is_loopback(server[0])


class Admission:
    """ASGI middleware: admit requests under /v1 and of pages by key and limits, before any of the body is read."""

    def __init__(
        self,
        app: ASGIApp,
        authenticator: Authenticator,
        is_page: Callable[[AsgiScope], bool] = lambda _: False,
        is_about_jobs: Callable[[AsgiScope], bool] = lambda _: False,
        has_deadline: Callable[[AsgiScope], bool] = lambda _: False,
    ) -> None:
        self._app = app
        self._authenticator = authenticator
        self._is_page = is_page
        self._is_about_jobs = is_about_jobs
        self._has_deadline = has_deadline
        self._wrong_keys = WrongKeys()

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not (is_under_v1(scope) or self._is_page(scope)):
            await self._app(scope, receive, send)
            return
        connection, gate = HTTPConnection(scope), self._authenticator.access.gate
        is_about_jobs = self._is_about_jobs(scope)
        # The body of a job's upload is stored as it arrives.
        body_bytes = 0 if is_about_jobs else _declared_bytes(connection)
        load = RequestLoad(body_bytes, is_about_jobs, self._has_deadline(scope))
        try:
            caller = self._authenticator.caller_of(connection)
            if (old := _OLD_CLIENT.match(connection.headers.get("user-agent", ""))) is not None:
                raise ClientOutdated(CodedText("client_outdated", service=VERSION, client=old[1]))
            gate.enter(caller, load)
        except PlumblineError as error:
            if isinstance(error, KeyUnknown):
                await asyncio.sleep(self._wrong_keys.pause_seconds(connection.client.host if connection.client else ""))
            response = error_response(scope, error)
            await response(scope, receive, RequestBody(scope, receive, send).send)
            return
        connection.state.caller = caller
        try:
            with structlog.contextvars.bound_contextvars(key=caller.name):
                await self._app(scope, receive, send)
        finally:
            gate.leave(caller, load)


def _declared_bytes(connection: HTTPConnection) -> int:
    """Return the length of the body, 0 where it is not known before it has arrived or is checked later."""
    match = CONTENT_LENGTH.fullmatch(connection.headers.get("content-length", ""))
    return int(match[1]) if match else 0


def is_from_another_origin(request: Request) -> bool:
    origin = request.headers.get("origin")
    return origin is not None and urlsplit(origin).netloc != request.headers.get("host")
