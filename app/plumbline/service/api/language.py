"""The caller's language as a parameter of routes and a header of answers."""

from typing import Annotated, Final

from fastapi import Depends, Query
from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from plumbline.ground.texts import Language
from plumbline.service.api.edge import is_under_v1
from plumbline.service.api.responses import JSON, choose_language

LANGUAGE: Final = (
    "Language of our texts in the answer (reasons, warnings, problems); default: by `Accept-Language`, else that of "
    "the answer for results and English for problems."
)


async def document_language(lang: Annotated[Language | None, Query(description=LANGUAGE)] = None) -> None:
    """Check `lang` as a dependency of routes, so that it is in their OpenAPI document; `name_language` reads it."""


# Of texts in an answer that is no result.
LanguageDep = Annotated[Language, Depends(choose_language)]


class MarkLanguage:
    """ASGI middleware: names the language of JSON under /v1, whose texts the routes render in it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or choose_language(HTTPConnection(scope)) == "en":
            await self._app(scope, receive, send)
            return

        async def send_named(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                kind = headers.get("content-type", "")
                if kind.startswith(JSON) and scope["method"] != "HEAD" and is_under_v1(scope):
                    headers["Content-Language"] = "zh"
                    headers.add_vary_header("Accept-Language")
            await send(message)

        await self._app(scope, receive, send_named)
