"""Jobs of several machines: a worker on what the queue delivers, and the loop that looks after what others leave."""

import asyncio
from typing import Final, Protocol

import structlog

from plumbline.ground.errors import StoreUnavailable
from plumbline.ground.telemetry import log_failure
from plumbline.rows.jobs.chunk_table import ChunkName
from plumbline.rows.jobs.engine import Engine
from plumbline.rows.jobs.job import Lease
from plumbline.rows.jobs.worker import Worker

_RESCUE_SECONDS: Final = 1.0


class SharedStore(Protocol):
    """What is asked of a store here besides what a `JobStore` does."""

    async def lease_chunk(self, chunk: ChunkName) -> Lease | None: ...

    async def rescue(self) -> None: ...


class QueueWorker:
    """Has a worker work on chunks that messages name, `at_once` of them at one time, from `run` until `stop`."""

    def __init__(self, store: SharedStore, engine: Engine, worker: Worker, *, at_once: int) -> None:
        self._store = store
        self._engine = engine
        self._worker = worker
        self._at_once = at_once
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to take messages."""
        work = self._engine.run_worker(self._process, at_once=self._at_once)
        self._running = asyncio.get_running_loop().create_task(work)

    async def stop(self, seconds: float) -> None:
        """Takes no more messages; rows under way get so many seconds, then all chunks are given back."""
        if self._running is None:
            return
        self._running.cancel()
        await self._worker.stop(seconds)
        await asyncio.gather(self._running, return_exceptions=True)

    async def _process(self, chunk: ChunkName) -> None:
        await self._worker.work_on(lambda: self._store.lease_chunk(chunk))


async def keep_rescuing(store: SharedStore) -> None:
    """Has the store looked after about once a second, until cancelled. Not by a message: that could be stuck too."""
    while True:
        try:
            await store.rescue()
        except StoreUnavailable as error:
            structlog.get_logger().debug("rescue_waits_for_store", detail=str(error))
        except Exception as error:
            log_failure(error, "rescue_failed")
        await asyncio.sleep(_RESCUE_SECONDS)
