"""Workers that poll a real PostgreSQL: each chunk has one owner, and none is forgotten."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from sqlalchemy import text

from plumbline.ground.errors import ConfigurationError, StoreUnavailable
from plumbline.ground.store.postgres import connection_string
from plumbline.rows.jobs.chunk_run import Pace, PauseReason, never_pause
from plumbline.rows.jobs.job import JobState, NewJob
from plumbline.rows.jobs.store import JobStore
from plumbline.rows.jobs.worker import Worker
from tests.making.job_rows import TENANT, Handler, ended, lines_of, rows_of, submitted, until, upload
from tests.running.job_stores import PostgresStores
from tests.running.postgres_server import PostgresServer

ROWS = 450


@pytest.fixture
async def store(postgres_stores: PostgresStores) -> AsyncIterator[JobStore]:
    store = postgres_stores.open()
    yield store
    await store.close()


@contextlib.asynccontextmanager
async def working(
    stores: PostgresStores, handler: Handler, *, pause_reason: PauseReason = never_pause, **pace: Any
) -> AsyncIterator[JobStore]:
    """A worker of its own store, looking after the chunks of others, too, while the context lasts."""
    store = stores.open()
    quick = Pace(**{"renew_seconds": 0.05, "group_seconds": 0.01, "poll_seconds": 0.05, **pace})
    worker = Worker(store, handler.of, quick, pause_reason=pause_reason)
    running, rescuing = asyncio.create_task(worker.run()), asyncio.create_task(store.keep_rescuing())
    try:
        yield store
    finally:
        handler.gate.set()
        await worker.stop(5.0)
        rescuing.cancel()
        await asyncio.gather(running, rescuing, return_exceptions=True)
        await store.close()


async def asked(store: JobStore, query: str) -> list[Any]:
    """Rows of the database."""
    return await store._database.read(lambda sql: list(sql.execute(text(query))))


async def fences(store: JobStore) -> list[int]:
    """How often each chunk was leased."""
    return [fence for (fence,) in await asked(store, "SELECT fence FROM chunk ORDER BY job, n")]


async def test_chunks_of_a_worker_that_is_gone_are_done_by_another(postgres_stores: PostgresStores) -> None:
    dying = postgres_stores.open()
    job = await submitted(dying, rows_of(ROWS))
    leases = [await dying.lease() for _ in range(3)]
    # what a kill does: nothing is given back
    await postgres_stores.aged(dying, 11)
    await dying.close()
    handler = Handler()
    async with working(postgres_stores, handler) as store:
        done = await ended(store, job.id)

    assert None not in leases
    assert done.counts.done == ROWS
    assert sorted(handler.calls) == list(range(ROWS))


async def test_the_chunk_of_a_worker_that_lives_is_left_to_it(store: JobStore, postgres_stores: PostgresStores) -> None:
    job = await submitted(store, rows_of(100))
    lease = await store.lease()
    assert lease is not None
    other = postgres_stores.open()
    for _ in range(3):
        await other.rescue()
    await other.close()

    assert await fences(store) == [lease.fence]
    assert (await store.get(TENANT, job.id)).state is JobState.RUNNING


async def test_the_same_request_twice_at_once_is_one_job(store: JobStore) -> None:
    new = NewJob(TENANT, b"{}", idempotency_key="k1", fingerprint="f1")

    taken = await asyncio.gather(*(store.submit(new, upload(store, rows_of(200))) for _ in range(4)))

    assert len({each.job.id for each in taken}) == 1
    assert sum(each.is_new for each in taken) == 1
    assert len(await asked(store, "SELECT 1 FROM job")) == 1


async def test_a_job_goes_on_by_itself_when_the_server_was_killed(
    postgres_own_server: PostgresServer, postgres_own_stores: PostgresStores
) -> None:
    handler = Handler()
    async with working(postgres_own_stores, handler, concurrency=8) as store:
        job = await submitted(store, rows_of(ROWS))
        await until(lambda: len(handler.calls) > ROWS // 3)
        readable = await lines_of(store, job.id)
        postgres_own_server.kill()
        with pytest.raises(StoreUnavailable):
            await store.get(TENANT, job.id)
        with pytest.raises(StoreUnavailable):
            await store.submit(NewJob(TENANT, b"{}"), upload(store, rows_of(3)))
        postgres_own_server.start()
        done = await ended_through_failures(store, job.id)
        lines = await lines_of(store, job.id)

    assert (done, [line["row"] for line in lines]) == (JobState.COMPLETED, list(range(ROWS)))
    assert lines[: len(readable)] == readable
    # What was under way when the server went away waited for it.
    assert sorted(handler.calls) == list(range(ROWS))
    assert len(await jobs_of(postgres_own_stores)) == 1


async def ended_through_failures(store: JobStore, job_id: str) -> JobState:
    """The state that the job ends in; the store may not be reached at first."""
    while True:
        with contextlib.suppress(StoreUnavailable):
            return (await ended(store, job_id)).state
        await asyncio.sleep(0.01)


async def jobs_of(stores: PostgresStores) -> Sequence[object]:
    """All jobs, asked by a process that comes new."""
    store = stores.open()
    jobs = await store.jobs(TENANT, before=None, limit=10)
    await store.close()
    return jobs


@pytest.mark.parametrize("url", ["postgresql:/u:secret-word@h:x/y", "mysql://u:secret-word@h/y", "secret-word"])
def test_a_url_that_cannot_be_read_is_told_without_its_password(url: str) -> None:
    with pytest.raises(ConfigurationError, match="PLUMBLINE_DATABASE_URL: not an address") as caught:
        connection_string(url)

    assert "secret-word" not in str(caught.value)


async def test_a_schema_of_somebody_else_is_left_alone(
    store: JobStore, postgres_stores: PostgresStores, postgres_server: PostgresServer
) -> None:
    import psycopg

    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {postgres_stores.schema}".encode())
        connection.execute(f"CREATE TABLE {postgres_stores.schema}.job (theirs text)".encode())

    with pytest.raises(StoreUnavailable, match="tables of something else"):
        await store.jobs(TENANT, before=None, limit=1)
