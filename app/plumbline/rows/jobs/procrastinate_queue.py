"""Queue of chunks on Procrastinate: messages are committed with a job's rows, in the same database."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from typing import Final, cast

import structlog
from procrastinate import App, PsycopgConnector, SyncPsycopgConnector
from procrastinate.exceptions import AlreadyEnqueued, ConnectorException
from procrastinate.jobs import Job, Status
from procrastinate.manager import JobManager
from psycopg_pool import AsyncConnectionPool

from plumbline.rows.jobs.chunk_table import ChunkName
from plumbline.rows.jobs.postgres_database import PostgresSql
from plumbline.rows.jobs.sql import Sql

# Leases the chunk if it is still pending, and processes it to its end.
Process = Callable[[ChunkName], Awaitable[None]]

_QUEUE: Final = "plumbline"
_TASK: Final = "plumbline.process_chunk"
_AT_ONCE: Final = 500
_HEARTBEAT_SECONDS, _STALLED_SECONDS = 5.0, 30.0
_POLL_SECONDS: Final = 2.0
_RETRY_SECONDS: Final = 1.0
# Bound of a graceful shutdown; the worker's own time to drain is shorter.
_END_SECONDS: Final = 10.0
_LOG = structlog.get_logger()


class ProcrastinateEngine:
    """Queue that delivers names of chunks, on the tables of Procrastinate in the store's schema.

    The store is the source of truth: a message lost, late or delivered twice is harmless. Jobs take turns: the first
    chunk of each comes before the second ones.
    """

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        # Writes into the transactions of the store; it has no connection of its own.
        self._manager = JobManager(SyncPsycopgConnector())

    def enqueue(self, sql: Sql, chunks: Sequence[ChunkName]) -> None:
        """Enqueue the chunks that have no waiting message; delivered once the transaction is committed."""
        rest = iter(chunks)
        while batch := list(islice(rest, _AT_ONCE)):
            waiting = sql.execute(
                # Locked from workers until the chunks are committed: one that looked before would find nothing.
                "SELECT queueing_lock FROM procrastinate_jobs WHERE status = 'todo' AND queueing_lock = ANY(?)"
                " FOR SHARE",
                ([_lock_of(chunk) for chunk in batch],),
            )
            known = {lock for (lock,) in waiting}
            jobs = [
                Job(
                    id=None,
                    queue=_QUEUE,
                    lock=None,
                    queueing_lock=_lock_of(chunk),
                    task_name=_TASK,
                    priority=-chunk.n,
                    task_kwargs={"job": chunk.job_id, "n": chunk.n},
                )
                for chunk in batch
                if _lock_of(chunk) not in known
            ]
            if not jobs:
                continue
            connection = cast(PostgresSql, sql).connection
            try:
                with connection.transaction():
                    self._manager.batch_defer_jobs(jobs, connection=connection)
            except AlreadyEnqueued:
                # Another process was quicker with one of them; missing messages are found by the next rescue.
                _LOG.debug("chunk_enqueued_twice")

    def cancel(self, sql: Sql, job_id: str) -> None:
        sql.execute(
            "SELECT procrastinate_cancel_job_v1(id, false, true) FROM procrastinate_jobs"
            " WHERE status = 'todo' AND queueing_lock LIKE ?",
            (f"{job_id}:%",),
        )

    async def run_worker(self, process: Process, *, at_once: int) -> None:
        """Call `process` for messages, up to `at_once` concurrently, until cancelled; survive failures of the queue.

        When cancelled it starts nothing new, and returns once the calls in flight have ended.
        """
        while True:
            try:
                await self._run(process, at_once)
            except (ConnectorException, OSError) as error:
                _LOG.warning("queue_failed", error=type(error).__name__)
            # It also ends when the database is unavailable.
            await asyncio.sleep(_RETRY_SECONDS)

    async def _run(self, process: Process, at_once: int) -> None:
        app = App(connector=PsycopgConnector())

        @app.task(name=_TASK, queue=_QUEUE)
        async def process_chunk(job: str, n: int) -> None:
            await process(ChunkName(job, n))

        # Short timeouts, so that a database that is back is found soon.
        pool = AsyncConnectionPool(
            self._conninfo, min_size=1, max_size=3, open=False, timeout=5.0, reconnect_timeout=2.0, name="queue"
        )
        async with pool, app.open_async(pool):
            retiring = asyncio.create_task(_retire(app))
            try:
                await app.run_worker_async(
                    queues=[_QUEUE],
                    name=_QUEUE,
                    concurrency=at_once,
                    install_signal_handlers=False,
                    delete_jobs="always",
                    fetch_job_polling_interval=_POLL_SECONDS,
                    update_heartbeat_interval=_HEARTBEAT_SECONDS,
                    stalled_worker_timeout=_STALLED_SECONDS,
                    shutdown_graceful_timeout=_END_SECONDS,
                )
            finally:
                retiring.cancel()
                await asyncio.gather(retiring, return_exceptions=True)


async def _retire(app: App) -> None:
    """Delete the messages of dead workers; the store rescues their chunks."""
    while True:
        try:
            await app.job_manager.prune_stalled_workers(_STALLED_SECONDS)
            for job in await app.job_manager.get_stalled_jobs(queue=_QUEUE, seconds_since_heartbeat=_STALLED_SECONDS):
                await app.job_manager.finish_job(job, status=Status.FAILED, delete_job=True)
        except ConnectorException:
            # A cancelled query may raise an error of its own, which hides the cancellation.
            if (task := asyncio.current_task()) is not None and task.cancelling():
                return
            # Unavailable, or another worker was quicker.
            _LOG.debug("messages_not_retired")
        await asyncio.sleep(_STALLED_SECONDS)


def _lock_of(chunk: ChunkName) -> str:
    return f"{chunk.job_id}:{chunk.n}"
