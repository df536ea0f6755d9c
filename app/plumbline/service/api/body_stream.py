"""Request bodies read as they arrive, bounded in bytes and time, and expanded when sent as gzip."""

import asyncio
import contextlib
import zlib
from typing import Final, NamedTuple

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from plumbline.ground.errors import BodyTooLarge, BodyTooSlow, MalformedBody, UnsupportedBody
from plumbline.retrieval.text_file import MAX_EXPANSION, MAX_GZIP_MEMBERS, UNWATCHED_BYTES

# Bytes that must arrive within the timeout of a small body.
PROGRESS_BYTES: Final = 16_384
# A socket closed with bytes unread is reset, and the reset can overtake the answer (RFC 9112, section 9.6).
_LINGER_SECONDS: Final = 1.0


class BodyLimit(NamedTuple):
    """Most bytes of a body, and advice for a larger one."""

    max_bytes: int
    advice: str = ""

    def error(self) -> BodyTooLarge:
        """Return the error of a body beyond the limit."""
        detail = f"the body has more than {self.max_bytes} bytes, the most that is read here"
        return BodyTooLarge(f"{detail}; {self.advice}" if self.advice else detail)


class StreamedBody:
    """Stands between the server and an app that reads a body piece by piece.

    `receive` raises BodyTooLarge, or BodyTooSlow if fewer than `PROGRESS_BYTES` arrive within the timeout; time in
    which the app does not ask does not count. A response before the end of the body closes the connection; `unread`
    reads the rest of a discarded body, where `receive` expands it.
    """

    def __init__(
        self,
        receive: Receive,
        send: Send,
        *,
        max_bytes: int,
        progress_seconds: float,
        unread: Receive | None = None,
    ) -> None:
        self._receive = receive
        self._unread = unread or receive
        self._send = send
        self._max_bytes = max_bytes
        self._progress_seconds = progress_seconds
        self._seconds_left = progress_seconds
        self._progress_bytes = 0
        self._bytes = 0
        self._is_whole = False

    async def receive(self) -> Message:
        """Return the next piece of the body; after its end, the server's messages."""
        if self._is_whole:
            return await self._receive()
        message = await self._next()
        if message["type"] == "http.disconnect":
            self._is_whole = True
            return message
        self._bytes += len(message.get("body", b""))
        if self._bytes > self._max_bytes:
            raise BodyLimit(self._max_bytes).error()
        self._is_whole = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        """Send a piece of the response."""
        if self._is_whole:
            await self._send(message)
        elif message["type"] == "http.response.start":
            MutableHeaders(scope=message)["Connection"] = "close"
            await self._send(message)
        elif message.get("more_body", False):
            await self._send(message)
        else:
            await end_early(message, self._unread, self._send)

    async def _next(self) -> Message:
        loop = asyncio.get_running_loop()
        asked = loop.time()
        try:
            async with asyncio.timeout(self._seconds_left):
                message = await self._receive()
        except TimeoutError:
            raise BodyTooSlow(
                f"fewer than {PROGRESS_BYTES} bytes of the body arrived within {self._progress_seconds:g} seconds"
            ) from None
        self._seconds_left -= loop.time() - asked
        self._progress_bytes += len(message.get("body", b""))
        if self._progress_bytes >= PROGRESS_BYTES:
            self._seconds_left, self._progress_bytes = self._progress_seconds, 0
        return message


