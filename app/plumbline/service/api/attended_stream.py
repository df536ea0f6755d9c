"""An answer sent piece by piece, for as long as there is somebody to read it."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

# nginx would keep the pieces back until there are many.
_UNBUFFERED = {"X-Accel-Buffering": "no"}


class AttendedStream(Response):
    """Sends each piece before the next is asked for, so that a slow reader slows down whoever makes them.

    When the caller leaves, the pieces are closed at once, and have ended before the request has. Starlette's own
    streaming response leaves that to the garbage collector when the caller leaves while a piece is being sent.

    Args:
        pieces: opens the stream of pieces.
        media_type: of the whole.
    """

    def __init__(
        self,
        pieces: Callable[[], AsyncGenerator[bytes, None]],
        media_type: str,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(media_type=media_type, headers={**_UNBUFFERED, **(headers or {})})
        # its length is not known
        del self.headers["content-length"]
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.create_task(self._send(send))
        leaving = asyncio.create_task(_left(receive))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            is_sent = sending.done()
            sending.cancel()
            leaving.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)
        if is_sent:
            # raises what the pieces raised
            sending.result()

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async with aclosing(self._pieces()) as pieces:
            async for piece in pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _left(receive: Receive) -> None:
    """Returns when the caller has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
