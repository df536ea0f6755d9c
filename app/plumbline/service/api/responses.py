"""Choice of form and language, and responses that stream with backpressure."""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Annotated, Final, TypeVar

from fastapi import Depends, Query
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from plumbline.ground.concurrency import end_tasks
from plumbline.ground.texts import Language

JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"
CSV: Final = "text/csv"
PROBLEM_MEDIA_TYPE: Final = "application/problem+json"
# Browsers name the one that is wanted most first.
_LANGUAGE: Final = re.compile(r"(?:(?<![^,\s])(?:zh|en)(?![^\-,;\s]))|\*")


class BackpressureResponse(Response):
    """A streaming response with backpressure: each piece is sent before the next is made.

    When the client disconnects, the pieces are closed before the request ends. Starlette's own streaming response
    leaves that to the garbage collector if the client disconnects while a piece is being sent.
    """

    def __init__(self, pieces: Callable[[], AsyncGenerator[bytes, None]], media_type: str) -> None:
        # nginx would buffer the pieces
        super().__init__(media_type=media_type, headers={"X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.create_task(self._send(send))
        disconnected = asyncio.create_task(_disconnect(receive))
        try:
            await asyncio.wait({sending, disconnected}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            is_sent = sending.done()
            await end_tasks([sending, disconnected])
        if is_sent:
            # raise what the pieces raised
            sending.result()

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async with aclosing(self._pieces()) as pieces:
            async for piece in pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


F = TypeVar("F", bound=str)


def choose_format(accept: Sequence[str], media_types: Mapping[F, str], named: F | None) -> F:
    """Return one of the formats: by its name, else the first one that the Accept headers name, else the first."""
    taken = [each.partition(";")[0].strip().lower() for each in ",".join(accept).split(",")]
    order = list(media_types)
    wanted = [each for each in order if media_types[each] in taken]
    return named or min(wanted, key=lambda each: taken.index(media_types[each]), default=order[0])


def name_language(request: HTTPConnection) -> Language | None:
    """Return the language of `?lang=`, else the first one of ours in `Accept-Language`; None without either."""
    headers = request.headers
    if not request.scope["query_string"] and "accept-language" not in headers:
        return None
    for language in ("en", "zh"):
        if request.query_params.get("lang") == language:
            return language
    found = _LANGUAGE.search(headers.get("accept-language", "").lower())
    return None if found is None else "zh" if found[0] == "zh" else "en"


def choose_language(request: HTTPConnection) -> Language:
    return name_language(request) or "en"


LANGUAGE: Final = (
    "Language of our texts in the answer (reasons, warnings, problems); default: by `Accept-Language`, else that of "
    "the answer for results and English for problems."
)
# Of texts in an answer that is no result.
LanguageDep = Annotated[Language, Depends(choose_language)]


async def document_language(lang: Annotated[Language | None, Query(description=LANGUAGE)] = None) -> None:
    """Check `lang` as a dependency of routes, so that it is in their OpenAPI document; `name_language` reads it."""