async def end_early(last: Message, receive: Receive, send: Send) -> None:
    """Send the last piece of a response to a request whose body was not fully read, so that the client can read it."""
    await send({**last, "more_body": True})
    # the client has the whole response (Content-Length); discard what still arrives for a moment
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_SECONDS):
            while (await receive()).get("more_body", False):
                pass
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def answer_early(response: Response, receive: Receive, send: Send) -> None:
    """Send a response to a request whose body was not fully read, and close the connection."""
    response.headers["Connection"] = "close"
    await send({"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers})
    await end_early({"type": "http.response.body", "body": response.body}, receive, send)


ACCEPTED_CODING: Final = "gzip"
_GZIP_FORM: Final = zlib.MAX_WBITS | 16
_PIECE_BYTES: Final = 131_072
# Compressed bytes per turn of the event loop: they expand to 4 MB or 800 members at most, in some 10 ms.
_BLOCK_BYTES: Final = 16_384


def is_gzip(headers: Headers) -> bool:
    """Return True if the body is gzipped; raise UnsupportedBody for another coding, or more than one."""
    sent = ",".join(headers.getlist("content-encoding")).lower().split(",")
    codings = [coding for each in sent if (coding := each.strip()) not in ("", "identity")]
    if codings and (len(codings) > 1 or codings[0] not in ("gzip", "x-gzip")):
        raise UnsupportedBody("of all Content-Encodings gzip is read here; send the body as gzip or uncompressed")
    return bool(codings)


def forget_coding(scope: Scope) -> None:
    """Remove the headers that held for the compressed body only."""
    stale = (b"content-encoding", b"content-length")
    scope["headers"] = [(name, value) for name, value in scope["headers"] if name.lower() not in stale]


class GunzippedBody:
    """Stands between the server and the reader of a body, within the limit compressed; the reader limits more."""

    def __init__(self, receive: Receive, limit: BodyLimit) -> None:
        self._receive = receive
        self._limit = limit
        self._inflater = zlib.decompressobj(_GZIP_FORM)
        self._members = 1
        self._arrived = memoryview(b"")
        # the next input of the inflater, small because the end of a member copies the rest
        self._block = b""
        self._sent_bytes = 0
        self._made_bytes = 0
        self._has_more = True
        self._is_whole = False

    async def receive(self) -> Message:
        """Return the next expanded piece of the body; after its end, the server's messages.

        Raises:
            MalformedBody: no gzip, damaged or cut off, more than 65,536 members, or followed by other data.
            BodyTooLarge: it is beyond the limit, or expands more than 250 times.
        """
        while not self._is_whole:
            if self._has_more and not self._block and not self._arrived:
                message = await self._receive()
                if message["type"] == "http.disconnect":
                    return message
                self._arrived = memoryview(message.get("body", b""))
                self._has_more = message.get("more_body", False)
                self._sent_bytes += len(self._arrived)
                if self._sent_bytes > self._limit.max_bytes:
                    raise self._limit.error()
            elif not self._block:
                # let other requests run, though the body is here already
                await asyncio.sleep(0)
            made = self._expanded()
            has_ended = not (self._has_more or self._block or self._arrived)
            is_within_member = self._sent_bytes > 0 and not self._inflater.eof
            self._is_whole = has_ended and not (made and is_within_member)
            if self._is_whole and is_within_member:
                raise MalformedBody("the gzip body ends too early; was it cut off?")
            if made or self._is_whole:
                return {"type": "http.request", "body": made, "more_body": not self._is_whole}
        return await self._receive()

    async def unread(self) -> Message:
        """Return the rest of the body as it was sent, to be discarded."""
        if not self._has_more:
            return {"type": "http.request", "body": b"", "more_body": False}
        message = await self._receive()
        self._has_more = message.get("more_body", False)
        return message

    def _expanded(self) -> bytes:
        if not self._block:
            self._block, self._arrived = bytes(self._arrived[:_BLOCK_BYTES]), self._arrived[_BLOCK_BYTES:]
        if self._inflater.eof and self._block:
            # RFC 1952, section 2.2: members follow one another
            self._members += 1
            if self._members > MAX_GZIP_MEMBERS:
                raise MalformedBody(f"the gzip body has more than {MAX_GZIP_MEMBERS} members; compress it in one piece")
            self._inflater = zlib.decompressobj(_GZIP_FORM)
        try:
            made = self._inflater.decompress(self._block, _PIECE_BYTES)
        except zlib.error:
            raise MalformedBody("the body is not the gzip that its Content-Encoding says, or is damaged") from None
        self._block = self._inflater.unused_data if self._inflater.eof else self._inflater.unconsumed_tail
        self._made_bytes += len(made)
        read = self._sent_bytes - len(self._arrived) - len(self._block)
        if self._made_bytes > max(UNWATCHED_BYTES, MAX_EXPANSION * read):
            raise BodyTooLarge(f"the body expands to more than {MAX_EXPANSION} times of what was sent")
        return made
