"""Who may call: one of the configured keys, or, when there is none, loopback alone."""

import hashlib
import hmac
import re
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv6Address, ip_address
from typing import Annotated

from fastapi import Request, Security
from fastapi.security import APIKeyHeader, HTTPAuthorizationCredentials, HTTPBearer
from pydantic import SecretStr

from app.errors import KeyMissing, KeyUnknown, Locked

_BEARER = HTTPBearer(scheme_name="bearer", description="`Authorization: Bearer <key>`", auto_error=False)
_API_KEY = APIKeyHeader(name="X-API-Key", scheme_name="api_key", description="`X-API-Key: <key>`", auto_error=False)

_HOST = re.compile(r"(\[[^\]]*\]|[^:]*)(?::[0-9]{1,5})?")
# Who sends one of these speaks for somebody else, who may be anywhere.
_FORWARDING_HEADERS = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip")

KeyCheck = Callable[..., Awaitable[None]]


def make_key_check(keys: Sequence[SecretStr], allow_anonymous: bool) -> KeyCheck:
    """A dependency that lets a request pass or raises; OpenAPI shows its two ways to send a key.

    The dependency raises:
        KeyMissing: keys are configured and none was sent.
        KeyUnknown: none of the keys sent is configured.
        Locked: no key is configured, anonymous callers are not allowed, and this one is not on loopback.
    """
    digests = [hashlib.sha256(key.get_secret_value().encode()).digest() for key in keys]

    async def require_key(
        request: Request,
        bearer: Annotated[HTTPAuthorizationCredentials | None, Security(_BEARER)],
        api_key: Annotated[str | None, Security(_API_KEY)],
    ) -> None:
        if digests:
            request.state.tenant = _check_keys(
                [key for key in (bearer and bearer.credentials, api_key) if key], digests
            )
        elif not allow_anonymous and not _is_on_loopback(request):
            raise Locked(
                "no key is configured, so only callers on this machine are served: "
                "set PLUMBLINE_API_KEYS, or PLUMBLINE_ALLOW_ANONYMOUS=true where something in front checks callers"
            )

    return require_key


def _check_keys(sent: Sequence[str], digests: Sequence[bytes]) -> str:
    """Whose key it is, as the key's digest."""
    if not sent:
        raise KeyMissing("a key is needed; send 'Authorization: Bearer <key>' or 'X-API-Key: <key>'")
    # Headers arrive decoded as latin-1. Digests have one length, and none is skipped: time tells nothing.
    sent_digests = [hashlib.sha256(key.encode("latin-1", "replace")).digest() for key in sent]
    matches = [digest for sent_digest in sent_digests for digest in digests if hmac.compare_digest(sent_digest, digest)]
    if not matches:
        raise KeyUnknown("the key that was sent is not one of those configured")
    return matches[0].hex()


def tenant_of(request: Request) -> str:
    """Whose request it is: the digest of its key, empty where none is needed. After the key was checked."""
    return str(getattr(request.state, "tenant", ""))


def _is_on_loopback(request: Request) -> bool:
    """Whether the connection ends on loopback, the caller sent it to a loopback name and nobody forwarded it.

    A page on the internet can point its own name at 127.0.0.1 (DNS rebinding); its Host header gives it away.
    """
    server = request.scope.get("server")
    hosts = request.headers.getlist("host")
    is_forwarded = any(name in request.headers for name in _FORWARDING_HEADERS)
    if not server or len(hosts) != 1 or is_forwarded:
        return False
    match = _HOST.fullmatch(hosts[0])
    return match is not None and _names_loopback(match[1]) and _names_loopback(server[0])


def _names_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        address = ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback
