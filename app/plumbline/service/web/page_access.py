"""Access to the pages: the key in a cookie that no script reads, and posts from the service's own pages alone."""

import base64
import binascii
from typing import Final

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.types import Scope

from plumbline.ground.errors import BadRequest
from plumbline.service.api.auth import is_from_another_origin

KEY_PATH: Final = "/key"
_COOKIE: Final = "plumbline_key"
_PAGES: Final = ("runs", "label")
# Browsers send it where a page's origin is trustworthy; no script can change it.
_OWN_SITES: Final = frozenset({"same-origin", "none"})


def needs_caller(scope: Scope) -> bool:
    """Return True for the pages that show or spend something of a caller."""
    first = path_of(scope).split("/")[1:2]
    return first == [""] or first[0] in _PAGES


def is_page(scope: Scope) -> bool:
    """Return True for every page, that of the key included."""
    return needs_caller(scope) or path_of(scope) == KEY_PATH


def cookie_keys(connection: HTTPConnection) -> list[bytes]:
    """Return the key in the cookie of a page's request; none for any other path, so that no form reaches the API."""
    cookie = connection.cookies.get(_COOKIE) if is_page(connection.scope) else None
    try:
        return [base64.urlsafe_b64decode(cookie + "==")] if cookie else []
    except (ValueError, binascii.Error):
        return []


def set_key_cookie(request: Request, response: Response, key: str, *, is_secure: bool) -> None:
    """Keep a key until the browser closes; an empty one forgets it. `is_secure`: the service is reached by HTTPS."""
    response.set_cookie(
        _COOKIE,
        # Without padding, which would be quoted.
        base64.urlsafe_b64encode(key.encode()).decode("ascii").rstrip("="),
        max_age=None if key else 0,
        path=request.scope.get("root_path") or "/",
        secure=is_secure or request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )


async def refuse_other_origins(request: Request) -> None:
    """Raise BadRequest unless a browser says that the form was sent by a page of this service (CSRF)."""
    site = request.headers.get("sec-fetch-site")
    is_known = site is not None or "origin" in request.headers
    if not is_known or is_from_another_origin(request) or (site or "none") not in _OWN_SITES:
        raise BadRequest("forms are read from this service's own pages alone; programs use the API under /v1")


def path_of(scope: Scope) -> str:
    """Return the path below the root of the service."""
    return str(scope["path"]).removeprefix(scope.get("root_path", ""))
