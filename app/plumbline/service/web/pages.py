"""Pages from templates, with a strict CSP; the key in a cookie, and posts from the service's own pages alone."""

import base64
import binascii
import functools
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from jinja2 import Environment
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Scope

from plumbline.ground.errors import BadRequest
from plumbline.ground.texts import CodedText, render
from plumbline.ground.version import VERSION
from plumbline.rows.report.page import (
    HTML_LANG,
    PAGE_FILTERS,
    build_environment,
    content_security_policy,
    page_style,
)
from plumbline.rows.report.result_lines import GRAVEST_FIRST
from plumbline.rows.report.texts import load_words
from plumbline.schemas.jobs import JOBS_PATH
from plumbline.schemas.language import explain_flag, render_coded
from plumbline.schemas.report import ReportLanguage
from plumbline.service.api.auth import is_from_another_origin
from plumbline.service.api.edge import path_of
from plumbline.service.api.responses import choose_language

KEY_PATH: Final = "/key"
_COOKIE: Final = "plumbline_key"
_JOB_PAGES: Final = ("runs", "label")
# Browsers send it where a page's origin is trustworthy; no script can change it.
_OWN_SITES: Final = frozenset({"same-origin", "none"})


def needs_caller(scope: Scope) -> bool:
    path = path_of(scope)
    return path.startswith("/") and path.split("/")[1] in ("", "retrieval", *_JOB_PAGES)


def is_about_jobs(scope: Scope) -> bool:
    path = f"{path_of(scope)}/"
    return path.startswith((f"{JOBS_PATH}/", *(f"/{page}/" for page in _JOB_PAGES)))


def is_page(scope: Scope) -> bool:
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
        raise BadRequest(CodedText("own_forms_alone"))


PARTS: Final = Path(__file__).parent / "page_parts"
# Forms go to this service, and scripts ask it alone; the icon stands in the page.
_OWN_ORIGIN: Final = "connect-src 'self'; img-src data:; frame-ancestors 'none'"


def link(request: Request, path: str, **query: object) -> str:
    """Return the URL of a page, in the language that this one was asked for."""
    named = request.query_params.get("lang")
    if named in HTML_LANG:
        query.setdefault("lang", named)
    kept = {name: value for name, value in query.items() if value not in (None, "")}
    path, _, fragment = path.partition("#")
    root = request.scope.get("root_path", "")
    return f"{root}{path}" + (f"?{urlencode(kept)}" if kept else "") + (f"#{fragment}" if fragment else "")


def see_other(request: Request, path: str, **query: object) -> Response:
    """Send a browser that posted a form to a page, by GET."""
    return RedirectResponse(link(request, path, **query), HTTPStatus.SEE_OTHER)


def render_page(request: Request, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    language = choose_language(request)
    style, script = _assets()
    page = _environment().get_template(template)
    content = page.render(
        words=_words(language),
        language=language,
        said=functools.partial(render, language=language),
        coded=functools.partial(render_coded, language=language),
        explain=functools.partial(explain_flag, language=language),
        html_lang=HTML_LANG[language],
        languages=[
            (each, link(request, path_of(request.scope), **{**request.query_params, "lang": each}))
            for each in ("en", "zh")
        ],
        link=functools.partial(link, request),
        style=style,
        script=script,
        version=VERSION,
        verdict_order=GRAVEST_FIRST,
        is_keyed=request.app.state.access.keyring.is_needed,
        path=path_of(request.scope),
        language_named=request.query_params.get("lang") in HTML_LANG,
        base_url=str(request.base_url).rstrip("/"),
        **values,
    )
    headers = {
        "Content-Security-Policy": content_security_policy(style, script, form_action="'self'", more=_OWN_ORIGIN),
        "Cache-Control": "no-store",
        # Browsers send `Origin: null` with forms of pages without a referrer.
        "Referrer-Policy": "same-origin",
        "Vary": "Accept-Language, Cookie",
    }
    return HTMLResponse(content, status, headers)


@functools.cache
def _words(language: ReportLanguage) -> Mapping[str, str]:
    return {**load_words(language), **load_words(language, "service/web/page_parts")}


@functools.cache
def _assets() -> tuple[str, str]:
    style, script = ((PARTS / name).read_text(encoding="utf-8") for name in ("pages.css", "pages.js"))
    return page_style() + style, script


@functools.cache
def _environment() -> Environment:
    return build_environment(PARTS, {**PAGE_FILTERS, "percent": "{:.1%}".format})
