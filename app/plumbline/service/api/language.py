"""The caller's language: `?lang=`, else `Accept-Language`; and problems in it."""

import re
from typing import Annotated, Final

import msgspec
from fastapi import Query
from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from plumbline.ground.texts import Language
from plumbline.schemas.language import translate_problem
from plumbline.service.api.edge import is_under_v1
from plumbline.service.api.problems import PROBLEM_MEDIA_TYPE
from plumbline.service.api.responses import JSON, rank_media_types

_REGION: Final = re.compile("-[^,;]*")

LANGUAGE: Final = (
    "Language of our texts in the answer (reasons, warnings, problems); default: by `Accept-Language`, else that of "
    "the answer for results and English for problems."
)


async def document_language(lang: Annotated[Language | None, Query(description=LANGUAGE)] = None) -> None:
    """Check `lang` as a dependency of routes, so that it is in their OpenAPI document; `name_language` reads it."""


def name_language(request: HTTPConnection) -> Language | None:
    """Return the language of `?lang=`, else the one of ours that `Accept-Language` wants most; None without either."""
    headers = request.headers
    if not request.scope["query_string"] and "accept-language" not in headers:
        return None
    for language in ("en", "zh"):
        if request.query_params.get("lang") == language:
            return language
    accepted = headers.get("accept-language", "")
    wanted = rank_media_types([_REGION.sub("", accepted)], ["en", "zh"]) if accepted else []
    return "zh" if wanted[:1] == ["zh"] else "en" if wanted else None


def choose_language(request: HTTPConnection) -> Language:
    """Return the language of a page or a problem."""
    return name_language(request) or "en"


class InCallersLanguage:
    """ASGI middleware: translates problems, and texts of jobs and rankings, of whole JSON bodies into Chinese.

    Results and their streams come in the caller's language from their routes.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or choose_language(HTTPConnection(scope)) == "en":
            await self._app(scope, receive, send)
            return
        start: Message | None = None

        async def send_translated(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                kind = headers.get("content-type", "")
                if (
                    kind.startswith((PROBLEM_MEDIA_TYPE, JSON)) and scope["method"] != "HEAD" and is_under_v1(scope)
                ) or kind.startswith(PROBLEM_MEDIA_TYPE):
                    headers["Content-Language"] = "zh"
                    headers.add_vary_header("Accept-Language")
                    if "content-length" in headers:
                        # Its new length is known with the body.
                        start = message
                        return
            elif start is not None:
                document = msgspec.json.decode(message["body"]) if message.get("body") else None
                translate_problem(document, "zh")
                body = b"" if document is None else msgspec.json.encode(document)
                MutableHeaders(scope=start)["content-length"] = str(len(body))
                await send(start)
                start, message = None, {**message, "body": body}
            await send(message)

        await self._app(scope, receive, send_translated)
