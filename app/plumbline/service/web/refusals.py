"""Failures of pages as pages, and the page that takes a key and keeps it in a cookie."""

import json
from typing import Any, Final

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from plumbline.ground.errors import BadRequest
from plumbline.ground.settings import Settings
from plumbline.ground.texts import CodedText
from plumbline.service.access.access import Access
from plumbline.service.api.edge import path_of
from plumbline.service.api.responses import PROBLEM_MEDIA_TYPE
from plumbline.service.web.pages import (
    KEY_PATH,
    is_page,
    link,
    refuse_other_origins,
    render_page,
    set_key_cookie,
)

_UNAUTHORIZED: Final = 401
# The cookie of the key goes with links within a site alone; those from elsewhere arrive without it.
_FROM_ELSEWHERE: Final = frozenset({"cross-site", "same-site"})


class ProblemPages:
    """ASGI middleware: renders `application/problem+json` of a page's path as a page, for callers that take HTML.

    Where a key is missing the page asks for it; a link from another site first loads the page once more, with the
    cookie.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not is_page(scope):
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        takes_html = "text/html" in request.headers.get("accept", "")
        start: Message | None = None
        body = bytearray()

        async def send_page(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start" and takes_html and _is_problem(message):
                start = message
            elif start is None:
                await send(message)
            elif message["type"] == "http.response.body":
                body.extend(message.get("body", b""))
                if not message.get("more_body", False):
                    await self._send_page(request, start, bytes(body), receive, send)

        await self._app(scope, receive, send_page)

    async def _send_page(self, request: Request, start: Message, body: bytes, receive: Receive, send: Send) -> None:
        problem: dict[str, Any] = json.loads(body)
        needs_key = start["status"] == _UNAUTHORIZED
        is_from_elsewhere = request.headers.get("sec-fetch-site") in _FROM_ELSEWHERE
        page = render_page(
            request,
            "refused.html",
            status=start["status"],
            problem=problem,
            kind=str(problem["type"]).rpartition(":")[2],
            needs_key=needs_key,
            reload=link(request, path_of(request.scope), **request.query_params)
            if needs_key and is_from_elsewhere and request.method == "GET"
            else None,
            next_path=link(request, path_of(request.scope), **request.query_params) if request.method == "GET" else "/",
        )
        ours = {name.lower() for name, _ in page.raw_headers} | {b"content-length"}
        kept = [(name, value) for name, value in start["headers"] if name.lower() not in ours]
        page.raw_headers = [*page.raw_headers, *kept]
        await page(request.scope, receive, send)


def _is_problem(message: Message) -> bool:
    return any(
        name.lower() == b"content-type" and value.startswith(PROBLEM_MEDIA_TYPE.encode())
        for name, value in message["headers"]
    )


_SEE_OTHER = 303
_MOST_FIELDS = 4


def key_routes(settings: Settings, access: Access) -> APIRouter:
    router = APIRouter(include_in_schema=False)
    is_secure = (settings.public_url or "").startswith("https:")

    @router.get(KEY_PATH)
    async def show_key_page(request: Request) -> Response:
        return render_page(request, "key.html", next_path=link(request, "/"))

    @router.post(KEY_PATH, dependencies=[Depends(refuse_other_origins)])
    async def take_key(request: Request) -> Response:
        sent = await request.form(max_files=0, max_fields=_MOST_FIELDS)
        key = "" if "forget" in sent else str(sent.get("key", "")).strip()
        if not key and "forget" not in sent:
            raise BadRequest(CodedText("form_holds_no_key"))
        if key:
            access.keyring.key_of([key.encode()])
        following = str(sent.get("next", ""))
        # Of this service alone: `//host` is another one.
        is_ours = following.startswith("/") and following[1:2] not in ("/", "\\")
        response = RedirectResponse(
            following if is_ours and key else link(request, KEY_PATH if not key else "/"), _SEE_OTHER
        )
        set_key_cookie(request, response, key, is_secure=is_secure)
        return response

    return router
