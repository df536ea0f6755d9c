"""A body too large to be held: handed on as it arrives, bounded in bytes and in the time that nothing arrives."""

import asyncio
import contextlib
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.types import Message, Receive, Send

from plumbline.ground.errors import BodyTooLarge, BodyTooSlow

# What must arrive within the time in which a small body must be whole.
PROGRESS_BYTES: Final = 16_384
# A socket closed with bytes unread is reset, and the reset can overtake the answer (RFC 9112, section 9.6).
_LINGER_SECONDS: Final = 1.0


class StreamedBody:
    """Stands between the server and an app that reads a body piece by piece.

    `receive` raises BodyTooLarge, or BodyTooSlow when fewer than `PROGRESS_BYTES` and not the end arrived within the
    time; the time in which the app does not ask does not count. An answer before the end closes the connection.

    Args:
        unread: gives the rest of a body that is thrown away, where `receive` expands it.
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
        """The next piece; once the body is whole, what the server says."""
        if self._is_whole:
            return await self._receive()
        message = await self._next()
        if message["type"] == "http.disconnect":
            self._is_whole = True
            return message
        self._bytes += len(message.get("body", b""))
        if self._bytes > self._max_bytes:
            raise too_large(self._max_bytes)
        self._is_whole = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        """Hands a piece of the answer on."""
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
    """Sends the last piece of an answer to a body that was not read to its end, so that the caller gets to read it."""
    await send({**last, "more_body": True})
    # the caller has the whole answer (Content-Length); what is still under way is thrown away for a moment
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_SECONDS):
            while (await receive()).get("more_body", False):
                pass
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def too_large(max_bytes: int) -> BodyTooLarge:
    """What is said of a body beyond the limit."""
    return BodyTooLarge(f"the body has more than {max_bytes} bytes, the most that is read here")
