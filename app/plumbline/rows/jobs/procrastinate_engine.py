"""Procrastinate: messages in tables of the same database, so that they and a job's rows are committed together."""

import asyncio
from collections.abc import Sequence
from itertools import islice
from typing import Final, cast

import structlog
from procrastinate import App, PsycopgConnector, SyncPsycopgConnector
from procrastinate.exceptions import AlreadyEnqueued, ConnectorException
from procrastinate.jobs import Job, Status
from procrastinate.manager import JobManager
from psycopg_pool import AsyncConnectionPool

from plumbline.rows.jobs.chunk_table import ChunkName
from plumbline.rows.jobs.engine import Process
from plumbline.rows.jobs.postgres_database import PostgresSql
from plumbline.rows.jobs.sql import Sql

_QUEUE: Final = "plumbline"
_TASK: Final = "plumbline.process_chunk"
_AT_ONCE: Final = 500
_HEARTBEAT_SECONDS, _STALLED_SECONDS = 5.0, 30.0
_POLL_SECONDS: Final = 2.0
_RETRY_SECONDS: Final = 1.0
# After so long what is under way when the process is to end is left; the worker's own time to drain is shorter.
_END_SECONDS: Final = 10.0
_LOG = structlog.get_logger()


class ProcrastinateEngine:
    """`Engine` on the tables of Procrastinate in the store's own schema.

    Chunks of several jobs take turns: the first of each come before the second ones.

    Args:
        conninfo: of the database, as the store's.
    """

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        # Writes into transactions that are given to it; it has no connection of its own.
        self._manager = JobManager(SyncPsycopgConnector())

    def enqueue(self, sql: Sql, chunks: Sequence[ChunkName]) -> None:
        """As `Engine.enqueue`; `sql` is a transaction of the same database."""
        rest = iter(chunks)
        while batch := list(islice(rest, _AT_ONCE)):
            waiting = sql.execute(
                # Kept from workers until what it tells of is committed: one that looked before would find nothing new.
                "SELECT queueing_lock FROM procrastinate_jobs WHERE status = 'todo' AND queueing_lock = ANY(?)"
                " FOR SHARE",
                ([_lock_of(chunk) for chunk in batch],),
            )
            known = {lock for (lock,) in waiting}
            self._defer(cast(PostgresSql, sql), [chunk for chunk in batch if _lock_of(chunk) not in known])

    def cancel(self, sql: Sql, job_id: str) -> None:
        """As `Engine.cancel`."""
        sql.execute(
            "SELECT procrastinate_cancel_job_v1(id, false, true) FROM procrastinate_jobs"
            " WHERE status = 'todo' AND queueing_lock LIKE ?",
            (f"{job_id}:%",),
        )

    async def run_worker(self, process: Process, *, at_once: int) -> None:
        """As `Engine.run_worker`."""
        while True:
            try:
                await self._run(process, at_once)
            except (ConnectorException, OSError) as error:
                _LOG.warning("queue_failed", error=type(error).__name__)
            # It also ends by itself when the database goes away.
            await asyncio.sleep(_RETRY_SECONDS)

    def _defer(self, sql: PostgresSql, chunks: Sequence[ChunkName]) -> None:
        if not chunks:
            return
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
            for chunk in chunks
        ]
        try:
            with sql.connection.transaction():
                self._manager.batch_defer_jobs(jobs, connection=sql.connection)
        except AlreadyEnqueued:
            # Somebody else was quicker with one of them; those that lack theirs are found at the next look.
            _LOG.debug("chunk_enqueued_twice")

    async def _run(self, process: Process, at_once: int) -> None:
        app = App(connector=PsycopgConnector())

        @app.task(name=_TASK, queue=_QUEUE)
        async def process_chunk(job: str, n: int) -> None:
            await process(ChunkName(job, n))

        # Failing attempts to connect are given up soon, or a database that is back would be found late.
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
    """Takes away messages whose worker has ended while it had them: the store sees to their chunks."""
    while True:
        try:
            await app.job_manager.prune_stalled_workers(_STALLED_SECONDS)
            for job in await app.job_manager.get_stalled_jobs(queue=_QUEUE, seconds_since_heartbeat=_STALLED_SECONDS):
                await app.job_manager.finish_job(job, status=Status.FAILED, delete_job=True)
        except ConnectorException:
            # A query that is cancelled may end by an error of its own, which hides that this task is to end.
            if (task := asyncio.current_task()) is not None and task.cancelling():
                return
            # Away, or another worker was quicker.
            _LOG.debug("messages_not_retired")
        await asyncio.sleep(_STALLED_SECONDS)


def _lock_of(chunk: ChunkName) -> str:
    return f"{chunk.job_id}:{chunk.n}"
