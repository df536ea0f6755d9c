"""Workers that are killed while three of them work on a job; `benchmarks/kill_workers.py` does it at length."""

from pathlib import Path

import pytest
from sqlalchemy import func, select

from benchmarks.kill_workers import CONCURRENCY, WORKERS, Fleet, environment
from plumbline.ground.store.tables import CHUNK
from plumbline.main import create_app
from plumbline.rows.jobs.chunk_run import Pace
from plumbline.rows.jobs.job import JobState
from plumbline.rows.jobs.store import JobStore
from tests.doubles.fakes import WordEncoder
from tests.making.job_rows import ended, lines_of, submitted
from tests.running.job_stores import PostgresStores
from tests.running.judge_process import judge_process, row
from tests.running.kill_trial import KillTrial
from tests.running.killable_service import killable_service, work
from tests.running.postgres_server import PostgresServer
from tests.running.service import plain_settings


@pytest.mark.timeout(180)
async def test_killed_workers_lose_change_and_repeat_nothing(postgres_server: PostgresServer, tmp_path: Path) -> None:
    url = postgres_server.new_database()
    store = PostgresStores(url, tmp_path, schema="plumbline").open()
    with judge_process(latency_seconds=0.01) as judge:
        settings = environment(judge.base_url, url, tmp_path)
        with killable_service(settings, work) as service:
            fleet = Fleet(service, seed=3)
            trial = await KillTrial(store, judge, fleet.kill, seed=3).run(450, 2, between=(1.0, 1.5))
            assert fleet.end() == [0] * WORKERS
        leases = await store._database.read(
            lambda sql: sql.execute(select(func.max(CHUNK.c.fence), func.max(CHUNK.c.deaths))).one()
        )
    await store.close()

    assert trial.kills > 0
    # What was in flight, and what waited to be committed with it.
    assert trial.repeated <= trial.kills * (CONCURRENCY + Pace().group_rows)
    # What was taken from a worker was taken from one that was killed; those that lived kept theirs.
    assert leases[0] <= 1 + leases[1] <= 1 + trial.kills


async def test_a_service_that_works_on_none_hands_its_jobs_to_one_that_does(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    url = postgres_server.new_database()
    settings = [
        plain_settings(database_url=url, data_dir=tmp_path / str(rows), job_concurrency=rows, deadline_seconds=60)
        for rows in (0, 8)
    ]
    front, worker = (create_app(each, encoder=WordEncoder()) for each in settings)
    async with front.router.lifespan_context(front), worker.router.lifespan_context(worker):
        store: JobStore = front.state.jobs
        rows = [row(number) for number in range(150)]
        job = await submitted(store, [*rows, "{torn"], options=b'{"tiers": ["lexical"]}')
        done = await ended(store, job.id)
        lines = await lines_of(store, job.id)

    assert (done.state, done.counts.done, done.total) == (JobState.COMPLETED_WITH_ERRORS, 151, 151)
    assert [line["custom_id"] for line in lines[:150]] == [each["custom_id"] for each in rows]
    assert {line["result"]["tier"] for line in lines[:150]} == {"lexical"}
    assert lines[150]["line"] == 151
    # Nothing of it was left on the machine that took it.
    assert not [path for path in (tmp_path / "0").rglob("*") if path.is_file() and path.stat().st_size]
