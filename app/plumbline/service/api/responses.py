"""Negotiation of form and language, and responses that stream with backpressure."""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Final, TypeVar

from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from plumbline.ground.concurrency import end_tasks
from plumbline.ground.errors import NotAcceptable
from plumbline.ground.texts import CodedText, Language

JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"
CSV: Final = "text/csv"
PROBLEM_MEDIA_TYPE: Final = "application/problem+json"
_REGION: Final = re.compile("-[^,;]*")


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
    """Return one of two formats, by its name or by the Accept headers; raise NotAcceptable if they allow neither."""
    one, other = media_types.values()
    taken = rank_media_types(accept, [one, other])
    if not taken:
        raise NotAcceptable(CodedText("answer_is_either", one=one, other=other))
    if named is None:
        return next(each for each, media_type in media_types.items() if media_type == taken[0])
    if media_types[named] not in taken:
        raise NotAcceptable(CodedText("format_not_taken", name=named, type=media_types[named]))
    return named


_WEIGHT = re.compile(r"q=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)", re.IGNORECASE)
_MAX_RANGES = 50


def rank_media_types(accept_headers: Sequence[str], media_types: Sequence[str]) -> list[str]:
    """Return the media types that the Accept headers allow, most wanted first (RFC 9110, section 12.5.1).

    Without a header, all of them in the order given. Of equal weight, a named type comes before a wildcard's.
    """
    ranges: list[tuple[str, float]] = []
    for part in ",".join(accept_headers).split(",")[:_MAX_RANGES]:
        media_range, *parameters = (each.strip().lower() for each in part.split(";"))
        if part.strip():
            weights = [found[1] for each in parameters if (found := _WEIGHT.fullmatch(each))]
            ranges.append((media_range, float(weights[0]) if weights else 1.0))
    if not ranges:
        return list(media_types)
    ranked = [(_weight(media_type, ranges), media_type) for media_type in media_types]
    taken = [each for each in ranked if each[0][0] > 0]
    return [media_type for _, media_type in sorted(taken, key=lambda each: each[0], reverse=True)]


def _weight(media_type: str, ranges: Sequence[tuple[str, float]]) -> tuple[float, bool]:
    """Return the weight of the narrowest range that covers the type, and True if the range names it."""
    for media_range in (media_type, f"{media_type.partition('/')[0]}/*", "*/*"):
        weights = [weight for each, weight in ranges if each == media_range]
        if weights:
            return max(weights), media_range == media_type
    return 0.0, False


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
