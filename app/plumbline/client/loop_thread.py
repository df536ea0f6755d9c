"""An event loop on a background thread, for callers without one and for those inside a running one."""

import asyncio
import queue
import threading
import weakref
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterator
from concurrent.futures import CancelledError
from contextlib import aclosing
from typing import Any, Final, Generic, NamedTuple, TypeVar

from plumbline.client.batches import End
from plumbline.client.failures import ClientClosed

T = TypeVar("T")
S = TypeVar("S")

# Items fetched ahead: a switch of threads for each would cost more than all else.
_AHEAD: Final = 32


class LoopThread:
    """Run coroutines for other threads; a daemon thread. anyio's portal has no `iterate`, and is no dependency here."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=_run, args=(self._loop,), name="plumbline-client", daemon=True)
        self._thread.start()
        self._finalizer = weakref.finalize(self, _stop, self._loop, self._thread)

    @property
    def is_open(self) -> bool:
        """True until it is closed."""
        return self._finalizer.alive

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and return its result; it is cancelled when the caller is interrupted."""
        if not self.is_open:
            coroutine.close()
            raise ClientClosed("the client is closed")
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except CancelledError:
            raise ClientClosed("the client was closed") from None
        except BaseException:
            future.cancel()
            raise

    def iterate(self, items: AsyncGenerator[T, None], *, feed: "Feed[Any] | None" = None) -> Generator[T, None, None]:
        """Yield the items, produced on the loop at most a few ahead; closing this ends their producer.

        `feed` is read on the thread that iterates, while it waits for the loop.
        """
        box = _Box[T](self._loop, feed)
        task = self.run(_started(lambda: box.fill(items)))
        try:
            yield from box.items()
        finally:
            if self.is_open:
                self.run(_ended(task))

    def close(self) -> None:
        """Stop the loop and what runs on it; idempotent."""
        self._finalizer()


class _Over(NamedTuple):
    error: BaseException | None


class _Wanted(NamedTuple):
    """A request of the loop for items of the feed."""


class Feed(Generic[S]):
    """An iterator that is read on the caller's thread: a database cursor, for one, allows no other.

    Args:
        at_once: items passed to the loop together.
    """

    def __init__(self, items: Iterator[S], *, at_once: int) -> None:
        self._items = items
        self._at_once = at_once
        self._drawn: list[S | End] = []
        self._given: asyncio.Queue[list[S | End]] = asyncio.Queue()
        self._buffer: list[S | End] = []
        self.ask: Callable[[], None] = lambda: None

    async def next(self) -> S | End:
        """Return the next item; called on the loop."""
        if not self._buffer:
            self.ask()
            self._buffer = (await self._given.get())[::-1]
        return self._buffer.pop()

    def draw(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Read one item, on the caller's thread; return True if a full group was passed to the loop."""
        item = next(self._items, End())
        self._drawn.append(item)
        is_enough = isinstance(item, End) or len(self._drawn) == self._at_once
        if is_enough:
            loop.call_soon_threadsafe(self._given.put_nowait, self._drawn)
            self._drawn = []
        return is_enough


class _Box(Generic[T]):
    """A bounded queue from the loop to the iterating thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, feed: Feed[Any] | None) -> None:
        self._loop = loop
        self._feed = feed
        self._room = asyncio.Semaphore(_AHEAD)
        self._came: queue.SimpleQueue[T | _Over | _Wanted] = queue.SimpleQueue()
        if feed is not None:
            feed.ask = lambda: self._came.put(_Wanted())

    async def fill(self, items: AsyncGenerator[T, None]) -> None:
        """Put the items in, with backpressure."""
        try:
            async with aclosing(items) as made:
                async for item in made:
                    await self._room.acquire()
                    self._came.put(item)
        except asyncio.CancelledError:
            self._came.put(_Over(ClientClosed("the client was closed")))
            raise
        except BaseException as error:
            self._came.put(_Over(error))
        else:
            self._came.put(_Over(None))

    def items(self) -> Iterator[T]:
        """Yield the items, on the iterating thread."""
        is_wanted = False
        while True:
            try:
                came = self._came.get(block=not is_wanted)
            except queue.Empty:
                is_wanted = self._feed is not None and not self._feed.draw(self._loop)
                continue
            if isinstance(came, _Wanted):
                is_wanted = True
            elif isinstance(came, _Over):
                if came.error is not None:
                    raise came.error
                return
            else:
                self._loop.call_soon_threadsafe(self._room.release)
                yield came


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    loop.call_soon_threadsafe(loop.stop)
    # Collected on the loop's own thread, it cannot wait for itself.
    if thread is not threading.current_thread():
        thread.join()


async def _started(work: Callable[[], Coroutine[Any, Any, None]]) -> "asyncio.Task[None]":
    return asyncio.create_task(work())


async def _ended(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait({task})
