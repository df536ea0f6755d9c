"""Who may call: holders of a key for the route, or, where there are no keys, loopback alone."""

import re
from collections.abc import Awaitable, Callable
from typing import Annotated, Final

from fastapi import Request, Security
from fastapi.security import APIKeyHeader, HTTPAuthorizationCredentials, HTTPBearer
from starlette.requests import HTTPConnection

from plumbline.ground.errors import KeyMissing, Locked, ScopeMissing
from plumbline.service.access.access import Access, is_loopback
from plumbline.service.access.keys import AccessKey, Scope

_SAID_OF_KEYS: Final = (
    "A key has scopes (403 without the one of the route), and may have limits: requests a minute, requests under way, "
    "tokens and money a day. Beyond them the answer is 429 and says when there is more. Jobs, results and kept "
    "verdicts are a key's own."
)
_BEARER = HTTPBearer(
    scheme_name="bearer", description=f"`Authorization: Bearer <key>`. {_SAID_OF_KEYS}", auto_error=False
)
_API_KEY = APIKeyHeader(
    name="X-API-Key", scheme_name="api_key", description=f"`X-API-Key: <key>`. {_SAID_OF_KEYS}", auto_error=False
)

# Operations that call judges; a key that has spent its budget may do everything else, its own results are its own.
SPENDING_OPERATIONS: Final = frozenset({"evaluate", "evaluate_batch", "submit_job", "retry_job", "resume_job"})
_HOST = re.compile(r"(\[[^\]]*\]|[^:]*)(?::[0-9]{1,5})?")
# Who sends one of these speaks for somebody else, who may be anywhere.
_FORWARDING_HEADERS = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
_CALLER: Final = "caller"

KeyCheck = Callable[..., Awaitable[None]]


class Door:
    """Knows callers by what they send.

    Attributes:
        access: keys, gate and budgets.

    Args:
        allow_anonymous: where there are no keys, callers from beyond loopback are let in too.
    """

    def __init__(self, access: Access, *, allow_anonymous: bool) -> None:
        self.access = access
        self._allow_anonymous = allow_anonymous

    def caller_of(self, connection: HTTPConnection) -> AccessKey:
        """Whose request it is.

        Raises:
            KeyMissing: there are keys, and none was sent.
            KeyUnknown, KeyExpired: none of the keys sent opens.
            Locked: there are no keys, anonymous callers are not allowed, and this one is not on loopback.
        """
        keyring = self.access.keyring
        if keyring.is_needed:
            sent = _sent_keys(connection)
            if not sent:
                raise KeyMissing("a key is needed; send 'Authorization: Bearer <key>' or 'X-API-Key: <key>'")
            return keyring.key_of(sent)
        if not self._allow_anonymous and not _is_on_loopback(connection):
            raise Locked(
                "there is no key, so only callers on this machine are served: make one with 'plumbline keys create', "
                "set PLUMBLINE_API_KEYS, or PLUMBLINE_ALLOW_ANONYMOUS=true where something in front checks callers"
            )
        return keyring.anonymous


def make_key_check(door: Door, scope: Scope) -> KeyCheck:
    """A dependency that lets a request pass or raises; OpenAPI shows its two ways to send a key.

    The dependency raises:
        KeyMissing, KeyUnknown, KeyExpired, Locked: as `Door.caller_of`, where no middleware has asked before.
        ScopeMissing: the key is not for routes of this scope.
        BudgetSpent: the operation would spend, and the key has spent its budget.
    """

    async def require_key(
        request: Request,
        bearer: Annotated[HTTPAuthorizationCredentials | None, Security(_BEARER)],
        api_key: Annotated[str | None, Security(_API_KEY)],
    ) -> None:
        caller = known_caller(request) or door.caller_of(request)
        remember_caller(request, caller)
        if scope not in caller.scopes:
            held = ", ".join(sorted(caller.scopes)) or "none"
            raise ScopeMissing(f"the scope {scope.value!r} is needed; the key has {held}")
        request.state.check_budget = lambda: door.access.check_budget(caller.tenant)
        if getattr(request.scope.get("route"), "operation_id", None) in SPENDING_OPERATIONS:
            request.state.check_budget()

    return require_key


def remember_caller(connection: HTTPConnection, caller: AccessKey) -> None:
    """Notes whose request it is, for whoever comes later."""
    setattr(connection.state, _CALLER, caller)


def known_caller(connection: HTTPConnection) -> AccessKey | None:
    """Whose request it is, once that was found out."""
    return getattr(connection.state, _CALLER, None)


def tenant_of(request: Request) -> str:
    """Whose request it is: the tenant of its key, empty where none is needed. After the key was checked."""
    caller = known_caller(request)
    return "" if caller is None else caller.tenant


def budget_check_of(request: Request) -> Callable[[], None]:
    """Raises BudgetSpent once the key has spent its budget: for answers that go on spending. After `tenant_of`."""
    check: Callable[[], None] = getattr(request.state, "check_budget", lambda: None)
    return check


def _sent_keys(connection: HTTPConnection) -> list[bytes]:
    scheme, _, credentials = connection.headers.get("authorization", "").partition(" ")
    bearer = credentials.strip() if scheme.lower() == "bearer" else ""
    # Headers arrive decoded as latin-1.
    return [key.encode("latin-1", "replace") for key in (bearer, connection.headers.get("x-api-key", "")) if key]


def _is_on_loopback(connection: HTTPConnection) -> bool:
    """Whether the connection ends on loopback, the caller sent it to a loopback name and nobody forwarded it.

    A page on the internet can point its own name at 127.0.0.1 (DNS rebinding); its Host header gives it away.
    """
    server = connection.scope.get("server")
    hosts = connection.headers.getlist("host")
    is_forwarded = any(name in connection.headers for name in _FORWARDING_HEADERS)
    if not server or len(hosts) != 1 or is_forwarded:
        return False
    match = _HOST.fullmatch(hosts[0])
    return match is not None and is_loopback(match[1]) and is_loopback(server[0])
