"""The caller's language: `?lang=`, else `Accept-Language`; and answers in it."""

import re
from typing import Annotated, Final

from fastapi import Query
from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from plumbline.schemas.language import translate_json
from plumbline.schemas.report import ReportLanguage
from plumbline.service.api.edge import is_under_v1
from plumbline.service.api.problems import PROBLEM_MEDIA_TYPE
from plumbline.service.api.responses import JSON, NDJSON, rank_media_types

_LANGUAGES: Final = frozenset({"en", "zh"})
_REGION: Final = re.compile("-[^,;]*")
_TRANSLATED: Final = (JSON, NDJSON)

LANGUAGE: Final = (
    "Language of our texts in the answer (reasons, warnings, problems); default: by `Accept-Language`, else English."
)


async def document_language(lang: Annotated[ReportLanguage | None, Query(description=LANGUAGE)] = None) -> None:
    """Check `lang` as a dependency of routes, so that it is in their OpenAPI document; `choose_language` reads it."""


def choose_language(request: HTTPConnection) -> ReportLanguage:
    """Return the language of `?lang=`, else the one of ours that `Accept-Language` wants most."""
    headers = request.headers
    if not request.scope["query_string"] and "accept-language" not in headers:
        return "en"
    named = request.query_params.get("lang")
    if named in _LANGUAGES:
        return "zh" if named == "zh" else "en"
    wanted = rank_media_types([_REGION.sub("", headers.get("accept-language", ""))], ["en", "zh"])
    return "zh" if wanted[:1] == ["zh"] else "en"


class InCallersLanguage:
    """ASGI middleware: renders our texts in JSON and lines in the caller's language; English is left alone.

    Each piece of a body holds whole strings, as all our answers do.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or (language := choose_language(HTTPConnection(scope))) == "en":
            await self._app(scope, receive, send)
            return
        start: Message | None = None
        is_ours = False

        async def send_translated(message: Message) -> None:
            nonlocal start, is_ours
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                kinds = (PROBLEM_MEDIA_TYPE, *_TRANSLATED) if is_under_v1(scope) else PROBLEM_MEDIA_TYPE
                is_ours = headers.get("content-type", "").startswith(kinds) and scope["method"] != "HEAD"
                if is_ours:
                    headers["Content-Language"] = language
                    headers.add_vary_header("Accept-Language")
                    # Its length is known with the body.
                    start = message
                else:
                    await send(message)
                return
            if is_ours and message["type"] == "http.response.body":
                message = {**message, "body": translate_json(message.get("body", b""), language)}
                if start is not None:
                    headers = MutableHeaders(scope=start)
                    if "content-length" in headers:
                        headers["content-length"] = str(len(message["body"]))
                    await send(start)
                    start = None
            await send(message)

        await self._app(scope, receive, send_translated)
