"""What delivers work to workers on several machines: the seam at which one queue stands for another."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from plumbline.rows.jobs.chunk_table import ChunkName
from plumbline.rows.jobs.sql import Sql

# Leases the chunk, if it still is to be done, and works on it to its end.
Process = Callable[[ChunkName], Awaitable[None]]


class Engine(Protocol):
    """Delivers names of chunks. The store is the truth: a message lost, late or delivered twice harms nothing."""

    def enqueue(self, sql: Sql, chunks: Sequence[ChunkName]) -> None:
        """Messages for those chunks that have none waiting, sent when the transaction is committed."""

    def cancel(self, sql: Sql, job_id: str) -> None:
        """No message of the job waits any more."""

    async def run_worker(self, process: Process, *, at_once: int) -> None:
        """Calls `process` for messages, `at_once` of them at one time; until cancelled, through failures of the queue.

        When cancelled it begins nothing more, and ends with what is under way.
        """
