"""One call that waits for texts, in its own event loop, while threads work on them."""

import asyncio
import contextlib


class Waiter:
    """Made in the loop of the call; `texts_left` is counted down by whoever holds the encoder's lock."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._end: asyncio.Future[None] = self._loop.create_future()
        self.texts_left = 0

    def wake(self, error: BaseException | None = None) -> None:
        """Ends the wait, from any thread; does nothing once the loop is closed."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._finish, error)

    async def wait(self, seconds: float) -> None:
        """Raises:
        TimeoutError: nothing ended it in time; otherwise what `wake` was given.
        """
        await asyncio.wait_for(self._end, None if seconds == float("inf") else max(0.0, seconds))

    def _finish(self, error: BaseException | None) -> None:
        if self._end.done():
            return
        if error is None:
            self._end.set_result(None)
        else:
            self._end.set_exception(error)
