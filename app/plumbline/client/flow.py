"""Many samples: several chunks under way, their rows handed on as they come or in order."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final, Generic, NamedTuple, TypeVar

from plumbline.client.batches import answered
from plumbline.client.chunks import Chunks
from plumbline.client.connection import Connection
from plumbline.client.row import Row
from plumbline.client.samples import AnySample

S = TypeVar("S", bound=AnySample)

DEFAULT_IN_FLIGHT: Final = 128
DEFAULT_BATCH_SIZE: Final = 32


class _Answered(NamedTuple, Generic[S]):
    """A row; `is_last`: of its chunk."""

    row: Row[S]
    is_last: bool


class _Ended(NamedTuple):
    """A worker has ended; `error`: what ended it, None where there were no more samples."""

    error: BaseException | None


class Flow(Generic[S]):
    """Sends chunks, at most `at_once` of them begun and not yet taken whole by the caller."""

    def __init__(self, connection: Connection, chunks: Chunks[S], options: bytes, *, at_once: int) -> None:
        self._connection = connection
        self._chunks = chunks
        self._options = options
        self._at_once = at_once
        self._slots = asyncio.Semaphore(at_once)
        self._reading = asyncio.Lock()
        self._came: asyncio.Queue[_Answered[S] | _Ended] = asyncio.Queue()

    async def rows(self, *, in_order: bool) -> AsyncGenerator[Row[S], None]:
        """Each sample's row. Close it (`contextlib.aclosing`) when not all is taken: what is under way then ends.

        Raises:
            ClientError: what was in the way; rows that came before it are given first, those apart that wait for an
                earlier one where `in_order`.
        """
        tasks = [asyncio.create_task(self._work()) for _ in range(self._at_once)]
        waiting: dict[int, _Answered[S]] = {}
        due, running = 0, len(tasks)
        try:
            while running:
                came = await self._came.get()
                if isinstance(came, _Ended):
                    if came.error is not None:
                        raise came.error
                    running -= 1
                elif not in_order:
                    yield self._taken(came)
                else:
                    waiting[came.row.index] = came
                    while (ready := waiting.pop(due, None)) is not None:
                        due += 1
                        yield self._taken(ready)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _taken(self, came: _Answered[S]) -> Row[S]:
        if came.is_last:
            self._slots.release()
        return came.row

    async def _work(self) -> None:
        error: BaseException | None = None
        try:
            while await self._chunk_done():
                pass
        except Exception as failure:
            error = failure
        self._came.put_nowait(_Ended(error))

    async def _chunk_done(self) -> bool:
        """Sends the next chunk and hands on its rows; false when there are no more."""
        await self._slots.acquire()
        async with self._reading:
            chunk = await self._chunks.take()
        left = len(chunk)
        async with aclosing(answered(self._connection, chunk, self._options)) as rows:
            async for row in rows:
                left -= 1
                self._came.put_nowait(_Answered(row, is_last=left == 0))
        if not chunk:
            self._slots.release()
        return bool(chunk)
