"""Choice of form and language, and responses that stream with backpressure."""

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Annotated, Final, TypeVar

from anyio import CancelScope
from fastapi import Depends, Query
from starlette.requests import HTTPConnection
from starlette.responses import StreamingResponse
from starlette.types import Send

from plumbline.ground.texts import Language

JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"
CSV: Final = "text/csv"
PROBLEM_MEDIA_TYPE: Final = "application/problem+json"
# Browsers name the one that is wanted most first.
_LANGUAGE: Final = re.compile(r"(?:(?<![^,\s])(?:zh|en)(?![^\-,;\s]))|\*")


class BackpressureResponse(StreamingResponse):
    """Starlette's streaming response, whose pieces are closed before the request ends.

    It leaves that to the garbage collector if the client disconnects while a piece is being sent.
    """

    def __init__(self, pieces: AsyncGenerator[bytes, None], media_type: str) -> None:
        # nginx would buffer the pieces
        super().__init__(pieces, media_type=media_type, headers={"X-Accel-Buffering": "no"})
        self._pieces = pieces

    async def stream_response(self, send: Send) -> None:
        try:
            await super().stream_response(send)
        finally:
            with CancelScope(shield=True):
                await self._pieces.aclose()


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
