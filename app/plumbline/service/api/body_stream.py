"""Request bodies, read as they arrive within bounds of bytes and seconds."""

import asyncio
import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from plumbline.ground.errors import BadRequest, BodyTooLarge, BodyTooSlow, MalformedBody, UnsupportedBody
from plumbline.ground.texts import CodedText
from plumbline.service.api.problems import error_response

# Bytes of a large body that must arrive within the timeout of a small one.
PROGRESS_BYTES: Final = 16_384
# A socket closed with bytes unread is reset, and the reset can overtake the answer (RFC 9112, section 9.6).
_LINGER_SECONDS: Final = 1.0
CONTENT_LENGTH: Final = re.compile(r"0*([0-9]{1,15})")


class BodyLimit(NamedTuple):
    """Most bytes of a body, and advice for a larger one. `is_streamed`: its route stores it as it arrives."""

    max_bytes: int
    advice: str = ""
    is_streamed: bool = False

    def error(self) -> BodyTooLarge:
        if self.advice:
            return BodyTooLarge(CodedText("body_too_large_for", limit=self.max_bytes, advice=self.advice))
        return BodyTooLarge(CodedText("body_too_large", limit=self.max_bytes))


# For a body of a refused caller, which is not read.
_NOTHING: Final = BodyLimit(0)


@dataclass(eq=False)
class BodyLimits:
    """ASGI middleware: bounds bodies while their routes read them.

    A refused request is answered at once and its connection closed.

    Args:
        timeout_seconds: for a whole body, or for each `PROGRESS_BYTES` of a streamed one.
        limit_by_path: limits of paths that begin so, or of the path itself if its body is streamed.
    """

    app: ASGIApp
    max_bytes: int
    timeout_seconds: float
    limit_by_path: Mapping[str, BodyLimit] = field(default_factory=dict)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        limit, headers = self._limit(str(scope["path"])), Headers(scope=scope)
        scope.setdefault("state", {})["body_limit"] = limit
        body = RequestBody(scope, receive, send, limit=limit, seconds=self.timeout_seconds)
        try:
            _check_headers(headers, limit)
        except BadRequest as error:
            response = error_response(scope, error)
            if isinstance(error, UnsupportedBody):
                # RFC 9110, section 15.5.16: it tells a wrong coding from a wrong type.
                response.headers["Accept-Encoding"] = "identity"
            await response(scope, receive, body.send)
            return
        with contextlib.suppress(ClientDisconnect):
            await self.app(scope, body.receive, body.send)

    def _limit(self, path: str) -> BodyLimit:
        for start, limit in self.limit_by_path.items():
            if path == start or (path.startswith(start) and not limit.is_streamed):
                return limit
        return BodyLimit(self.max_bytes)


class RequestBody:
    """Stands between the server and an app that reads a body.

    `receive` raises BodyTooLarge beyond the limit, and BodyTooSlow if the body does not arrive in time: a streamed one
    must make progress, and time in which the app does not ask does not count. A response that is sent before the body
    has arrived closes the connection.
    """

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, *, limit: BodyLimit = _NOTHING, seconds: float = 0.0
    ) -> None:
        headers = Headers(scope=scope)
        has_body = "transfer-encoding" in headers or headers.get("content-length", "0") != "0"
        self._has_arrived = not has_body
        self._receive = receive
        self._send = send
        self._limit = limit
        self._seconds = self._seconds_left = seconds
        self._progress_bytes = self._arrived_bytes = 0

    async def receive(self) -> Message:
        if self._has_arrived:
            return await self._receive()
        loop = asyncio.get_running_loop()
        asked = loop.time()
        try:
            async with asyncio.timeout(self._seconds_left):
                message = await self._receive()
        except TimeoutError:
            if self._limit.is_streamed:
                few = CodedText("body_too_slow", bytes=PROGRESS_BYTES, seconds=self._seconds)
                raise BodyTooSlow(few) from None
            raise BodyTooSlow(CodedText("body_not_arrived", seconds=self._seconds)) from None
        size = len(message.get("body", b""))
        self._seconds_left -= loop.time() - asked
        self._progress_bytes += size
        if self._limit.is_streamed and self._progress_bytes >= PROGRESS_BYTES:
            self._seconds_left, self._progress_bytes = self._seconds, 0
        self._arrived_bytes += size
        if self._arrived_bytes > self._limit.max_bytes:
            raise self._limit.error()
        self._has_arrived = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        """Send a piece of the response; the last one waits a moment for what still arrives, and discards it."""
        if self._has_arrived:
            await self._send(message)
        elif message["type"] == "http.response.start":
            MutableHeaders(scope=message)["Connection"] = "close"
            await self._send(message)
        elif message.get("more_body", False):
            await self._send(message)
        else:
            # The client has the whole response by its Content-Length.
            await self._send({**message, "more_body": True})
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LINGER_SECONDS):
                    while (await self._receive()).get("more_body", False):
                        pass
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})


def _check_headers(headers: Headers, limit: BodyLimit) -> None:
    codings = ",".join(headers.getlist("content-encoding")).lower().split(",")
    if any(coding.strip() not in ("", "identity") for coding in codings):
        raise UnsupportedBody(CodedText("body_coded"))
    lengths = headers.getlist("content-length")
    if lengths and "transfer-encoding" in headers:
        # RFC 9112, section 6.3: request smuggling
        raise MalformedBody(CodedText("length_or_chunks"))
    for length in lengths:
        match = CONTENT_LENGTH.fullmatch(length)
        if match is None and not (length.isascii() and length.isdigit()):
            raise MalformedBody(CodedText("length_is_no_number"))
        if match is None or int(match[1]) > limit.max_bytes:
            raise limit.error()
